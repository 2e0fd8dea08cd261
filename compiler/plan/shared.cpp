#include "compiler/plan/shared.hpp"

#include <algorithm>
#include <set>

#include "compiler/plan/mapped.hpp"

namespace kpu::compiler {
namespace {

/// Addends stay out: where a sum is cut, one of another type takes their place.
bool can_stay(const graph::Graph& graph, const TileOp& op, size_t operand) {
    const graph::Value& value = graph.value(op.operands[operand].value);
    if (!value.constant() || op.operands[operand].place != Place::input) return false;
    const TileNode& anchor = op.nodes[op.anchor];
    const OpcodeSpec& spec = graph.nodes[anchor.node].spec();
    return spec.macs == nullptr || anchor.inputs.size() <= spec.addend ||
           anchor.inputs[spec.addend] != operand;
}

/// Returns the bytes with gaps: blocks begin at multiples of tile_align.
uint64_t with_gaps(uint64_t bytes) { return align_up(bytes + bytes / 8 + tile_align); }

}  // namespace

std::vector<SharedConstant> shared_constants(const graph::Graph& graph, const std::vector<PlannedOp>& ops,
                                             uint64_t inferences) {
    std::map<graph::ValueId, SharedConstant> found;
    std::map<graph::ValueId, uint64_t> reads;
    for (uint32_t number = 0; number < ops.size(); ++number) {
        const PlannedOp& op = ops[number];
        if (op.strips > 0) continue;  // what they hand over needs the room more
        for (size_t i = 0; i < op.op.operands.size(); ++i) {
            if (op.homes[i] != Home::ddr || !can_stay(graph, op.op, i)) continue;
            const graph::ValueId id = op.op.operands[i].value;
            // it may come while the operation before is at work
            auto& shared = found.try_emplace(id, SharedConstant{id, std::max(number, 1u) - 1, number, 0, 0})
                               .first->second;
            shared.last = number;
            ++reads[id];
        }
    }
    std::vector<SharedConstant> result;
    for (auto& [id, shared] : found) {
        if (reads[id] == 1) continue;
        const graph::Value& value = graph.value(id);
        const uint64_t bytes = packed_bytes(value.elem, value.elements());
        shared.bytes = with_gaps(bytes);
        shared.traffic = bytes * (reads[id] * inferences - 1);
        if (inferences > 1) shared.first = 0, shared.last = static_cast<uint32_t>(ops.size()) - 1;
        result.push_back(shared);
    }
    return result;
}

std::map<graph::ValueId, BlockCut> cuts_of_shared(const Plan& plan) {
    std::map<graph::ValueId, std::vector<std::pair<Dims, int>>> counts;  // in the order of the operations
    for (const PlannedOp& op : plan.ops) {
        for (size_t i = 0; i < op.homes.size(); ++i) {
            if (op.homes[i] != Home::shared) continue;
            const Dims tile = tile_shape(*plan.graph, op.op, i, op.tiling.tile);
            auto& known = counts[op.op.operands[i].value];
            const auto same =
                std::find_if(known.begin(), known.end(), [&](const auto& of) { return of.first == tile; });
            same == known.end() ? known.emplace_back(tile, 1).second : ++same->second;
        }
    }
    const auto rarer = [](const auto& a, const auto& b) { return a.second < b.second; };
    std::map<graph::ValueId, BlockCut> result;
    for (const auto& [value, known] : counts)
        result[value] = {std::max_element(known.begin(), known.end(), rarer)->first,
                         shape_of(plan.graph->value(value))};
    return result;
}

void judge_first(Plan& plan, const Target& target) {
    std::set<graph::ValueId> there;
    for (size_t number = 0; number < plan.ops.size(); ++number) {
        PlannedOp& op = plan.ops[number];
        std::vector<Home> homes = op.homes;
        for (size_t i = 0; i < homes.size(); ++i) {
            if (homes[i] == Home::shared && there.insert(op.op.operands[i].value).second)
                homes[i] = Home::ddr;
        }
        if (homes == op.homes) continue;
        const Tiling alone = with_homes(plan, target, number, homes, number == 0);
        op.tiling.cycles = alone.cycles, op.tiling.dram = alone.dram;
    }
}

}  // namespace kpu::compiler
