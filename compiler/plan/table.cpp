#include "compiler/plan/table.hpp"

#include <set>

namespace kpu::compiler {
namespace {

/// Constants up to this size stand in L2 during the whole program, as far as an eighth of L2 holds them.
constexpr uint64_t table_entry_bytes = 16 << 10;

class Filling {
  public:
    Filling(const graph::Graph& graph, const Target& target) : graph_(graph), target_(target) {}

    Table run(std::vector<PlannedOp>& ops) {
        for (PlannedOp& op : ops) {
            op.homes.assign(op.op.operands.size(), Home::none);
            for (size_t i = 0; i < op.op.operands.size(); ++i) {
                const graph::ValueId id = op.op.operands[i].value;
                if (!graph_.value(id).constant()) continue;
                const bool table =
                    may_enter(op.op, i) && enter(id, graph_.value(id).elem) && enter_addend(op.op, i);
                op.homes[i] = table ? Home::table : op.op.operands[i].in_place ? Home::in_place : Home::ddr;
            }
        }
        return std::move(table_);
    }

  private:
    /// True if a constant may enter the table; the weights of a product may not, however small: the arrays
    /// read them over and over.
    bool may_enter(const TileOp& op, size_t operand) const {
        const TileOperand& of = op.operands[operand];
        const graph::Value& value = graph_.value(of.value);
        if (!value.constant() || of.place != Place::input) return false;
        for (const TileNode& tile : op.nodes) {
            const graph::Node& node = graph_.nodes[tile.node];
            if (kernels::find(node.opcode) != nullptr) return false;  // kernels load from L1
            const bool vectors = node.spec().traits.elementwise || node.spec().traits.vectors;
            for (size_t i = 0; i < tile.inputs.size(); ++i) {
                const bool bias = node.spec().macs != nullptr && i == node.spec().addend;
                if (tile.inputs[i] == operand && !bias && !vectors) return false;
            }
        }
        return value.data.size <= table_entry_bytes;
    }

    bool enter(graph::ValueId id, ElemType elem) {
        Block block = whole_block(graph_, id);
        block.elem = elem;
        if (table_.places.count(block) > 0) return true;
        const uint64_t size = align_up(packed_bytes(elem, graph_.value(id).elements()), small_align);
        if (table_.bytes + size > target_.l2_bytes / 8) return false;
        table_.places[block] = static_cast<int64_t>(table_.bytes);
        table_.bytes += size;
        return true;
    }

    /// The addend of a product must be there in the type of the accumulator, in case its sum is cut.
    bool enter_addend(const TileOp& op, size_t operand) {
        const TileNode& anchor = op.nodes[op.anchor];
        const ElemType sums = accumulator_of(graph_, op);
        const OpcodeSpec& spec = graph_.nodes[anchor.node].spec();
        const bool addend = anchor.inputs.size() > spec.addend && anchor.inputs[spec.addend] == operand &&
                            spec.macs != nullptr && sums != ElemType::none;
        const graph::ValueId id = op.operands[operand].value;
        return !addend || graph_.value(id).elem == sums || (is_float(sums) && enter(id, sums));
    }

    const graph::Graph& graph_;
    const Target& target_;
    Table table_;
};

}  // namespace

Table fill_table(const graph::Graph& graph, const Target& target, std::vector<PlannedOp>& ops) {
    return Filling(graph, target).run(ops);
}

std::vector<Block> read_of_table(const Plan& plan) {
    std::set<Block> result;
    for (const PlannedOp& op : plan.ops) {
        const TileNode& anchor = op.op.nodes[op.op.anchor];
        const ElemType sums = accumulator_of(*plan.graph, op.op);
        const bool product = plan.graph->nodes[anchor.node].spec().macs != nullptr;
        for (const TileNode& tile : op.op.nodes) {
            for (size_t i = 0; i < tile.inputs.size(); ++i) {
                if (op.homes[tile.inputs[i]] != Home::table) continue;
                Block block = whole_block(*plan.graph, op.op.operands[tile.inputs[i]].value);
                const bool addend =
                    &tile == &anchor && product && i == plan.graph->nodes[tile.node].spec().addend;
                if (addend && op.tiling.cuts_sum(op.op) && sums != ElemType::none) block.elem = sums;
                result.insert(block);
            }
        }
    }
    return {result.begin(), result.end()};
}

}  // namespace kpu::compiler
