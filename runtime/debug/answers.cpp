// What a debugger shows: breakpoints, variables, units, tasks.
#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "runtime/debug/debugger.hpp"
#include "runtime/debug/words.hpp"
#include "values/convert.hpp"
#include "values/kernel/interpreter.hpp"
#include "values/kernel/launch.hpp"

namespace kpu::runtime {

namespace {

std::string shown(kernel::Type type, uint64_t bits) {
    switch (type) {
        case kernel::Type::i32:
            return fmt::format("{}", static_cast<int32_t>(bits));
        case kernel::Type::f32:
            return fmt::format("{}", values::float_of(static_cast<uint32_t>(bits)));
        case kernel::Type::boolean:
            return bits != 0 ? "true" : "false";
        case kernel::Type::u32:
        case kernel::Type::u64:
            return fmt::format("{}", bits);
        default:
            return fmt::format("0x{:x}", bits);  // narrow types: as they lie in memory
    }
}

std::string joined(const std::vector<std::string>& lines) {
    return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace

std::string Debugger::Breakpoint::text() const {
    constexpr const char* kinds[] = {"line", "region", "task", "cycle"};
    const bool named = kind == Kind::region || kind == Kind::task;
    return fmt::format("{}: {} {}", number, kinds[static_cast<size_t>(kind)],
                       named ? name : std::to_string(value));
}

std::string Debugger::Watch::text() const {
    return fmt::format("{}: {} {} {}", number, debug::place_text(level, engine), address, bytes.size());
}

std::string Debugger::add_breakpoint(const std::vector<std::string>& words) {
    const std::string& what = debug::word_at(words, 1);
    Breakpoint b;
    if (what == "line" || what == "cycle") {
        b.kind = what == "line" ? Breakpoint::Kind::line : Breakpoint::Kind::cycle;
        b.value = debug::number_at(words, 2);
        if (what == "cycle" && !timed())
            throw UserError("functional mode has no cycles. Fix: break at a task, or run with time.");
        if (what == "cycle" && b.value <= simulation_.now())
            throw UserError(
                fmt::format("cycle {} is over. Fix: name a later one than {}.", b.value, simulation_.now()));
    } else if (what == "region" || what == "task") {
        b.kind = what == "region" ? Breakpoint::Kind::region : Breakpoint::Kind::task;
        b.name = debug::word_at(words, 2);
        if (what == "task") {
            const auto& tasks = simulation_.program().tasks;
            const auto named = [&](const BoundTask& task) { return task.name == b.name; };
            if (std::none_of(tasks.begin(), tasks.end(), named))
                throw UserError(fmt::format("no task `{}`. Fix: name a token of the program.", b.name));
            b.completed = completed_of(b.name);
        }
    } else {
        throw UserError(fmt::format("break at `{}`? Fix: write line, region, task or cycle.", what));
    }
    b.number = ++numbers_;
    breakpoints_.push_back(b);
    return b.text();
}

std::string Debugger::add_watch(const std::vector<std::string>& words) {
    const debug::Range range = debug::range_of(words);
    Watch w{range.level, range.engine, range.address,
            simulation_.read_bytes(range.level, range.engine, range.address, range.bytes), ++numbers_};
    watches_.push_back(w);
    return w.text();
}

std::string Debugger::list() const {
    std::vector<std::string> lines;
    for (const Breakpoint& b : breakpoints_) lines.push_back(b.text());
    for (const Watch& w : watches_) lines.push_back(w.text());
    return lines.empty() ? "nothing stops it" : joined(lines);
}

std::string Debugger::remove(const std::vector<std::string>& words) {
    const uint64_t number = debug::number_at(words, 1);
    const size_t before = breakpoints_.size() + watches_.size();
    const auto is_it = [&](const auto& row) { return row.number == number; };
    breakpoints_.erase(std::remove_if(breakpoints_.begin(), breakpoints_.end(), is_it), breakpoints_.end());
    watches_.erase(std::remove_if(watches_.begin(), watches_.end(), is_it), watches_.end());
    if (breakpoints_.size() + watches_.size() == before)
        throw UserError(fmt::format("no breakpoint or watch {}. Fix: list shows them.", number));
    return list();
}

std::string Debugger::choose_lane(const std::vector<std::string>& words) {
    if (words.size() < 2) {
        lane_.reset();
        return "the first invocation that executes the statement";
    }
    const uint64_t lane = debug::number_at(words, 1);
    const uint64_t most =
        worker_ != nullptr ? worker_->code().invocations() : kernel::max_workgroup_invocations;
    if (lane >= most)
        throw UserError(fmt::format("the workgroup has {} invocations. Fix: give 0 to {}.", most, most - 1));
    lane_ = static_cast<uint32_t>(lane);
    return fmt::format("invocation {} of the workgroup", lane);
}

/// Of the blocks that the statement stands in, declared before it.
std::vector<uint32_t> Debugger::visible_variables() const {
    const kernel::Code& code = worker_->code();
    std::vector<uint32_t> visible = code.scalars;
    std::vector<std::pair<uint32_t, size_t>> open;  // end of a block, variables before it
    for (uint32_t i = 0; i <= worker_->batch().statement(); ++i) {
        while (!open.empty() && open.back().first <= i) {
            visible.resize(open.back().second);
            open.pop_back();
        }
        if (i == worker_->batch().statement()) break;
        const kernel::CodeStatement& s = code.statements[i];
        if (s.body_end > 0) open.emplace_back(s.body_end, visible.size());
        if (s.kind == kernel::Kind::let || s.kind == kernel::Kind::loop) visible.push_back(s.variable);
    }
    return visible;
}

std::string Debugger::print(const std::vector<std::string>& words) const {
    if (worker_ == nullptr)
        throw UserError("no kernel stands still. Fix: break at a line or region, or step.");
    if (words.size() > 1) {
        const std::string& what = words[1];
        const size_t bracket = what.find('[');
        if (bracket == std::string::npos || what.back() != ']') return print_variable(what);
        const std::vector<std::string> index{what.substr(bracket + 1, what.size() - bracket - 2)};
        return print_element(what.substr(0, bracket), debug::number_at(index, 0));
    }
    std::vector<std::string> lines;
    for (const uint32_t v : visible_variables())
        lines.push_back(print_variable(worker_->code().variables[v].name));
    return lines.empty() ? "no variable is declared here" : joined(lines);
}

std::string Debugger::print_variable(const std::string& name) const {
    const kernel::Code& code = worker_->code();
    for (const uint32_t v : visible_variables())
        if (code.variables[v].name == name)
            return fmt::format("{} = {}", name,
                               shown(code.variables[v].type, worker_->batch().value(v, lane())));
    throw UserError(fmt::format("no variable `{}` here. Fix: print shows those there are.", name));
}

std::string Debugger::print_element(const std::string& buffer, uint64_t index) const {
    const kernel::Code& code = worker_->code();
    for (uint32_t b = 0; b < code.buffers.size(); ++b) {
        if (code.buffers[b].name != buffer) continue;
        if (!worker_->memory().inside(b, index))
            throw UserError(fmt::format("`{}` has {} elements. Fix: give an index below.", buffer,
                                        worker_->memory().length(b)));
        return fmt::format("{}[{}] = {}", buffer, index,
                           shown(code.buffers[b].type, worker_->memory().load(b, index)));
    }
    throw UserError(
        fmt::format("kernel `{}` has no buffer `{}`. Fix: name one of its head.", code.name(), buffer));
}

std::string Debugger::where() const {
    if (worker_ == nullptr) return fmt::format("cycle {}, between tasks", simulation_.now());
    const values::kernel::Batch& batch = worker_->batch();
    const kernel::Code& code = worker_->code();
    const auto ids = values::kernel::ids_of(code, batch.workgroup(), lane());
    return fmt::format("cycle {}, {}, workgroup ({}), {} of {} invocations, print means ({})",
                       simulation_.now(), code.where(batch.statement()), fmt::join(batch.workgroup(), ", "),
                       batch.active(), code.invocations(), fmt::join(ids.gid, ", "));
}

std::string Debugger::units() const {
    std::vector<std::string> lines;
    for (const UnitState& unit : simulation_.state().units)
        lines.push_back(fmt::format("{:12} {}", unit.unit, unit.activity));
    return lines.empty() ? "without time there are no units" : joined(lines);
}

std::string Debugger::tasks() const {
    std::vector<std::string> lines;
    const State state = simulation_.state();
    for (const TaskStatus& task : state.tasks) {
        std::string line = fmt::format("#{} {} {}", task.serial, task.name, task.state);
        if (!task.missing.empty()) line += fmt::format(", waits for #{}", fmt::join(task.missing, ", #"));
        lines.push_back(line);
    }
    lines.push_back(fmt::format("{} complete", state.completed));
    return joined(lines);
}

}  // namespace kpu::runtime
