#include "traces/task_names.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "isa/module.hpp"

namespace kpu::traces {
namespace {

/// Movements of an operation's transfers, by where tensors live: the inputs, outputs and intermediate tensors
/// of a program have homes in DDR or L2, weights lie in a buffer of their own, and what passes through L2 is
/// copied region by region.
class Movements {
  public:
    explicit Movements(const BoundProgram& program) : program_(program), source_(program.module->program) {
        for (const proto::Tensor& tensor : source_.tensor()) homes_.emplace(tensor.id(), &tensor);
        std::vector<std::string> by_region(program.regions.size());
        for (const BoundTask& task : program.tasks) {
            if (task.moves()) name(task, by_region);
            names_.push_back(task.moves() ? by_region[task.inputs[0]] : "");
        }
        // what leaves by L2 has its name at the end of its way
        for (size_t t = program.tasks.size(); t-- > 0;) {
            const BoundTask& task = program.tasks[t];
            if (!task.moves()) continue;
            if (names_[t].empty()) names_[t] = by_region[task.outputs[0]];
            if (by_region[task.inputs[0]].empty()) by_region[task.inputs[0]] = names_[t];
        }
    }
    std::vector<std::string> take() { return std::move(names_); }

  private:
    void name(const BoundTask& task, std::vector<std::string>& by_region) const {
        if (task.op >= static_cast<uint32_t>(source_.op_size())) return;
        const proto::Op& op = source_.op(static_cast<int>(task.op));
        std::string& from = by_region[task.inputs[0]];
        if (from.empty()) from = at_home(task.inputs[0], op.input_id());
        if (from.empty()) from = weight(task.inputs[0], op);
        std::string& to = by_region[task.outputs[0]];
        if (from.empty()) from = to = at_home(task.outputs[0], op.output_id());
        to = from;  // copied on, until somebody writes it again
    }

    /// Returns the tensor among these that lives where a region lies.
    template <typename Names>
    std::string at_home(uint32_t region, const Names& names) const {
        const BoundRegion& of = program_.regions[region];
        const std::string& buffer = program_.buffers[of.buffer].name;
        std::string found;
        int64_t nearest = -1;
        for (const std::string& name : names) {
            const auto home = homes_.find(name);
            if (home == homes_.end() || home->second->buffer() != buffer) continue;
            const int64_t begin = home->second->offset();
            if (begin > first_offset(of) || begin <= nearest) continue;
            nearest = begin;
            found = name;
        }
        return found;
    }

    /// Returns the offset from the begin of its buffer, in the first iteration of loops that begin at 0.
    int64_t first_offset(const BoundRegion& region) const {
        LoopValues zeros;
        for (size_t loop = 0; loop < program_.loops.size(); ++loop) zeros.push(0);
        try {
            return region.address.eval(zeros) - static_cast<int64_t>(program_.buffers[region.buffer].base);
        } catch (const UserError&) {  // it has no such iteration
            return -1;
        }
    }

    /// Returns the constant operand whose elements a region holds some of; "weights" of several.
    std::string weight(uint32_t region, const proto::Op& op) const {
        constexpr std::string_view mark = "weight ";
        const BoundRegion& of = program_.regions[region];
        if (program_.buffers[of.buffer].name != "weights") return {};
        std::string found;
        for (const proto::OpAttribute& attribute : op.attribute()) {
            if (!starts_with(attribute.name(), mark) || attribute.s() != name_of(of.elem)) continue;
            if (!found.empty()) return "weights";
            found = attribute.name().substr(mark.size());
        }
        return found;
    }

    const BoundProgram& program_;
    const KPUProgram& source_;
    std::unordered_map<std::string, const proto::Tensor*> homes_;
    std::vector<std::string> names_;
};

}  // namespace

TaskNames::TaskNames(const BoundProgram& program) : program_(program), moved_(program.tasks.size()) {
    if (program.module != nullptr && program.module->program.op_size() > 0)
        moved_ = Movements(program).take();
}

bool TaskNames::is_compiled(size_t statement) const {
    if (program_.module == nullptr || program_.module->program.op_size() == 0) return false;
    const KPUProgram& source = program_.module->program;
    const proto::Task& task = source.statement(static_cast<int>(statement)).task();
    return task.name().empty() && task.op() > 0 &&
           !source.op(static_cast<int>(task.op()) - 1).op_type().empty();
}

std::string TaskNames::of(size_t statement) {
    const uint32_t index = program_.statements[statement].index;
    const BoundTask& task = program_.tasks[index];
    if (!is_compiled(statement)) return task.name;
    const std::string& op = program_.ops[task.op].id;
    std::string name = fmt::format("{}: {}", op, operation_of(task));
    if (task.moves() && !moved_[index].empty())
        name =
            fmt::format("{}: {} to {}", op, moved_[index], name_of(program_.regions[task.outputs[0]].level));
    const int number = ++seen_[name];
    return number == 1 ? name : fmt::format("{} #{}", name, number);
}

}  // namespace kpu::traces
