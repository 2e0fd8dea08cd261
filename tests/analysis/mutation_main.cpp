// Mutation proof of the schedule checker: mutants of the examples and of random correct programs, what the
// checker says of them, and what their schedules really do. Prints a table; fails when a mutant whose result
// depends on the schedule is not flagged, or a correct program is. Mutants that give one other result in
// every schedule are programs in order that compute something else (the next tile of an input, say); they are
// counted apart. Each mutant also goes through a container with places, as another compiler would give it: every
// finding must then be at the line of the statement that it is about.
//
// usage: schedule_mutations [RANDOM_PROGRAMS [SCHEDULES]]      (200 programs, 24 schedules of each mutant)
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "analysis/schedule_check.hpp"
#include "compiler/device_directive.hpp"
#include "compiler/front_ends.hpp"
#include "isa/container.hpp"
#include "isa/verify.hpp"
#include "platforms/library.hpp"
#include "runtime/simulation.hpp"
#include "tests/analysis/mutants.hpp"
#include "tests/isa/places.hpp"
#include "tests/model/random_program.hpp"

namespace kpu::analysis {
namespace {

using Outputs = std::vector<std::string>;

struct Tally {
    uint64_t mutants = 0;
    std::array<uint64_t, 3> seen{}, flagged{};  ///< indexed by Effect
    void add(const Tally& other) {
        mutants += other.mutants;
        for (size_t e = 0; e < seen.size(); ++e) {
            seen[e] += other.seen[e];
            flagged[e] += other.flagged[e];
        }
    }
};

/// Effect of a mutant: what its schedules give, compared with each other and with the original.
enum class Effect : uint8_t { varies, other, same };

class Proof {
  public:
    explicit Proof(uint64_t schedules) : schedules_(schedules) {}

    void program(const std::string& name, const std::shared_ptr<const Module>& module,
                 const platforms::Platform& platform) {
        ++originals_;
        Diagnostics refused;
        if (flagged(module, platform, refused)) {
            ++false_alarms_;
            fmt::print("false alarm: {}: {}\n", name, first_);
        }
        const Outputs expected = run(module, platform, std::nullopt);
        for (const test::Mutant& mutant : test::mutants_of(*module)) {
            Diagnostics errors;
            verify(mutant.module, platforms::limits_of(platform), {}, errors);
            if (errors.has_errors()) continue;  // refused before any schedule: nothing to find
            Tally& tally = tallies_[static_cast<size_t>(mutant.mutation)];
            ++tally.mutants;
            const bool caught = flagged(mutant.module, platform, errors);
            check_places(name + ", " + mutant.what, *mutant.module, platform);
            const Effect effect = effect_of(mutant.module, platform, expected);
            ++tally.seen[static_cast<size_t>(effect)];
            tally.flagged[static_cast<size_t>(effect)] += caught;
            if (effect == Effect::varies && !caught) fmt::print("missed: {}: {}\n", name, mutant.what);
        }
    }

    bool report() const {
        fmt::print("{} correct programs, {} flagged\n\n", originals_, false_alarms_);
        fmt::print(
            "| mutation | mutants | result varies | flagged | one other result | flagged | same result | "
            "flagged |\n"
            "|---|---|---|---|---|---|---|---|\n");
        Tally sum;
        for (int m = 0; m < test::mutation_count; ++m) {
            const Tally& t = tallies_[static_cast<size_t>(m)];
            row(test::name_of(static_cast<test::Mutation>(m)), t);
            sum.add(t);
        }
        row("all", sum);
        const uint64_t varying = sum.seen[0], caught = sum.flagged[0];
        const double rate =
            varying == 0 ? 0.0 : 100.0 * static_cast<double>(caught) / static_cast<double>(varying);
        fmt::print("\ndetection {:.2f} %, false alarms on correct programs {:.2f} %\n", rate,
                   100.0 * static_cast<double>(false_alarms_) / static_cast<double>(originals_));
        fmt::print("{} findings about statements of programs with places, {} at another line\n", placed_,
                   misplaced_);
        return varying > 0 && caught == varying && false_alarms_ == 0 && placed_ > 0 && misplaced_ == 0;
    }

  private:
    static void row(const std::string& name, const Tally& t) {
        fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} |\n", name, t.mutants, t.seen[0], t.flagged[0],
                   t.seen[1], t.flagged[1], t.seen[2], t.flagged[2]);
    }

    bool flagged(const std::shared_ptr<const Module>& module, const platforms::Platform& platform,
                 Diagnostics& errors) {
        const DeviceLimits limits = platforms::limits_of(platform);
        const BoundProgram program = kpu::bind(module, {}, limits);
        const ScheduleReport report = check_schedule(program, limits);
        add_to(report, program, errors);
        const auto found = std::find_if(report.findings.begin(), report.findings.end(),
                                        [](const Finding& f) { return f.severity != Severity::info; });
        if (found == report.findings.end()) return false;
        first_ = found->message;
        return true;
    }

