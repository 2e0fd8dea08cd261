#include "execution/program_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::execution {
namespace {

using Kind = BoundStatement::Kind;

class Planner {
  public:
    Planner(const BoundProgram& program, ProgramPlan& plan) : program_(program), plan_(plan) {}

    void run() {
        plan_.statements.resize(program_.statements.size());
        slots_.resize(program_.statements.size());
        lay_out_blocks();
        for (uint32_t s = 0; s < program_.statements.size(); ++s) resolve_tokens(s);
        for (size_t b = plan_.blocks.size(); b-- > 0;) find_demands(plan_.blocks[b]);
    }

  private:
    void lay_out_blocks() {
        const auto count = static_cast<uint32_t>(program_.statements.size());
        plan_.blocks.push_back({0, count, 0, 0, {}, {}, 0, false});
        uint32_t block = 0;
        for (uint32_t s = 0; s < count; ++s) {
            while (s >= plan_.blocks[block].end && block != 0) block = plan_.blocks[block].parent;
            StatementPlan& statement = plan_.statements[s];
            statement.block = block;
            statement.next = s + 1;
            statement.idle = program_.statements[s].kind == Kind::let;
            if (program_.statements[s].kind != Kind::loop) continue;
            const uint32_t end = program_.loops.at(program_.statements[s].index).body_end;
            if (end <= s || end > plan_.blocks[block].end) {
                throw InternalError(fmt::format("loop statement {} ends at {}, outside its block", s, end));
            }
            statement.next = end;
            statement.idle = !does_anything(s + 1, end);
            statement.body = static_cast<uint32_t>(plan_.blocks.size());
            plan_.blocks.push_back({s + 1, end, block, plan_.blocks[block].depth + 1, {}, {}, 0, false});
            block = statement.body;
        }
    }

    bool does_anything(uint32_t first, uint32_t end) const {
        return std::any_of(program_.statements.begin() + first, program_.statements.begin() + end,
                           [this](const BoundStatement& s) {
                               return s.kind == Kind::task ||
                                      (s.kind == Kind::wait && !program_.waits[s.index].empty());
                           });
    }

    void resolve_tokens(uint32_t s) {
        const BoundStatement& statement = program_.statements[s];
        if (statement.kind == Kind::task) {
            const BoundTask& task = program_.tasks.at(statement.index);
            if (task.sync) slot_of(s, 0);
            add_needs(s, task.deps);
            for (const CarriedDep& carried : task.carried) add_carried(s, carried);
        } else if (statement.kind == Kind::wait) {
            add_needs(s, program_.waits.at(statement.index));
        }
    }

    void add_needs(uint32_t s, std::vector<uint32_t> targets) {
        std::sort(targets.begin(), targets.end());
        targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
        for (const uint32_t target : targets) {
            if (target >= s || program_.statements[target].kind != Kind::task) {
                throw InternalError(
                    fmt::format("statement {} refers to statement {}, which is no earlier task", s, target));
            }
            plan_.statements[s].needs.push_back(token_of(target, s));
        }
    }

    /// The token lives in the thread of the nearest block that both stand in.
    TokenRef token_of(uint32_t target, uint32_t s) {
        const uint32_t common = common_block(target, s);
        const uint32_t depth = plan_.blocks[common].depth;
        const uint32_t up = plan_.blocks[plan_.statements[s].block].depth - depth;
        const uint32_t out = plan_.blocks[plan_.statements[target].block].depth - depth;
        return {up, slot_of(target, out), 0, 0};
    }

    uint32_t common_block(uint32_t target, uint32_t s) const {
        uint32_t common = plan_.statements[target].block;
        while (!encloses(common, s)) common = plan_.blocks[common].parent;
        return common;
    }

    void add_carried(uint32_t s, const CarriedDep& carried) {
        const bool known = carried.task < program_.statements.size() && carried.distance > 0 &&
                           program_.statements[carried.task].kind == Kind::task &&
                           carried.loop < program_.statements.size() &&
                           program_.statements[carried.loop].kind == Kind::loop;
        const uint32_t body = known ? plan_.statements[carried.loop].body : 0;
        if (!known || !encloses(body, carried.task) || !encloses(body, s)) {
            throw InternalError(
                fmt::format("statement {} needs a token of statement {}, which no loop {} carries", s,
                            carried.task, carried.loop));
        }
        TokenRef need = token_of(carried.task, s);
        need.distance = carried.distance;
        uint32_t block = common_block(carried.task, s);
        plan_.blocks[block].carries = true;
        for (; block != body; block = plan_.blocks[block].parent, ++need.inner) {
            StatementPlan& loop = plan_.statements[plan_.blocks[block].first - 1];
            if (loop.watch == no_slot) loop.watch = static_cast<int32_t>(plan_.blocks[loop.block].watches++);
        }
        std::vector<TokenRef>& needs = plan_.statements[s].needs;
        if (std::find(needs.begin(), needs.end(), need) == needs.end()) needs.push_back(need);
    }

