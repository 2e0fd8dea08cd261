#include "compiler/plan/check_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/mapping/staging.hpp"
#include "compiler/plan/mapped.hpp"
#include "compiler/plan/table.hpp"

namespace kpu::compiler {
namespace {

using graph::ValueId;

/// Bytes of a memory that something has while operations [first, last] run.
struct Stay {
    std::string name;
    uint64_t lo = 0, hi = 0;
    size_t first = 0, last = 0;
    bool meets(const Stay& o) const { return first <= o.last && o.first <= last && lo < o.hi && o.lo < hi; }
};

class Check {
  public:
    Check(const Plan& plan, const Target& target) : plan_(plan), graph_(*plan.graph), target_(target) {}

    std::vector<std::string> run() {
        for (size_t number = 0; number < plan_.ops.size(); ++number) {
            if (!has_all_fields(plan_.ops[number])) return problems_;
            check_tiles(number);
            check_l1(number);
            check_homes(number);
            check_order(number);
        }
        check_types();
        check_l2();
        check_places("DDR", Home::ddr, plan_.memory.ddr_bytes, {});
        return problems_;
    }

  private:
    template <class... Args>
    void wrong(fmt::format_string<Args...> text, Args&&... args) {
        problems_.push_back(fmt::format(text, std::forward<Args>(args)...));
    }

    bool has_all_fields(const PlannedOp& op) {
        const size_t axes = op.op.axes.size(), operands = op.op.operands.size();
        const Tiling& tiling = op.tiling;
        const bool all = tiling.tile.size() == axes && tiling.split.size() == axes &&
                         tiling.hoisted.size() == operands && tiling.place.size() == operands &&
                         tiling.keep.size() == operands && tiling.staged.size() == operands &&
                         op.homes.size() == operands && op.kept.size() == operands &&
                         (op.held.empty() || op.held.size() == operands);
        if (!all) wrong("`{}`: its plan has not a field for each axis and operand", op.op.name);
        return all;
    }

    // ---- an operation

    void check_tiles(size_t number) {
        const PlannedOp& op = plan_.ops[number];
        const Tiling& tiling = op.tiling;
        int64_t iterations = 1;
        for (size_t a = 0; a < op.op.axes.size(); ++a) {
            const Axis& axis = op.op.axes[a];
            const int64_t size = tiling.tile[a], split = tiling.split[a];
            if (size < 1 || size > axis.extent || (axis.whole && size != axis.extent) ||
                (axis.single && size != 1)) {
                wrong("`{}`: a tile of {} along `{}` of {}", op.op.name, size, axis.name, axis.extent);
                return;
            }
            if (!touches(graph_, op.op, a, size))
                wrong("`{}`: with tiles of {} along `{}` one lies in the padding alone", op.op.name, size,
                      axis.name);
            if (split < 1 || split > tiling.tiles(op.op, a) || (axis.walk == Walk::sum && split > 1))
                wrong("`{}`: {} engines along `{}`, which has {} tiles", op.op.name, split, axis.name,
                      tiling.tiles(op.op, a));
            if (axis.walk == Walk::loop) iterations *= tiling.rounds(op.op, a);
        }
        if (tiling.lanes() > static_cast<int64_t>(target_.engines.size()))
            wrong("`{}`: {} engines of {}", op.op.name, tiling.lanes(), target_.engines.size());
        if (tiling.depth < 1 || tiling.depth > iterations)
            wrong("`{}`: {} iterations in flight of {}", op.op.name, tiling.depth, iterations);
        for (size_t i = 0; i < op.op.operands.size(); ++i) check_kept(op, i);
    }

