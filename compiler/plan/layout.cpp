#include "compiler/plan/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/diagnostics.hpp"
#include "compiler/graph/data.hpp"
#include "compiler/graph/forms.hpp"
#include "compiler/graph/macs.hpp"
#include "compiler/memory/flatten.hpp"
#include "compiler/plan/shared.hpp"
#include "compiler/plan/table.hpp"

namespace kpu::compiler {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

class Layout {
  public:
    Layout(Graph graph, const Target& target, const Guide& guide)
        : graph_(std::move(graph)), target_(target), guide_(guide) {
        graph::check_positions(graph_);
    }

    /// Divides L2. Result: what is left for tensors.
    Room room() {
        insert_copies(graph_);
        groups_ = groups_of(graph_);
        guide_.wishes.check(graph_, groups_.ranges);
        check_types(groups_.ranges);
        describe_groups();
        plan_.table = fill_table(graph_, target_, plan_.ops);
        return {divide_l2(), target_.ddr_bytes, target_.ddr_interleave,
                target_.ddr_interleave * target_.ddr_channels};
    }

    Plan run() {
        const Room of_tensors = room();
        plan_.inferences = guide_.inferences;
        plan_.memory = plan_memory(graph_, groups_, of_tensors, guide_.wishes,
                                   shared_constants(graph_, plan_.ops, guide_.inferences));
        find_homes();
        for (PlannedOp& op : plan_.ops) {
            flatten_pixels(op);
            op.addends = addends_of(op);
            mark_axes(op.op, op.homes);
            describe_work(op);
        }
        plan_.graph = std::make_shared<const Graph>(std::move(graph_));
        return std::move(plan_);
    }

  private:
    /// Reports what the device does not take as an error before any work. What only renames bytes is no work.
    void check_types(const std::vector<NodeRange>& groups) const {
        Diagnostics problems;
        for (const NodeRange& group : groups) {
            for (NodeId n = group.first; n < group.last; ++n) check_types(graph_.nodes[n], problems);
        }
        if (problems.has_errors()) throw UserError(std::move(problems));
    }
    void check_types(const Node& node, Diagnostics& problems) const {
        std::vector<ElemType> inputs, outputs;
        for (const ValueId id : node.inputs) inputs.push_back(graph_.value(id).elem);
        for (const ValueId id : node.outputs) outputs.push_back(graph_.value(id).elem);
        if (target_.takes(node.spec(), inputs, outputs)) return;
        std::vector<std::string> types;
        for (const ElemType type : inputs) types.emplace_back(name_of(type));
        problems.error(
            {}, fmt::format("{} ({}): `{}` has no {} of {} to {}. Fix: choose another precision or device.",
                            node.source.name, node.source.type, target_.limits.name, node.spec().name,
                            fmt::join(types, ", "), name_of(outputs[0])));
    }

    void describe_groups() {
        std::map<std::string, uint32_t> striped;  // numbers of operations that are cut, by name
        uint32_t next = 1;
        const std::vector<std::optional<uint32_t>> forms = graph::forms_of(graph_);
        for (const NodeRange& group : groups_.ranges) {
            PlannedOp op;
            op.form = forms[group.first];
            for (NodeId n = group.first; n < group.last; ++n) {
                if (forms[n] != op.form) throw InternalError(group.name + ": it is for one form in part");
            }
            op.op = describe(graph_, group.first, group.last, groups_.internal);
            op.op.name = group.name;
            op.strips = graph_.nodes[group.first].strips;
            const auto known = op.strips > 0 ? striped.find(group.name) : striped.end();
            op.number = known != striped.end() ? known->second : next++;
            if (op.strips > 0) striped.emplace(group.name, op.number);
            plan_.ops.push_back(std::move(op));
        }
    }

    /// Divides L2: it holds the table, staging for each engine, and tensors in what is left.
    uint64_t divide_l2() {
        const uint64_t staging = target_.staging_bytes * target_.engines.size();
        const uint64_t table = align_up(plan_.table.bytes);
        const bool narrow = target_.l2_bytes <= staging + table;
        const uint64_t of_l1 = target_.l1_bytes - kernel_bytes();
        const uint64_t of_l2 =
            narrow ? (target_.l2_bytes - table) / target_.engines.size() : target_.staging_bytes;
        plan_.arena_bytes = of_l1 / 2 / tile_align * tile_align;
        plan_.staging_bytes = std::min(of_l1, of_l2) / 2 / tile_align * tile_align;
        return narrow ? 0 : target_.l2_bytes - staging - table;
    }

