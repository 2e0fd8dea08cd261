#include "compiler/emit/order.hpp"

#include <algorithm>

namespace kpu::compiler {

using builder::Task;

namespace {

/// Elements of both that repeat with the same step, a's between b's.
bool interleave(const Span& a, const Span& b, size_t d) {
    if (a.step.rank == 0 || b.step.rank == 0 || a.step[d] == 0 || a.step[d] != b.step[d]) return false;
    const int64_t step = a.step[d], ahead = ((b.first[d] - a.first[d]) % step + step) % step;
    return ahead >= a.size[d] && ahead + b.size[d] <= step;
}

bool meet(const Span& a, const Span& b) {
    if (a.hi <= b.lo || b.hi <= a.lo) return false;
    if (a.frame == 0 || a.frame != b.frame) return true;
    for (size_t d = 0; d < a.first.rank; ++d) {
        if (a.first[d] + a.count[d] <= b.first[d] || b.first[d] + b.count[d] <= a.first[d]) return false;
        if (interleave(a, b, d)) return false;
    }
    return true;
}

/// Whoever meets `inner` meets `outer` too.
bool covers(const Span& outer, const Span& inner) {
    if (outer.dense) return outer.lo <= inner.lo && inner.hi <= outer.hi;
    if (outer.frame == 0 || outer.frame != inner.frame) return false;
    for (size_t d = 0; d < outer.first.rank; ++d) {
        if (outer.step.rank > 0 && outer.step[d] > outer.size[d]) return false;  // with gaps
        if (inner.first[d] < outer.first[d] ||
            inner.first[d] + inner.count[d] > outer.first[d] + outer.count[d])
            return false;
    }
    return true;
}

}  // namespace

std::vector<Task> Order::before(const std::vector<Span>& reads, const std::vector<Span>& writes,
                                std::vector<Task> others) const {
    const auto collect = [&](const Span& span, bool write) {
        const auto found = accesses_.find(span.buffer);
        if (found == accesses_.end()) return;
        for (const Access& access : found->second) {
            if ((write || access.write) && meet(access.span, span)) others.push_back(access.task);
        }
    };
    for (const Span& span : reads) collect(span, false);
    for (const Span& span : writes) collect(span, true);
    return last_of(std::move(others));
}

std::vector<Task> Order::last_of(std::vector<Task> tasks) const {
    std::sort(tasks.begin(), tasks.end(),
              [](const Task& a, const Task& b) { return a.statement() > b.statement(); });
    NumberSet known = waited_;
    std::vector<Task> last;
    for (const Task& task : tasks) {
        const bool repeated = !last.empty() && last.back().statement() == task.statement();
        if (repeated || (task.statement() < NumberSet::end && known.contains(task.statement()))) continue;
        add_complete(task, known);
        last.push_back(task);
    }
    std::reverse(last.begin(), last.end());
    return last;
}

/// Very long programs keep what they wait for needlessly.
void Order::add_complete(const Task& task, NumberSet& set) const {
    set.add(complete_[task.statement()]);
    if (task.statement() < NumberSet::end) set.insert(task.statement());
}

void Order::add_wait(const std::vector<Task>& tasks) {
    for (const Task& task : tasks) add_complete(task, waited_);
}

void Order::add(const Task& task, const std::vector<Task>& before, const std::vector<Span>& reads,
                const std::vector<Span>& writes) {
    NumberSet complete = waited_;
    for (const Task& earlier : before) add_complete(earlier, complete);
    complete_.resize(task.statement() + 1);
    complete_[task.statement()] = std::move(complete);
    for (const Span& span : writes) {
        // the task waited for all that it covers, so whoever waits for the task waits for them too
        std::vector<Access>& known = accesses_[span.buffer];
        const auto covered = [&](const Access& access) {
            return meet(span, access.span) && covers(span, access.span);
        };
        known.erase(std::remove_if(known.begin(), known.end(), covered), known.end());
        known.push_back({span, true, task});
    }
    for (const Span& span : reads) accesses_[span.buffer].push_back({span, false, task});
}

}  // namespace kpu::compiler