    static bool is_about_all(FindingKind kind) {
        return kind == FindingKind::unused_buffer || kind == FindingKind::token_limit;
    }

    /// Checks the findings of the same program from a container with places: the same, at the emitter's
    /// lines.
    void check_places(const std::string& name, const Module& module, const platforms::Platform& platform) {
        const DeviceLimits limits = platforms::limits_of(platform);
        const std::vector<Finding> expected =
            check_schedule(kpu::bind(std::make_shared<Module>(module), {}, limits), limits).findings;
        Module placed(module);
        kpu::test::add_places(placed.program);
        const auto read =
            std::make_shared<Module>(parse_container(serialize_container(placed), "mutant.kpu"));
        const BoundProgram program = kpu::bind(read, {}, limits);
        Diagnostics found;
        FindingOrigins origins;
        const ScheduleReport report = check_schedule(program, limits);
        add_to(report, program, found, &origins);
        bool same = report.findings.size() == expected.size();
        for (size_t i = 0; same && i < expected.size(); ++i) {
            const Finding &before = expected[i], &after = report.findings[i];
            same = before.kind == after.kind && before.statement == after.statement &&
                   before.other_statement == after.other_statement && before.buffer == after.buffer &&
                   before.first == after.first && before.last == after.last;
            if (!same || is_about_all(before.kind)) continue;
            ++placed_;
            const FindingOrigin& origin = origins.at(i);
            const auto at = [](const SourcePos& pos, uint32_t statement) {
                return kpu::test::same_place(pos, kpu::test::emitter_pos(statement));
            };
            const bool right = at(found.all()[i].pos, before.statement) && origin.side &&
                               at(origin.side->pos, before.statement) &&
                               (before.other_statement == before.statement ||
                                (origin.other && at(origin.other->pos, before.other_statement)));
            if (right) continue;
            ++misplaced_;
            fmt::print("misplaced: {}: {}\n", name, to_string(found.all()[i]));
        }
        if (same) return;
        ++misplaced_;
        fmt::print("other findings with places than without: {}\n", name);
    }

    Outputs run(const std::shared_ptr<const Module>& module, const platforms::Platform& platform,
                std::optional<uint64_t> seed) const {
        runtime::SimulationOptions options;
        options.mode = runtime::Mode::functional;
        options.hazards = false;
        options.random_order = seed.has_value();
        options.seed = seed.value_or(0);
        runtime::Simulation simulation(module, &platform, options);
        simulation.fill_inputs_random(11);
        simulation.run();
        Outputs outputs;
        for (const auto& spec : simulation.output_specs())
            outputs.push_back(simulation.output(spec.name).data);
        return outputs;
    }

    Effect effect_of(const std::shared_ptr<const Module>& module, const platforms::Platform& platform,
                     const Outputs& expected) const {
        const Outputs own = run(module, platform, std::nullopt);
        for (uint64_t seed = 0; seed < schedules_; ++seed) {
            if (run(module, platform, seed) != own) return Effect::varies;
        }
        return own == expected ? Effect::same : Effect::other;
    }

    const uint64_t schedules_;
    uint64_t originals_ = 0, false_alarms_ = 0, placed_ = 0, misplaced_ = 0;
    std::array<Tally, test::mutation_count> tallies_;
    std::string first_;
};

}  // namespace
}  // namespace kpu::analysis

int main(int argc, char** argv) {
    using namespace kpu;
    const uint64_t programs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200;
    const uint64_t schedules = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 24;
    analysis::Proof proof(schedules);
    for (const std::string name : {"digits", "gemm_relu", "gemm_rmsnorm", "conv_pool"}) {
        Diagnostics diagnostics;
        const auto module = compiler::load_program(
            std::string(KPUSIM_SOURCE_DIR) + "/examples/" + name + "/" + name + ".nem", {}, diagnostics);
        const auto platform = compiler::resolve_platform(*module, "", {}, {}, diagnostics);
        proof.program(name, module, *platform);
    }
    // random programs are in order, but leave it to the device to hold as many tokens as they ask for
    const platforms::Platform platform =
        platforms::load("npm_lite", {{"sequencer.max_active_tokens", "4096"}});
    for (uint64_t seed = 1; seed <= programs; ++seed) {
        const model::RandomProgram random(platform, seed, false);
        proof.program(fmt::format("random {}", seed), std::make_shared<Module>(random.program().build()),
                      platform);
    }
    return proof.report() ? 0 : 1;
}
