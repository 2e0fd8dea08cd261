#pragma once
// Random double-buffered K loops, correct by construction: tiles go DDR -> L2 slot -> L1 slot and are summed up;
// windows, slots and carried tokens share the work of keeping iterations apart.

#include <algorithm>

#include "base/random.hpp"
#include "isa/builder.hpp"

namespace kpu::analysis::test {

class CarriedPipeline {
  public:
    /// `wide`: all iterations are in flight, so that only tokens order them.
    CarriedPipeline(uint64_t seed, bool wide)
        : random_(seed),
          program_("pipeline"),
          outer_(1 + pick(3)),
          inner_(2 + pick(5)),
          outer_window_(wide ? outer_ : 1 + pick(outer_)),
          inner_window_(wide ? inner_ : 1 + pick(inner_)),
          l2_slots_(1 + pick(3)),
          l1_slots_(1 + pick(3)),
          shared_(pick(2) == 0) {}

    Module build() {
        const builder::TensorType type = builder::tensor(ElemType::i8, {row});
        const int64_t copies = shared_ ? 1 : outer_window_;
        const builder::Buffer x = program_.buffer("X", Level::ddr, outer_ * inner_ * row);
        const builder::Buffer zero = program_.buffer("Z", Level::l2, row);
        const builder::Buffer y = program_.buffer("Y", Level::l2, outer_ * row);
        const builder::Buffer mid = program_.buffer("M", Level::l2, copies * l2_slots_ * row);
        const builder::Buffer slot = program_.l1_buffer("S", 0, copies * l1_slots_ * row);
        const builder::Buffer sum = program_.l1_buffer("A", 0, copies * row);
        program_.loop("t", 0, outer_ - 1, outer_window_, [&](const Expr& t) {
            const Expr copy = t % copies;
            const Region acc = program_.region("acc", sum, copy * row, type);
            Task start = program_.transfer("start", acc, program_.region("none", zero, 0, type));
            std::vector<Task> first = {start}, last;
            program_.loop("k", 0, inner_ - 1, inner_window_, [&](const Expr& k) {
                const Region tile = program_.region("tile", x, (t * inner_ + k) * row, type);
                const Region far =
                    program_.region("far", mid, (copy * l2_slots_ + k % l2_slots_) * row, type);
                const Region near =
                    program_.region("near", slot, (copy * l1_slots_ + k % l1_slots_) * row, type);
                Task load = program_.transfer("load", far, tile);
                Task move = program_.transfer("move", near, far).after({load});
                Task work = program_.compute("add", {near, acc}, {acc}, "work").after({start, move});
                work.after_previous(work, k);
                if (inner_window_ > l2_slots_ || pick(2) == 0) load.after_previous(move, k, slots(l2_slots_));
                if (inner_window_ > l1_slots_ || pick(2) == 0) move.after_previous(work, k, slots(l1_slots_));
                first.push_back(load);
                first.push_back(move);
                last.push_back(work);
            });
            const Task save =
                program_.store("save", program_.region("out", y, t * row, type), acc).after(last);
            if (shared_ && (outer_window_ > 1 || pick(2) == 0))
                for (Task& task : first) task.after_previous(save, t);
        });
        return program_.build();
    }

  private:
    using Expr = builder::Expr;
    using Region = builder::Region;
    using Task = builder::Task;
    static constexpr int64_t row = 64;

    int64_t pick(int64_t n) { return static_cast<int64_t>(random_.next() % static_cast<uint64_t>(n)); }
    static uint32_t slots(int64_t count) { return static_cast<uint32_t>(count); }

    SplitMix64 random_;
    builder::Program program_;
    const int64_t outer_, inner_, outer_window_, inner_window_, l2_slots_, l1_slots_;
    const bool shared_;  ///< iterations of the outer loop use the same slots
};

/// Returns each carried token removed, and its distance one more and one less.
inline std::vector<std::shared_ptr<Module>> carried_mutants(const Module& original) {
    std::vector<std::shared_ptr<Module>> mutants;
    for (int s = 0; s < original.program.statement_size(); ++s) {
        for (int c = 0; c < original.program.statement(s).task().carried_size(); ++c) {
            const auto change = [&](auto&& edit) {
                auto mutant = std::make_shared<Module>(original);
                edit(*mutant->program.mutable_statement(s)->mutable_task()->mutable_carried());
                mutants.push_back(std::move(mutant));
            };
            const uint32_t distance = original.program.statement(s).task().carried(c).distance();
            change([&](auto& list) { list.DeleteSubrange(c, 1); });
            change([&](auto& list) { list[c].set_distance(distance + 1); });
            if (distance > 1) change([&](auto& list) { list[c].set_distance(distance - 1); });
        }
    }
    return mutants;
}

}  // namespace kpu::analysis::test
