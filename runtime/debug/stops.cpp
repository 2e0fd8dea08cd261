// Stops of a program that is debugged: breakpoints, watches, and which invocations count.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "runtime/debug/debugger.hpp"

namespace kpu::runtime {

std::string Debugger::Breakpoint::text() const {
    constexpr const char* kinds[] = {"line", "region", "task", "cycle"};
    return fmt::format("{}: {} {}", number, kinds[static_cast<size_t>(kind)],
                       kind == Kind::cycle ? std::to_string(cycle) : name);
}

std::string Debugger::Watch::text() const {
    return fmt::format("{}: {} {} {}", number, place, address, count);
}

std::string Debugger::add_breakpoint(const Words& words) {
    const std::string& what = debug::word_at(words, 1);
    Breakpoint b;
    b.name = debug::rest_of(words, 2);
    if (what == "line" || what == "region") {
        b.kind = what == "line" ? Breakpoint::Kind::line : Breakpoint::Kind::region;
        place_in_kernels(b);
    } else if (what == "task") {
        b.kind = Breakpoint::Kind::task;
        const auto& tasks = simulation_.program().tasks;
        const auto named = [&](const BoundTask& task) { return task.name == b.name; };
        if (std::none_of(tasks.begin(), tasks.end(), named))
            throw UserError(fmt::format("no task `{}`. Fix: name a token of the program.", b.name));
        b.completed = completed_of(b.name);
    } else if (what == "cycle") {
        b.kind = Breakpoint::Kind::cycle;
        b.cycle = debug::number_of(b.name);
        if (!timed())
            throw UserError("functional mode has no cycles. Fix: break at a task, or run with time.");
        if (b.cycle <= simulation_.now())
            throw UserError(
                fmt::format("cycle {} is over. Fix: name a later one than {}.", b.cycle, simulation_.now()));
    } else {
        throw UserError(fmt::format("break at `{}`? Fix: write line, region, task or cycle.", what));
    }
    b.number = ++numbers_;
    breakpoints_.push_back(b);
    return b.text();
}

/// Returns the kernels that the program launches.
debug::Kernels Debugger::kernels() const {
    debug::Kernels kernels;
    for (const BoundTask& task : simulation_.program().tasks) {
        if (!task.launches()) continue;
        const kernel::Code* const code = task.launch->code.get();
        if (std::find(kernels.begin(), kernels.end(), code) == kernels.end()) kernels.push_back(code);
    }
    return kernels;
}

/// Finds the statements of a line or region.
void Debugger::place_in_kernels(Breakpoint& b) const {
    const debug::Kernels kernels = this->kernels();
    const std::vector<debug::Statements> found = b.kind == Breakpoint::Kind::line
                                                     ? debug::statements_of(kernels, debug::line_of(b.name))
                                                     : debug::regions_of(kernels, b.name);
    for (size_t i = 0; i < kernels.size(); ++i) b.statements[kernels[i]] = found[i];
}

/// A line may have many statements: it stops before the first of them.
bool Debugger::stops_at(const Breakpoint& b, const Worker& worker) const {
    const auto found = b.statements.find(&worker.code());
    const uint32_t statement = worker.statement();
    if (found == b.statements.end() || !found->second[statement]) return false;
    if (group_ && !worker.has_tiles() && worker.batch().workgroup() != *group_) return false;
    const auto last = last_.find(&worker);
    const bool goes_on = b.kind == Breakpoint::Kind::line && last != last_.end() &&
                         last->second < statement && found->second[last->second];
    return !goes_on;
}

/// True if the invocation that steps count is among those that execute the statement.
bool Debugger::is_meant(const Worker& worker) const {
    if (worker.has_tiles()) return true;
    const std::vector<uint32_t>& lanes = worker.batch().lanes();
    if (lane_ && !std::binary_search(lanes.begin(), lanes.end(), *lane_)) return false;
    return !group_ || worker.batch().workgroup() == *group_;
}

std::string Debugger::add_watch(const Words& words) {
    Watch w;
    w.place = debug::word_at(words, 1);
    w.address = debug::number_at(words, 2);
    w.count = debug::count_at(words, 3);
    w.number = numbers_ + 1;
    if (!debug::read_place(w.place, w.memory)) {
        w.buffer = find_buffer(w.place);
        w.code = &worker().code();
    }
    w.bytes[first_byte(w, worker_)] = watched(w, worker_);
    ++numbers_;
    watches_.push_back(w);
    return w.text();
}

/// Returns where the worker's launch has the buffer; null: it is a memory.
const uint8_t* Debugger::first_byte(const Watch& w, const Worker* worker) {
    return w.code == nullptr ? nullptr : worker->bytes(w.buffer).data;
}

/// Throws UserError outside of what is there.
std::vector<uint8_t> Debugger::watched(const Watch& w, const Worker* worker) const {
    if (w.code == nullptr) return simulation_.read_bytes(w.memory.level, w.memory.engine, w.address, w.count);
    const values::kernel::Bytes held = worker->bytes(w.buffer);
    if (w.address > held.size || w.count > held.size - w.address)
        throw UserError(fmt::format("bytes {} to {} are outside of `{}`, which has {}. Fix: stay inside.",
                                    w.address, w.address + w.count, w.place, held.size));
    const uint8_t* const from = held.data + w.address;
    return {from, from + w.count};
}

/// Returns the first watch whose bytes are others than before, as a worker sees them; null: of memories.
std::string Debugger::changed_bytes(const Worker* worker) {
    for (Watch& w : watches_) {
        if (w.code != nullptr && (worker == nullptr || &worker->code() != w.code)) continue;
        std::vector<uint8_t> now = watched(w, worker);
        const auto [held, is_new] = w.bytes.try_emplace(first_byte(w, worker), now);
        if (is_new || now == held->second) continue;
        std::string text =
            fmt::format("{}: was {}, is {}", w.text(), debug::hex_text(held->second), debug::hex_text(now));
        held->second = std::move(now);
        return text;
    }
    return "";
}

/// Breakpoints of tasks and cycles, and watches. Empty: none of them.
std::string Debugger::why_stopped() {
    Words reasons;
    if (!pending_.empty()) reasons.push_back(std::move(pending_));
    pending_.clear();
    if (std::string changed = changed_bytes(nullptr); !changed.empty()) reasons.push_back(std::move(changed));
    for (Breakpoint& b : breakpoints_) {
        if (b.kind == Breakpoint::Kind::cycle && !b.over && simulation_.now() >= b.cycle) {
            b.over = true;
            reasons.push_back(fmt::format("{}: reached at cycle {}", b.text(), simulation_.now()));
        }
        if (b.kind != Breakpoint::Kind::task) continue;
        const uint64_t completed = completed_of(b.name);
        if (completed > b.completed)
            reasons.push_back(fmt::format("{}: complete at cycle {}", b.text(), simulation_.now()));
        b.completed = completed;
    }
    return fmt::format("{}", fmt::join(reasons, "\n"));
}

uint64_t Debugger::completed_of(const std::string& task) const {
    uint64_t count = 0;
    const BoundProgram& program = simulation_.program();
    for (uint32_t i = 0; i < program.statements.size(); ++i) {
        const BoundStatement& s = program.statements[i];
        if (s.kind == BoundStatement::Kind::task && program.tasks[s.index].name == task)
            count += simulation_.completions(i);
    }
    return count;
}

std::string Debugger::list(const Words&) {
    Words lines;
    for (const Breakpoint& b : breakpoints_) lines.push_back(b.text() + (b.over ? ", which is over" : ""));
    for (const Watch& w : watches_) lines.push_back(w.text());
    return lines.empty() ? "nothing stops it" : fmt::format("{}", fmt::join(lines, "\n"));
}

std::string Debugger::remove(const Words& words) {
    const uint64_t number = debug::number_at(words, 1);
    const size_t before = breakpoints_.size() + watches_.size();
    const auto is_it = [&](const auto& row) { return row.number == number; };
    breakpoints_.erase(std::remove_if(breakpoints_.begin(), breakpoints_.end(), is_it), breakpoints_.end());
    watches_.erase(std::remove_if(watches_.begin(), watches_.end(), is_it), watches_.end());
    if (breakpoints_.size() + watches_.size() == before)
        throw UserError(fmt::format("no breakpoint or watch {}. Fix: list shows them.", number));
    return list(words);
}

std::string Debugger::choose_lane(const Words& words) {
    if (words.size() < 2) {
        lane_.reset();
        return "the first invocation that executes the statement";
    }
    const uint64_t lane = debug::number_at(words, 1);
    const uint64_t most =
        worker_ != nullptr ? worker_->code().invocations() : kernel::max_workgroup_invocations;
    if (lane >= most)
        throw UserError(fmt::format("{} {} invocations. Fix: give 0 to {}.",
                                    worker_ != nullptr ? "the workgroup has" : "no workgroup has more than",
                                    most, most - 1));
    lane_ = static_cast<uint32_t>(lane);
    return fmt::format("invocation {} of the workgroup", lane);
}

std::string Debugger::choose_group(const Words& words) {
    if (words.size() < 2) {
        group_.reset();
        return "all workgroups";
    }
    std::array<uint32_t, 3> group{};
    for (size_t axis = 0; axis + 1 < words.size(); ++axis) {
        const uint64_t place = debug::number_at(words, axis + 1);
        if (place > UINT32_MAX)
            throw UserError(fmt::format("there is no workgroup {}. Fix: give one below 2^32.", place));
        group[axis] = static_cast<uint32_t>(place);
    }
    group_ = group;
    return fmt::format("workgroup ({})", fmt::join(group, ", "));
}

}  // namespace kpu::runtime
