#include "compiler/plan/plan.hpp"

#include <algorithm>
#include <utility>

#include "base/diagnostics.hpp"
#include "compiler/plan/held.hpp"
#include "compiler/plan/layout.hpp"
#include "compiler/plan/mapped.hpp"
#include "compiler/plan/shared.hpp"

namespace kpu::compiler {
namespace {

/// Request for the tilings of one operation of a plan.
class Request {
  public:
    Request(const Plan& plan, const Target& target, size_t number, const TileOp& op,
            const std::vector<Home>& homes, bool first)
        : strides_(strides_at_home(*plan.graph, plan.memory, op)),
          request{*plan.graph,
                  op,
                  target,
                  homes,
                  strides_,
                  plan.arena_bytes,
                  plan.staging_bytes,
                  plan.memory.spare[number].bytes,
                  first} {}
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;

  private:
    std::vector<Dims> strides_;

  public:
    TilingRequest request;
};

/// Uses the form of an operation that a tiling needs.
void use(PlannedOp& op, const Tiling& tiling) {
    if (op.addends) op.op = tiling.cuts_sum(op.op) ? op.addends->wide : op.addends->own;
    op.tiling = tiling;
}

class Search {
  public:
    Search(const Plan& plan, const Target& target, const Guide& guide)
        : plan_(plan), target_(target), guide_(guide) {}

    std::vector<Tiling> fastest(size_t number, std::vector<Tiling>& considered) const {
        const PlannedOp& op = plan_.ops[number];
        if (!op.addends) return of(number, op.op, considered, fastest_tilings);
        std::vector<Tiling> found = of(number, op.addends->wide, considered, fastest_tilings);
        if (found.at(0).cuts_sum(op.op)) return found;
        return of(number, op.addends->own, considered, fastest_tilings);
    }

    std::vector<Tiling> around(size_t number, std::vector<Tiling>& considered) const {
        const PlannedOp& op = plan_.ops[number];
        return of(number, op.op, considered,
                  [&](const TilingRequest& request) { return tilings_around(request, op.tiling); });
    }

  private:
    template <class Find>
    std::vector<Tiling> of(size_t number, const TileOp& op, std::vector<Tiling>& considered,
                           const Find& find) const {
        Request of(plan_, target_, number, op, plan_.ops[number].homes, number == 0);
        const MappingWish wish = guide_.wishes.of(op.name);
        of.request.wish = &wish;
        if (op.name == guide_.explain) of.request.considered = &considered;
        of.request.keep = std::max<size_t>(1, guide_.keep);
        of.request.more = plan_.ops.size() <= guide_.more_up_to;
        if (of.request.more && guide_.smaller) of.request.smaller = &guide_.smaller->list();
        of.request.searches = guide_.searches.get();
        return find(of.request);
    }

    const Plan& plan_;
    const Target& target_;
    const Guide& guide_;
};

/// Gives places to what stays in L2 during an operation.
void keep(Plan& plan, size_t number) {
    PlannedOp& op = plan.ops[number];
    uint64_t next = plan.memory.spare[number].address;
    op.kept.clear();
    for (size_t i = 0; i < op.op.operands.size(); ++i) {
        op.kept.push_back(next);
        if (op.tiling.keep[i] == Keep::no) continue;
        next += kept_bytes(*plan.graph, op.op, op.tiling, i);
    }
    if (op.tiling.kept_bytes > 0) plan.resident_bytes = std::max(plan.resident_bytes, next);
}

/// Settles what follows from the tilings.
Plan settled(Plan plan, const Target& target) {
    plan.resident_bytes = plan.memory.l2_bytes;
    for (size_t number = 0; number < plan.ops.size(); ++number) keep(plan, number);
    plan.shared = cuts_of_shared(plan);
    judge_first(plan, target);
    if (plan.inferences > 1) hold_weights(plan, target);
    return plan;
}

/// Makes a plan with tilings that were found for its operations.
Plan tiled(Plan plan, const Target& target, const std::vector<Tiling>& tilings) {
    for (size_t number = 0; number < plan.ops.size(); ++number) {
        PlannedOp& op = plan.ops[number];
        use(op, tilings.at(number));
        if (!evaluated(plan, target, number, op.tiling))
            throw InternalError("plan: a tiling of an earlier search does not fit");
    }
    return settled(std::move(plan), target);
}

}  // namespace

Tiling with_homes(const Plan& plan, const Target& target, size_t number, const std::vector<Home>& homes,
                  bool first) {
    const PlannedOp& op = plan.ops[number];
    const Request of(plan, target, number, op.op, homes, first);
    Tiling result = op.tiling;
    evaluate(of.request, result);
    return result;
}

bool evaluated(const Plan& plan, const Target& target, size_t number, Tiling& tiling) {
    const PlannedOp& op = plan.ops[number];
    const Request of(plan, target, number, op.op, op.homes, number == 0);
    return evaluate(of.request, tiling);
}

Plan plan(graph::Graph graph, const Target& target, const Guide& guide) {
    Plan plan = lay_out(std::move(graph), target, guide);
    const Search search(plan, target, guide);
    for (size_t number = 0; number < plan.ops.size(); ++number) {
        Alternatives found;
        found.fastest = search.fastest(number, found.considered);
        use(plan.ops[number], found.fastest[0]);
        plan.ops[number].alternatives = std::make_shared<const Alternatives>(std::move(found));
    }
    return settled(std::move(plan), target);
}

Plan plan(graph::Graph graph, const Target& target, const Guide& guide, const std::vector<Tiling>& tilings) {
    return tiled(lay_out(std::move(graph), target, guide), target, tilings);
}

Plan replan(const Plan& from, const Target& target, const std::vector<Tiling>& tilings) {
    return tiled(from, target, tilings);
}

Plan moved_to_ddr(Plan of, uint32_t storage) {
    Storage& moved = of.memory.storages.at(storage);
    moved.home = Home::ddr;
    moved.address = align_up(of.memory.ddr_bytes);
    of.memory.ddr_bytes = moved.address + align_up(moved.bytes);
    for (PlannedOp& op : of.ops) {
        for (size_t i = 0; i < op.homes.size(); ++i) {
            const TileOperand& operand = op.op.operands[i];
            const bool there = op.homes[i] == Home::l2 && !of.graph->value(operand.value).constant() &&
                               of.memory.views[operand.value].storage == storage;
            if (there) op.homes[i] = Home::ddr;
        }
    }
    return of;
}

Plan with_neighbours(Plan of, const Target& target, const Guide& guide) {
    const Search search(of, target, guide);
    for (size_t number = 0; number < of.ops.size(); ++number) {
        Alternatives found;
        found.fastest = search.around(number, found.considered);
        of.ops[number].alternatives = std::make_shared<const Alternatives>(std::move(found));
    }
    return of;
}

}  // namespace kpu::compiler
