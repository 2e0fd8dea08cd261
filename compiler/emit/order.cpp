#include "compiler/emit/order.hpp"

#include <algorithm>

namespace kpu::compiler {

using builder::Task;

namespace {

bool is_earlier(const Task& a, const Task& b) { return a.statement() < b.statement(); }

/// True for elements of both that repeat with the same step, a's between b's.
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

/// True if whoever meets `inner` meets `outer` too.
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

bool Order::meets(const Access& access, const Span& span) const {
    if (access.hi <= span.lo || span.hi <= access.lo) return false;
    return access.box < 0 || meet(boxes_[static_cast<size_t>(access.box)], span);
}

void Order::find(const Span& span, bool write, std::vector<Task>& found) const {
    const auto known = accesses_.find(span.buffer);
    if (known == accesses_.end()) return;
    const auto middle = static_cast<std::ptrdiff_t>(found.size());
    for (const Access& access : known->second) {
        if (!write && !access.write) continue;
        if (!meets(access, span)) continue;
        found.push_back(access.task);
        found.insert(found.end(), access.more.begin(), access.more.end());
    }
    if (!std::is_sorted(found.begin() + middle, found.end(), is_earlier))
        std::sort(found.begin() + middle, found.end(), is_earlier);
    std::inplace_merge(found.begin(), found.begin() + middle, found.end(), is_earlier);
}

std::vector<Task> Order::add(const Task& task, const std::vector<Span>& reads,
                             const std::vector<Span>& writes, std::vector<Task> others) {
    std::sort(others.begin(), others.end(), is_earlier);
    for (const Span& span : reads) find(span, false, others);
    for (const Span& span : writes) find(span, true, others);
    NumberSet complete = waited_;
    std::vector<Task> before = last_of(others, complete);
    start(task, std::move(complete));
    for (const Span& span : writes) touch(task, span, true);
    for (const Span& span : reads) {
        if (written_once_.count(span.buffer) == 0) touch(task, span, false);
    }
    return before;
}

void Order::add_free(const Task& task, const std::vector<Span>& writes) {
    start(task, {});
    for (const Span& span : writes) touch(task, span, true);
}

void Order::begin_form() {
    form_begin_ = static_cast<uint32_t>(complete_.size());
    waited_before_ = waited_;
    covers_.clear();
}

std::vector<Task> Order::end_form() {
    std::vector<Task> last = last_of(std::move(inside_));
    inside_.clear();
    for (uint32_t task = *form_begin_; task < complete_.size(); ++task) {
        complete_[task] = {};
        if (task < NumberSet::end) complete_[task].insert(task);
    }
    waited_ = std::move(waited_before_);
    form_begin_.reset();
    covers_.clear();
    return last;
}

void Order::start(const Task& task, NumberSet complete) {
    if (form_begin_) inside_.push_back(task);
    number_.resize(task.statement() + 1);
    const auto number = static_cast<uint32_t>(complete_.size());
    number_[task.statement()] = number;
    if (number < NumberSet::end)
        complete.insert(number);  // very long programs keep what they wait for needlessly
    complete_.push_back(std::move(complete));
}

void Order::touch(const Task& task, const Span& span, bool write) {
    std::vector<Access>& known = accesses_[span.buffer];
    if (write) {
        forget_covered(span, known);
    } else {
        const auto same = std::find_if(known.begin(), known.end(), [&](const Access& access) {
            return !access.write && same_place(access, span);
        });
        if (same != known.end()) return same->more.push_back(task);
    }
    int64_t box = -1;
    if (span.frame != 0 && free_.empty()) {
        box = static_cast<int64_t>(boxes_.size());
        boxes_.push_back(span);
    } else if (span.frame != 0) {
        box = free_.back();
        free_.pop_back();
        boxes_[static_cast<size_t>(box)] = span;
    }
    known.push_back({span.lo, span.hi, box, write, task, {}});
    if (write && span.frame != 0 && !span.dense && span.bytes > 0) cover(task, span, known);
}

/// Records a cover: each byte of the box around the tiles was written by a task that has waited for all who
/// touched it before the first of them. So whoever meets one of those meets a tile, and waits for its task.
void Order::cover(const Task& task, const Span& span, std::vector<Access>& known) {
    if (form_begin_) return;
    constexpr size_t most = 8;  // tensors at once
    auto found = std::find_if(covers_.begin(), covers_.end(), [&](const Cover& of) {
        return of.buffer == span.buffer && of.frame == span.frame;
    });
    std::vector<int64_t> place(span.first.begin(), span.first.end());
    bool joins = found != covers_.end();
    for (size_t d = 0; joins && d < span.first.rank; ++d)
        joins = span.first[d] % found->size[d] == 0 && span.count[d] <= found->size[d];
    if (joins) joins = found->places.insert(place).second;
    if (!joins) {
        if (found != covers_.end()) covers_.erase(found);
        for (size_t d = 0; d < span.first.rank; ++d)
            if (span.first[d] % span.count[d] != 0) return;
        if (covers_.size() == most) covers_.pop_front();
        covers_.push_back({span.buffer,
                           span.frame,
                           task,
                           span.count,
                           {place},
                           span.first,
                           span.first,
                           span.lo,
                           span.hi,
                           0});
        found = std::prev(covers_.end());
    }
    Cover& of = *found;
    int64_t elements = 1, all = 1;
    for (size_t d = 0; d < span.first.rank; ++d) {
        of.first[d] = std::min(of.first[d], span.first[d]);
        of.end[d] = std::max(of.end[d], span.first[d] + span.count[d]);
        elements *= span.count[d];
        all *= of.end[d] - of.first[d];
    }
    of.lo = std::min(of.lo, span.lo), of.hi = std::max(of.hi, span.hi);
    of.bytes += span.bytes;
    if (of.bytes != of.hi - of.lo || of.bytes * elements != all * span.bytes) return;
    const auto forgotten = [&](const Access& access) {
        const Task& last = access.more.empty() ? access.task : access.more.back();
        if (access.lo < of.lo || access.hi > of.hi || !is_earlier(last, of.begin)) return false;
        if (access.box >= 0) free_.push_back(access.box);
        return true;
    };
    known.erase(std::remove_if(known.begin(), known.end(), forgotten), known.end());
}

/// True if the bytes are the same, so whoever meets one of them meets the other.
bool Order::same_place(const Access& access, const Span& span) const {
    if (access.lo != span.lo || access.hi != span.hi) return false;
    if (access.box < 0) return span.dense;
    const Span& box = boxes_[static_cast<size_t>(access.box)];
    if (box.dense && span.dense) return true;
    return box.frame == span.frame && box.first == span.first && box.count == span.count &&
           box.size == span.size && box.step == span.step;
}

/// Forgets tasks that a later one covers: whoever writes has waited for all that it covers, so whoever waits
/// for it waits for them too.
void Order::forget_covered(const Span& span, std::vector<Access>& known) {
    const auto forgotten = [&](Access& access) {
        if (is_before_form(access) || !meets(access, span)) return false;
        if (access.box < 0) {
            if (!span.dense) return false;
            if (access.lo < span.lo && span.hi < access.hi) return false;  // both ends are left
            (access.lo < span.lo ? access.hi : access.lo) = access.lo < span.lo ? span.lo : span.hi;
            return access.lo >= access.hi;
        }
        if (!covers(span, boxes_[static_cast<size_t>(access.box)])) return false;
        free_.push_back(access.box);
        return true;
    };
    known.erase(std::remove_if(known.begin(), known.end(), forgotten), known.end());
}

std::vector<Task> Order::last_of(std::vector<Task> tasks) const {
    std::sort(tasks.begin(), tasks.end(), is_earlier);
    NumberSet known = waited_;
    return last_of(tasks, known);
}

/// `known`: what is complete; gets what is when these are.
std::vector<Task> Order::last_of(const std::vector<Task>& in_order, NumberSet& known) const {
    std::vector<Task> last;
    for (auto task = in_order.rbegin(); task != in_order.rend(); ++task) {
        const bool repeated = !last.empty() && last.back().statement() == task->statement();
        if (repeated || (number(*task) < NumberSet::end && known.contains(number(*task)))) continue;
        known.add(complete_[number(*task)]);
        last.push_back(*task);
    }
    std::reverse(last.begin(), last.end());
    return last;
}

void Order::add_wait(const std::vector<Task>& tasks) {
    for (const Task& task : tasks) waited_.add(complete_[number(task)]);
}

}  // namespace kpu::compiler