    /// Returns the bytes of L1 for what kernels that copy have of their own.
    uint64_t kernel_bytes() const {
        for (const PlannedOp& op : plan_.ops) {
            for (const TileOperand& operand : op.op.operands) {
                if (operand.in_place) return tile_align;
            }
        }
        return 0;
    }

    void find_homes() {
        for (PlannedOp& op : plan_.ops) {
            for (size_t i = 0; i < op.op.operands.size(); ++i) {
                const TileOperand& operand = op.op.operands[i];
                if (op.homes[i] == Home::ddr && plan_.memory.shared.count(operand.value) > 0)
                    op.homes[i] = Home::shared;
                if (graph_.value(operand.value).constant() || operand.place == Place::internal) continue;
                const Storage& storage = plan_.memory.storages[plan_.memory.views[operand.value].storage];
                op.homes[i] = operand.in_place                  ? Home::in_place
                              : storage.input || storage.output ? Home::ddr
                                                                : storage.home;
            }
        }
    }

    /// Unless the axes that go into one are fixed.
    void flatten_pixels(PlannedOp& op) {
        const MappingWish wish = guide_.wishes.of(op.op.name);
        for (const char* axis : {"n", "y", "x"}) {
            if (wish.tile.count(axis) > 0 || wish.engines.count(axis) > 0) return;
        }
        const std::vector<TileOperand> before = op.op.operands;
        if (!flatten(graph_, plan_.memory, op.op)) return;
        for (size_t i = 0; i < before.size(); ++i) {
            const ValueId id = op.op.operands[i].value;
            if (id != before[i].value)
                graph_.values[id].name = host_name(graph_, plan_.memory, before[i].value);
        }
    }

    /// Marks the axes that the device can cut, and what fills its arrays.
    void mark_axes(TileOp& op, const std::vector<Home>& homes) const {
        const bool cut = sums_can_be_cut(graph_, op, homes, target_);
        for (Axis& axis : op.axes) {
            if (axis.walk == Walk::sum && !cut) axis.whole = true;
            if (axis.walk != Walk::sum && (axis.name == "n" || axis.name == "o") && axis.independent)
                axis.quantum = target_.engines[0].array().cols();
            if (axis.name == "m") axis.quantum = target_.engines[0].array().rows();
        }
    }

    /// Returns the addends where the table had no room for the addend as the accumulator needs it.
    std::shared_ptr<const Addends> addends_of(const PlannedOp& op) {
        const TileNode& anchor = op.op.nodes[op.op.anchor];
        const OpcodeSpec& spec = graph_.nodes[anchor.node].spec();
        if (spec.macs == nullptr || spec.group_scales || spec.block_scales || anchor.inputs.size() < 3)
            return nullptr;
        const size_t addend = anchor.inputs[2];
        const ElemType sums = accumulator_of(graph_, op.op);
        graph::Value value = graph_.value(op.op.operands[addend].value);
        if (sums == ElemType::none || !is_float(sums) || !value.constant() || value.elem == sums ||
            op.homes[addend] == Home::table)
            return nullptr;
        value.data = graph::make_numbers(sums, graph::numbers(value));
        value.name += fmt::format(":{}", name_of(sums));
        value.elem = sums;
        Addends result{op.op, op.op};
        result.wide.operands[addend].value = static_cast<ValueId>(graph_.values.size());
        graph_.values.push_back(std::move(value));
        mark_axes(result.own, op.homes);
        mark_axes(result.wide, op.homes);
        return std::make_shared<const Addends>(std::move(result));
    }

    void describe_work(PlannedOp& op) const {
        const Node& anchor = graph_.nodes[op.op.nodes[op.op.anchor].node];
        const bool product = anchor.spec().macs != nullptr;
        op.elem = graph_.value(product ? anchor.inputs[0] : anchor.outputs[0]).elem;
        if (product && shares_bytes(graph_.value(anchor.inputs[1]).elem))
            op.elem = graph_.value(anchor.inputs[1]).elem;
        op.macs = macs_of(graph_, op.op);
    }

    Graph graph_;
    const Target& target_;
    const Guide& guide_;
    GroupList groups_;
    Plan plan_;
};

}  // namespace

Plan lay_out(Graph graph, const Target& target, const Guide& guide) {
    return Layout(std::move(graph), target, guide).run();
}

Room room_of_tensors(const Graph& graph, const Target& target) { return Layout(graph, target, {}).room(); }

}  // namespace kpu::compiler
