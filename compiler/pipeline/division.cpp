#include "compiler/pipeline/division.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/pipeline/compile.hpp"
#include "compiler/target/smaller.hpp"

namespace kpu::pipeline {
namespace {

/// Bytes of tensors between operations, moved to and from DRAM, that L2 would hold if nothing else were
/// there.
struct CrowdedOut {
    uint64_t bytes = 0, traffic = 0;
};
CrowdedOut crowded_out(const compiler::Plan& plan, const compiler::Target& target) {
    CrowdedOut sum;
    for (const compiler::Storage& of : plan.memory.storages) {
        const bool between = !of.input && !of.output && !of.constant && of.first <= of.last;
        if (!between || of.home != compiler::Home::ddr || of.bytes >= target.l2_bytes) continue;
        sum.bytes += of.bytes;
        sum.traffic += of.traffic;
    }
    return sum;
}

/// Returns what inputs of operations move from DRAM beyond once.
uint64_t read_again(const compiler::Plan& plan) {
    double bytes = 0;
    for (const compiler::PlannedOp& op : plan.ops) {
        for (size_t i = 0; i < op.op.operands.size(); ++i) {
            const compiler::TileOperand& operand = op.op.operands[i];
            if (operand.place != compiler::Place::input || op.homes[i] != compiler::Home::ddr) continue;
            if (op.tiling.keep[i] != compiler::Keep::no) continue;
            const graph::Value& value = plan.graph->value(operand.value);
            bytes += (compiler::times_read(op.op, op.tiling, i) - 1) *
                     static_cast<double>(packed_bytes(value.elem, value.elements()));
        }
    }
    return static_cast<uint64_t>(bytes);
}

/// A part of the device: its first engines, and so much staging for each.
struct Part {
    size_t engines = 1;
    uint64_t staging_bytes = 1;
};

class Divisions {
  public:
    Divisions(const graph::Graph& graph, const compiler::Target& target, const compiler::Guide& guide)
        : graph_(graph), target_(target), guide_(guide), all_{target.engines.size(), target.staging_bytes} {}

    Division best() {
        best_.emplace(of(wished()));
        if (best_->is_part) best_->left_to_tensors = compiler::room_of_tensors(best_->cut.graph, target_).l2;
        if (!guide_.wishes.empty() || best_->is_part) return *std::move(best_);
        const compiler::Plan& whole = program_of(*best_).plan;
        const CrowdedOut out = crowded_out(whole, target_);
        const double moved = static_cast<double>(out.traffic + read_again(whole));
        cycles_ = cycles_of(*best_);
        left_ = compiler::room_of_tensors(best_->cut.graph, target_).l2;
        dram_ = dram_of(*best_);
        // what DRAM has to do with those bytes is the most that less staging can gain: in time; in energy, where tensors
        // would nearly fit
        const double of_dram = target_.ddr_bytes_per_cycle;
        const bool nearly = out.bytes <= 4 * 2 * all_.staging_bytes * all_.engines;
        const bool matters =
            moved >= least_gain * cycles_ * of_dram || (nearly && moved >= much_of_dram * dram_ * of_dram);
        if (matters) shrink_staging(all_.engines);
        if (out.bytes == 0) return *std::move(best_);
        size_t engines = all_.engines;
        for (const size_t fewer : fewer_than(all_.engines))
            if (consider({fewer, all_.staging_bytes}, true)) engines = fewer;
        if (matters && engines < all_.engines) shrink_staging(engines);
        return *std::move(best_);
    }

  private:
    /// Share of the cycles to make more plans for, and to take one for: effort 2 gains more where an operation has more staging.
    static constexpr double least_gain = 0.03;
    /// Share of DRAM's time to take a plan for, as it is energy, where a program takes hardly longer.
    static constexpr double much_of_dram = 0.2, as_fast = 1.008;

    /// Shrinks the staging. Tries from the first gain on, as long as there is one: of many engines even a
    /// half may exceed L2. Strips for the most staging tell little of those for less: the first part gets its
    /// own.
    void shrink_staging(size_t engines) {
        bool gained = false;
        for (const uint64_t parts : {2, 4, 8}) {
            const uint64_t staging = all_.staging_bytes / parts / compiler::tile_align * compiler::tile_align;
            const bool gains = consider({engines, staging}, parts > 2);
            if (gained && !gains) return;
            gained = gains;
        }
    }

    /// Returns all of the device, or what the mapping file says.
    Part wished() const {
        const compiler::DeviceWish& wish = guide_.wishes.device();
        const auto checked = [](const char* what, const std::optional<int64_t>& of, uint64_t most) {
            if (!of) return most;
            if (*of < 1 || static_cast<uint64_t>(*of) > most)
                throw UserError(fmt::format(
                    "--mapping: `{}` of `__device` is {}, and the device has {}. Fix: give 1 to {}.", what,
                    *of, most, most));
            return static_cast<uint64_t>(*of);
        };
        return {checked("engines", wish.engines, all_.engines),
                checked("staging_bytes", wish.staging_bytes, all_.staging_bytes)};
    }