    void check_kept(const PlannedOp& op, size_t i) {
        const TileOperand& operand = op.op.operands[i];
        const Tiling& tiling = op.tiling;
        const std::string& name = graph_.value(operand.value).name;
        if (tiling.hoisted[i] && (operand.place != Place::input || tiling.follows(op.op, i, Walk::loop)))
            wrong("`{}`: `{}` is loaded before the loop, whose iterations read other parts", op.op.name,
                  name);
        if (tiling.keep[i] == Keep::no) return;
        if (operand.place != Place::input || !is_in_ddr(op.homes[i]))
            wrong("`{}`: `{}` is kept in L2, but does not come from DDR", op.op.name, name);
        if (tiling.keep[i] == Keep::tiles && !leaves_tiles(op.op, tiling, i))
            wrong("`{}`: tiles of `{}` are kept in L2, but overlap or are left twice", op.op.name, name);
        if (tiling.keep[i] == Keep::stage &&
            (tiling.hoisted[i] || tiling.lanes() > 1 || tiling.follows(op.op, i, Walk::loop) ||
             !graph_.value(operand.value).constant()))
            wrong("`{}`: `{}` is kept for a stage, whose iterations read other parts", op.op.name, name);
    }

    void check_l1(size_t number) {
        const PlannedOp& op = plan_.ops[number];
        if (2 * plan_.arena_bytes > target_.l1_bytes)
            wrong("two halves of {} bytes exceed L1, {} bytes", plan_.arena_bytes, target_.l1_bytes);
        if (op.tiling.l1_bytes() > 2 * plan_.arena_bytes)
            wrong("`{}`: its tiles take {} of {} bytes of L1", op.op.name, op.tiling.l1_bytes(),
                  2 * plan_.arena_bytes);
        Tiling again = op.tiling;
        if (!evaluated(plan_, target_, number, again) || again.place != op.tiling.place ||
            again.l1_bytes() != op.tiling.l1_bytes())
            wrong("`{}`: its tiles take other bytes of L1 than its plan says", op.op.name);
        const uint64_t half = plan_.staging_bytes;
        const auto staged = static_cast<uint64_t>(staged_offsets(graph_, op.op, op.tiling, op.homes).back());
        if (staged > (op.tiling.l1_bytes() > plan_.arena_bytes ? 2 * half : half))
            wrong("`{}`: its tiles take {} bytes of staging in L2, {} are there", op.op.name, staged, half);
    }

    void check_homes(size_t number) {
        const PlannedOp& op = plan_.ops[number];
        for (size_t i = 0; i < op.op.operands.size(); ++i) {
            const TileOperand& operand = op.op.operands[i];
            const graph::Value& value = graph_.value(operand.value);
            const Home home = op.homes[i];
            bool right = home == Home::none;
            if (value.constant()) {
                right = home == Home::ddr || (home == Home::in_place && operand.in_place) ||
                        (home == Home::shared && plan_.memory.shared.count(operand.value) > 0) ||
                        (home == Home::table && is_in_table(operand.value));
            } else if (operand.place != Place::internal) {
                const Storage& of = plan_.memory.storages[plan_.memory.views[operand.value].storage];
                right = operand.in_place        ? home == Home::in_place
                        : of.input || of.output ? home == Home::ddr
                                                : home == of.home;
            }
            if (!right) wrong("`{}`: `{}` does not live where its plan says", op.op.name, value.name);
        }
    }
    bool is_in_table(ValueId id) const { return plan_.table.places.count(whole_block(graph_, id)) > 0; }

    /// Checks the order of storages: they live while operations touch them.
    void check_order(size_t number) {
        const PlannedOp& op = plan_.ops[number];
        for (const TileOperand& operand : op.op.operands) {
            const graph::Value& value = graph_.value(operand.value);
            if (value.constant() || operand.place == Place::internal) continue;
            const Storage& of = plan_.memory.storages[plan_.memory.views[operand.value].storage];
            if (number < of.first || number > of.last)
                wrong("`{}`: `{}` lives from operation {} to {}, not at {}", op.op.name, value.name, of.first,
                      of.last, number);
        }
        for (const TileNode& node : op.op.nodes) {
            for (const size_t input : node.inputs) {
                const auto made = maker_.find(op.op.operands[input].value);
                if (made != maker_.end() && made->second > number)
                    wrong("`{}`: reads what `{}` makes later", op.op.name, plan_.ops[made->second].op.name);
            }
            for (const size_t output : node.outputs) maker_[op.op.operands[output].value] = number;
        }
    }