    bool encloses(uint32_t block, uint32_t s) const {
        return s >= plan_.blocks[block].first && s < plan_.blocks[block].end;
    }

    /// Returns the slot that counts task `target` seen from `depth` loops further out; makes the slots in
    /// between.
    uint32_t slot_of(uint32_t target, uint32_t depth) {
        std::vector<uint32_t>& known = slots_[target];
        while (known.size() <= depth) {
            uint32_t block = plan_.statements[target].block;
            for (size_t level = 0; level < known.size(); ++level) block = plan_.blocks[block].parent;
            const auto slot = static_cast<uint32_t>(plan_.blocks[block].slots.size());
            plan_.blocks[block].slots.push_back({target, static_cast<uint32_t>(known.size()), no_slot});
            if (known.empty()) {
                plan_.statements[target].slot = static_cast<int32_t>(slot);
            } else {
                link(target, known, slot);
            }
            known.push_back(slot);
        }
        return known[depth];
    }

    /// The innermost known slot of `target` counts towards `slot` of the block around.
    void link(uint32_t target, const std::vector<uint32_t>& known, uint32_t slot) {
        uint32_t inner = plan_.statements[target].block;
        for (size_t level = 1; level < known.size(); ++level) inner = plan_.blocks[inner].parent;
        plan_.blocks[inner].slots[known.back()].next = static_cast<int32_t>(slot);
        plan_.statements[plan_.blocks[inner].first - 1].counted.push_back(slot);
    }

    uint16_t index_of(const UnitDemand& demand) {
        auto& demands = plan_.demands;
        const auto it = std::find(demands.begin(), demands.end(), demand);
        if (it != demands.end()) return static_cast<uint16_t>(it - demands.begin());
        demands.push_back(demand);
        return static_cast<uint16_t>(demands.size() - 1);
    }

    std::vector<uint16_t> own_demands(uint32_t s) {
        const BoundStatement& statement = program_.statements[s];
        if (statement.kind == Kind::loop) return plan_.blocks[plan_.statements[s].body].demands;
        if (statement.kind != Kind::task) return {};
        const BoundTask& task = program_.tasks[statement.index];
        std::vector<uint16_t> result = {index_of(demand_of(task))};
        if (const auto partner = partner_demand_of(task)) result.push_back(index_of(*partner));
        return result;
    }

    /// Walks a block backwards; inner blocks have been done (they come later in the list).
    void find_demands(BlockPlan& block) {
        std::vector<uint32_t> order;
        for (uint32_t s = block.first; s < block.end; s = plan_.statements[s].next) order.push_back(s);
        for (auto s = order.rbegin(); s != order.rend(); ++s) {
            if (plan_.statements[*s].idle) continue;
            for (const uint16_t id : own_demands(*s)) {
                if (std::find(block.demands.begin(), block.demands.end(), id) != block.demands.end())
                    continue;
                block.demands.push_back(id);
                plan_.statements[*s].lost.push_back(id);
            }
        }
    }

    const BoundProgram& program_;
    ProgramPlan& plan_;
    std::vector<std::vector<uint32_t>> slots_;  ///< slots of each task statement, by depth
};

}  // namespace

UnitDemand demand_of(const BoundTask& task) {
    return {task.unit, row_of(task.unit).per_engine ? task.engine : -1, task.instance};
}

std::optional<UnitDemand> partner_demand_of(const BoundTask& task) {
    if (!task.partner) return std::nullopt;
    return UnitDemand{*task.partner, task.engine, -1};
}

bool UnitDemand::accepts(UnitKind unit, int unit_engine, int unit_instance) const {
    const auto matches = [](int wanted, int given) { return wanted < 0 || given < 0 || wanted == given; };
    return kind == unit && matches(engine, unit_engine) && matches(instance, unit_instance);
}

ProgramPlan::ProgramPlan(const BoundProgram& program) { Planner(program, *this).run(); }

}  // namespace kpu::execution
