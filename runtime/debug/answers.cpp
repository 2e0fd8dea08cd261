// Answers of a debugger about a program that stands still.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "runtime/debug/debugger.hpp"
#include "values/kernel/lanes/interpreter.hpp"

namespace kpu::runtime {

namespace {

/// Returns "0 to 3, 7": invocations of a workgroup.
std::string lanes_text(const std::vector<uint32_t>& lanes) {
    constexpr size_t most = 8;
    std::vector<std::string> parts;
    for (size_t i = 0; i < lanes.size();) {
        size_t end = i + 1;
        while (end < lanes.size() && lanes[end] == lanes[end - 1] + 1) ++end;
        if (parts.size() == most) return fmt::format("{}, ...", fmt::join(parts, ", "));
        parts.push_back(end == i + 1 ? std::to_string(lanes[i])
                                     : fmt::format("{} to {}", lanes[i], lanes[end - 1]));
        i = end;
    }
    return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

const Debugger::Worker& Debugger::worker() const {
    if (worker_ == nullptr)
        throw UserError("no kernel is under way. Fix: break at a line or region, or step.");
    return *worker_;
}

/// Returns the statement that it executes next, or failed at.
uint32_t Debugger::statement_of(const Worker& worker) const {
    return over_ ? last_.at(&worker) : worker.statement();
}

uint32_t Debugger::lane() const {
    if (worker_->has_tiles()) return 0;
    const std::vector<uint32_t>& lanes = worker_->batch().lanes();
    const uint32_t first = lanes.empty() ? 0 : lanes.front();
    return std::min(lane_.value_or(first), worker_->code().invocations() - 1);
}

/// Returns the variables of the blocks that the statement stands in, declared before it.
std::vector<uint32_t> Debugger::visible_variables() const {
    const kernel::Code& code = worker().code();
    const uint32_t statement = statement_of(*worker_);
    std::vector<uint32_t> visible = code.scalars;
    std::vector<std::pair<uint32_t, size_t>> open;  // end of a block, variables before it
    for (uint32_t i = 0; i <= statement; ++i) {
        while (!open.empty() && open.back().first <= i) {
            visible.resize(open.back().second);
            open.pop_back();
        }
        if (i == statement) break;
        const kernel::CodeStatement& s = code.statements[i];
        if (s.body_end > 0) open.emplace_back(s.body_end, visible.size());
        if (s.kind == kernel::Kind::let || s.kind == kernel::Kind::loop) visible.push_back(s.variable);
    }
    return visible;
}

std::optional<uint32_t> Debugger::find_variable(const std::string& name) const {
    for (const uint32_t v : visible_variables())
        if (worker_->code().variables[v].name == name) return v;
    return std::nullopt;
}

/// Returns the buffer of the kernel that stands still. Throws UserError where it has none of that name.
uint32_t Debugger::find_buffer(const std::string& name) const {
    if (worker_ == nullptr)
        throw UserError(
            fmt::format("`{}` is not a memory. Fix: write ddr, l2 or l1[0], or a buffer of a kernel that is "
                        "under way.",
                        name));
    const auto& buffers = worker_->code().buffers;
    for (uint32_t b = 0; b < buffers.size(); ++b)
        if (buffers[b].name == name) return b;
    throw UserError(fmt::format(
        "`{}` is not a memory, and no buffer of kernel `{}`. Fix: write ddr, l2, l1[0], or a name of "
        "its head.",
        name, worker_->code().name()));
}

/// Returns a variable as the chosen invocation has it, or a buffer.
std::optional<debug::Elements> Debugger::elements_of(const std::string& name) const {
    const kernel::Code& code = worker().code();
    if (const std::optional<uint32_t> found = find_variable(name)) {
        const kernel::Type type = code.variables[*found].type;
        if (worker_->has_tiles()) return debug::elements_of(worker_->tiles().variable(*found));
        const uint64_t bits = worker_->batch().value(*found, lane());
        return debug::Elements{
            std::string(name_of(type)), {}, [=](size_t) { return debug::element_text(type, bits); }};
    }
    for (uint32_t b = 0; b < code.buffers.size(); ++b) {
        const kernel::CodeBuffer& buffer = code.buffers[b];
        if (buffer.name != name) continue;
        const values::kernel::Bytes held = worker_->bytes(b);
        if (worker_->has_tiles() && worker_->tiles().is_semaphore(b))
            return debug::Elements{
                fmt::format("{} semaphores", buffer.count), {buffer.count}, [this, b](size_t i) {
                    return std::to_string(worker_->tiles().semaphore(b, static_cast<int64_t>(i)));
                }};
        const unsigned bits =
            worker_->has_tiles() ? 8 * kernel::tile_bytes(buffer.type) : kernel::storage_bits(buffer.type);
        const auto count = static_cast<int64_t>(held.size / std::max(bits / 8, 1u));
        return debug::elements_of(buffer.type, {count}, held.data, bits);
    }
    return std::nullopt;
}

std::string Debugger::print(const Words& words) {
    if (words.size() == 1) {
        Words lines;
        for (const uint32_t v : visible_variables()) lines.push_back(print_variable(v));
        return lines.empty() ? "no variable is declared here" : fmt::format("{}", fmt::join(lines, "\n"));
    }
    const std::string what = debug::rest_of(words, 1);
    const size_t bracket = what.find('[');
    const std::string name = debug::rest_of(debug::words_of(what.substr(0, bracket)), 0);
    if (const auto variable = find_variable(name); variable && bracket == std::string::npos)
        return print_variable(*variable);
    const std::optional<debug::Elements> elements = elements_of(name);
    if (!elements)
        throw UserError(
            fmt::format("no variable or buffer `{}` here. Fix: print shows the variables that there "
                        "are; buffers stand in the head of the kernel.",
                        name));
    if (bracket == std::string::npos) return debug::whole_text(name, *elements);
    if (what.back() != ']') throw UserError(fmt::format("`{}` has no `]`. Fix: write {}[0].", what, name));
    return debug::part_text(name, *elements, what.substr(bracket + 1, what.size() - bracket - 2));
}

std::string Debugger::print_variable(uint32_t variable) const {
    const std::string& name = worker_->code().variables[variable].name;
    if (worker_->has_tiles()) {
        const values::kernel::Tile& tile = worker_->tiles().variable(variable);
        if (tile.empty()) return fmt::format("{} has no value yet", name);
        return debug::whole_text(name, debug::elements_of(tile)) +
               (tile.unwritten != nullptr ? "\n  some of it depends on what nobody wrote" : "");
    }
    return debug::whole_text(name, elements_of(name).value());
}

std::string Debugger::print_lanes(const Words& words) {
    const std::string& name = debug::word_at(words, 1);
    if (worker().has_tiles())
        throw UserError("a kernel on tiles has one invocation. Fix: print shows its variables.");
    const std::optional<uint32_t> variable = find_variable(name);
    if (!variable)
        throw UserError(fmt::format("no variable `{}` here. Fix: print shows those there are.", name));
    const kernel::Type type = worker_->code().variables[*variable].type;
    const values::kernel::Batch& batch = worker_->batch();
    Words lines;
    for (uint32_t lane = 0; lane < worker_->code().invocations();) {
        uint32_t end = lane + 1;  // those that have the same are one line
        const uint64_t bits = batch.value(*variable, lane);
        while (end < worker_->code().invocations() && batch.value(*variable, end) == bits) ++end;
        const std::string which =
            end == lane + 1 ? std::to_string(lane) : fmt::format("{} to {}", lane, end - 1);
        lines.push_back(fmt::format("{}: {} = {}", which, name, debug::element_text(type, bits)));
        lane = end;
    }
    return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string Debugger::bytes(const Words& words) {
    Watch shown;
    shown.place = debug::word_at(words, 1);
    shown.address = debug::number_at(words, 2);
    shown.count = debug::count_at(words, 3);
    if (!debug::read_place(shown.place, shown.memory)) {
        shown.buffer = find_buffer(shown.place);
        shown.code = &worker().code();
    }
    return debug::hex_text(watched(shown, worker_));
}

std::string Debugger::place_of(const Worker& worker) const {
    const kernel::Code& code = worker.code();
    const std::string statement = code.where(statement_of(worker));
    if (worker.has_tiles()) return statement;
    const values::kernel::Batch& batch = worker.batch();
    const std::vector<uint32_t>& lanes = batch.lanes();
    std::string text = fmt::format("{}, workgroup ({}), {} of {} invocations", statement,
                                   fmt::join(batch.workgroup(), ", "), lanes.size(), code.invocations());
    if (lanes.size() < code.invocations()) text += fmt::format(" ({})", lanes_text(lanes));
    return text;
}

std::string Debugger::here() const {
    if (worker_ == nullptr) return fmt::format("cycle {}, between tasks", simulation_.now());
    std::string text = fmt::format("cycle {}, {}", simulation_.now(), place_of(*worker_));
    if (!worker_->has_tiles()) {
        const values::kernel::Batch& batch = worker_->batch();
        const auto ids = values::kernel::ids_of(worker_->code(), batch.workgroup(), lane());
        const bool takes_part = std::binary_search(batch.lanes().begin(), batch.lanes().end(), lane());
        text += fmt::format(", print means ({}){}", fmt::join(ids.gid, ", "),
                            takes_part ? "" : ", which does not execute it");
    }
    for (const Worker* other : workers_)
        if (other != worker_) text += "\nalso " + place_of(*other);
    return text;
}

std::string Debugger::where(const Words&) { return here(); }

std::string Debugger::units(const Words&) {
    Words lines;
    for (const UnitState& unit : simulation_.state().units)
        lines.push_back(fmt::format("{:12} {}", unit.unit, unit.activity));
    return lines.empty() ? "without time there are no units" : fmt::format("{}", fmt::join(lines, "\n"));
}

std::string Debugger::tasks(const Words&) {
    Words lines;
    const State state = simulation_.state();
    for (const TaskStatus& task : state.tasks) {
        std::string line = fmt::format("#{} {} {}", task.serial, task.name, task.state);
        if (!task.missing.empty()) line += fmt::format(", waits for #{}", fmt::join(task.missing, ", #"));
        lines.push_back(line);
    }
    lines.push_back(fmt::format("{} complete", state.completed));
    return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace kpu::runtime