    Division of(const Part& part) const {
        Division smaller = uncut(part);
        smaller.cut = in_best_strips(graph_, smaller.target, smaller.guide);
        return smaller;
    }

    /// Divides with the strips of the best so far: one plan tells whether those for this part are worth a
    /// search.
    Division uncut(const Part& part) const {
        compiler::Target smaller = target_;
        compiler::Guide guide = guide_;
        smaller.engines.erase(smaller.engines.begin() + static_cast<std::ptrdiff_t>(part.engines),
                              smaller.engines.end());
        smaller.staging_bytes = part.staging_bytes;
        const bool is_part = part.engines < all_.engines || part.staging_bytes < all_.staging_bytes;
        if (is_part) {
            guide.searches = std::make_shared<compiler::Searches>();
            if (guide.smaller) guide.smaller = std::make_shared<const compiler::SmallerDevices>(smaller);
        }
        return {std::move(smaller),
                std::move(guide),
                {best_ ? best_->cut.graph : graph_, std::nullopt},
                is_part,
                0};
    }

    /// True if it is the best so far. `as_cut`: not if it is slow with the strips of the best so far.
    bool consider(const Part& part, bool as_cut = false) {
        try {
            if (as_cut && is_slow(uncut(part))) return false;
            Division smaller = of(part);
            const double cycles = cycles_of(smaller);
            const bool same_engines = part.engines == best_->target.engines.size();
            const double dram = dram_of(smaller);
            const bool faster = cycles < (same_engines ? 1 - least_gain : 1) * cycles_;
            const bool spares = cycles <= as_fast * cycles_ && dram <= (1 - much_of_dram) * dram_;
            if (!faster && !spares) return false;
            cycles_ = cycles;
            dram_ = dram;
            smaller.left_to_tensors = left_;
            best_.emplace(std::move(smaller));
            return true;
        } catch (const UserError&) {  // an operation does not fit into this much staging
            return false;
        }
    }

    /// True if the trial is slow by closed forms, which take less time than a program and its schedule; for
    /// all engines, whose strips may stay, by these as well.
    bool is_slow(Division trial) {
        constexpr double slack = 1.1;
        const auto predicted = [](const compiler::Plan& plan) {
            double cycles = 0;
            for (const compiler::PlannedOp& op : plan.ops) cycles += op.tiling.cycles;
            return cycles;
        };
        compiler::Plan plan = compiler::plan(trial.cut.graph, trial.target, trial.guide);
        if (predicted(plan) > slack * predicted(program_of(*best_).plan)) return true;
        if (trial.target.engines.size() < all_.engines) return false;
        trial.cut.lowered.emplace(compiler::lower(std::move(plan), trial.target));
        return cycles_of(trial) >= as_fast * cycles_;
    }

    static const compiler::Lowered& program_of(Division& of) {
        if (!of.cut.lowered)
            of.cut.lowered.emplace(
                compiler::lower(compiler::plan(of.cut.graph, of.target, of.guide), of.target));
        return *of.cut.lowered;
    }

    static double cycles_of(Division& of) {
        return estimate_of(program_of(of), of.target, estimate::Detail::times).cycles;
    }

    /// Cycles of DRAM alone.
    static double dram_of(Division& of) {
        double cycles = 0;
        for (const compiler::PlannedOp& op : program_of(of).plan.ops) cycles += op.tiling.dram;
        return cycles;
    }

    /// Halves down to eight, then each count: a plan takes about as long as the compilation of it.
    static std::vector<size_t> fewer_than(size_t engines) {
        std::vector<size_t> counts;
        while (engines > 1)
            counts.push_back(engines = engines > 8 ? std::max<size_t>(engines / 2, 8) : engines - 1);
        return counts;
    }

    const graph::Graph& graph_;
    const compiler::Target& target_;
    const compiler::Guide& guide_;
    const Part all_;
    std::optional<Division> best_;
    double cycles_ = 0, dram_ = 0;  ///< the best one's
    uint64_t left_ = 0;
};

}  // namespace

Division best_division(const graph::Graph& graph, const compiler::Target& target,
                       const compiler::Guide& guide) {
    return Divisions(graph, target, guide).best();
}

bool crowds_out(const compiler::Plan& plan, const compiler::Target& target) {
    return crowded_out(plan, target).bytes > 0;
}

std::string division_text(const compiler::Plan& plan, const compiler::Target& target) {
    const CrowdedOut out = crowded_out(plan, target);
    const uint64_t staging = 2 * plan.staging_bytes * target.engines.size();
    std::string text = fmt::format(
        "L2, {} bytes: {} of staging for {} engine{}, {} of constants that units read, {} of tensors",
        target.l2_bytes, staging, target.engines.size(), target.engines.size() == 1 ? "" : "s",
        plan.table.bytes, plan.resident_bytes);
    if (out.bytes > 0)
        text += fmt::format("; {} of tensors live in DRAM that would fit without the rest", out.bytes);
    return text;
}

}  // namespace kpu::pipeline