    void check_types() {
        for (const PlannedOp& op : plan_.ops) {
            for (const TileNode& node : op.op.nodes) {
                std::vector<ElemType> inputs, outputs;
                for (const ValueId id : graph_.nodes[node.node].inputs)
                    inputs.push_back(graph_.value(id).elem);
                for (const ValueId id : graph_.nodes[node.node].outputs)
                    outputs.push_back(graph_.value(id).elem);
                if (!target_.takes(graph_.nodes[node.node].spec(), inputs, outputs))
                    wrong("`{}`: the device has no `{}` of its types", op.op.name,
                          graph_.nodes[node.node].spec().name);
            }
            if (op.tiling.cuts_sum(op.op) && !sums_can_be_cut(graph_, op.op, op.homes, target_))
                wrong("`{}`: its sum is cut, and the device or its addend does not allow it", op.op.name);
        }
    }

    // ---- memories

    void check_l2() {
        const uint64_t staging = 2 * plan_.staging_bytes * target_.engines.size();
        const uint64_t all = staging + align_up(plan_.table.bytes) + align_up(plan_.resident_bytes) +
                             align_up(plan_.held_bytes);
        if (all > target_.l2_bytes)
            wrong("L2 has {} bytes: {} are staging, {} the table, {} tensors, {} weights that stay",
                  target_.l2_bytes, staging, plan_.table.bytes, plan_.resident_bytes, plan_.held_bytes);
        std::vector<Stay> resident, held;
        for (size_t number = 0; number < plan_.ops.size(); ++number) {
            const PlannedOp& op = plan_.ops[number];
            for (size_t i = 0; i < op.op.operands.size(); ++i) {
                if (op.tiling.keep[i] == Keep::no) continue;
                const uint64_t size = kept_bytes(graph_, op.op, op.tiling, i);
                Stay stay{fmt::format("`{}` of `{}`", graph_.value(op.op.operands[i].value).name, op.op.name),
                          op.kept[i], op.kept[i] + size, number, number};
                if (op.holds(i)) stay.first = 0, stay.last = plan_.ops.size();
                (op.holds(i) ? held : resident).push_back(std::move(stay));
            }
        }
        check_places("L2", Home::l2, plan_.resident_bytes, std::move(resident));
        check_stays("L2's weights that stay", plan_.held_bytes, held);
        std::vector<Stay> table;
        for (const auto& [block, at] : plan_.table.places) {
            const uint64_t size = packed_bytes(block.elem, static_cast<uint64_t>(block.count.product()));
            const auto lo = static_cast<uint64_t>(at);
            table.push_back({graph_.value(block.value).name, lo, lo + size, 0, plan_.ops.size()});
        }
        check_stays("the table", plan_.table.bytes, table);
    }

    void check_places(const char* level, Home home, uint64_t bytes, std::vector<Stay> stays) {
        for (const Storage& storage : plan_.memory.storages) {
            if (storage.input || storage.output || storage.first > storage.last || storage.home != home)
                continue;
            if (storage.address % tile_align != 0)
                wrong("`{}` begins at {} of {}, no multiple of {}", storage.name, storage.address, level,
                      tile_align);
            stays.push_back({storage.name, storage.address, storage.address + storage.bytes, storage.first,
                             storage.last});
        }
        check_stays(level, bytes, stays);
    }

    void check_stays(const char* level, uint64_t bytes, std::vector<Stay>& stays) {
        std::sort(stays.begin(), stays.end(), [](const Stay& a, const Stay& b) { return a.lo < b.lo; });
        for (size_t i = 0; i < stays.size(); ++i) {
            if (stays[i].hi > bytes)
                wrong("{} ends at {} of {}, which has {} bytes", stays[i].name, stays[i].hi, level, bytes);
            for (size_t j = i + 1; j < stays.size() && stays[j].lo < stays[i].hi; ++j) {
                if (stays[i].meets(stays[j]))
                    wrong("{} and {} have the same bytes of {} at a time", stays[i].name, stays[j].name,
                          level);
            }
        }
    }

    const Plan& plan_;
    const graph::Graph& graph_;
    const Target& target_;
    std::map<ValueId, size_t> maker_;  ///< operation of each value so far
    std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> check_plan(const Plan& plan, const Target& target) {
    return Check(plan, target).run();
}

}  // namespace kpu::compiler
