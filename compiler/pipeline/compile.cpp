#include "compiler/pipeline/compile.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "base/text_output.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/pipeline/division.hpp"
#include "compiler/pipeline/effort.hpp"
#include "compiler/pipeline/mapping_file.hpp"
#include "compiler/pipeline/numbers.hpp"
#include "compiler/pipeline/typed.hpp"
#include "compiler/precision/keep.hpp"
#include "platforms/library.hpp"

namespace kpu::pipeline {
namespace {

class Compilation {
  public:
    Compilation(const compiler::LoadRequest& request, std::string origin, Diagnostics& notes,
                graph::TextHead head)
        : request_(request),
          options_(compile_options(request.options)),
          origin_(std::move(origin)),
          notes_(notes),
          target_(*request.platform),
          head_(std::move(head)) {}

    Compiled run(const Import& import) {
        const std::shared_ptr<const Typed> network =
            typed(import, options_, request_.kept, origin_, target_, notes_, head_);
        graph::Graph graph = network->graph;
        const bool has_weights = network->absent.empty();
        const compiler::Guide guide = for_effort(guide_of_user(), target_, options_.effort);
        guide.wishes.mark_alone(graph);
        const auto backend = values::make_fast_backend();
        passes::Options options = pass_options(*backend, options_, target_, network->precision);
        add_device(options);
        options.passed = head_.passed;
        passes::run_passes(graph, options, passes::Stage::schedule, after_pass(options_, head_));
        Division division = best_division(graph, target_, guide);
        Compiled result{
            lower_with_effort(division.cut.graph, division.target, division.guide, options_.effort,
                              request_.simulate, std::move(division.cut.lowered)),
            network->precision, network->absent};
        tell(division, result.lowered.plan);
        if (has_weights)
            request_.values ? compiler::add_weights(result.lowered)
                            : compiler::promise_weights(result.lowered);
        if (options_.effort == 3 && result.lowered.emitted.needs_values)
            notes_.info({origin_, 0, 0},
                        "what some operations take depends on values, so no mapping was "
                        "simulated: --effort 3 chose as 2 does.");
        result.lowered.emitted.module.program.set_precision(
            quantize::find_block_format(options_.precision) != nullptr
                ? options_.precision
                : std::string(precision::precision_name(result.precision)));
        if (platforms::is_shipped(target_.platform.name()))  // as a path: swkpu-v1 is no identifier of NEM
            result.lowered.emitted.module.program.mutable_device()->set_path(target_.platform.name());
        state_estimates(result, target_);
        write_artefacts(result, *network, division);
        return result;
    }

  private:
    /// Adds what passes ask before they choose between forms of a node.
    void add_device(passes::Options& options) const {
        options.supports = supports_of(target_);
        options.ddr_bytes_per_cycle = target_.ddr_bytes_per_cycle;
        options.product_cycles = [&target = target_](const passes::ProductShape& of) {
            const timing::SystolicArray array = timing::array_for(target.engines[0].array(), of.a, of.b);
            const timing::GemmShape shape{of.m, of.n, of.k, of.groups};
            const auto bytes = [](ElemType type) { return double(bit_width(type)) / 8; };
            const timing::SystolicTime time = timing::systolic_time(array, shape);
            return target.array_busy(time, shape, {bytes(of.a), bytes(of.b), bytes(of.result)}) /
                   target.array_cycles;
        };
    }

    /// Tells of a device that its own shape keeps from using what it has.
    void tell(const Division& division, const compiler::Plan& plan) const {
        const size_t works = division.target.engines.size(), all = target_.engines.size();
        if (works < all) {
            notes_.info(
                {origin_, 0, 0},
                fmt::format(
                    "{} of {} engines work: staging for all of them would leave {} of the {} bytes of "
                    "L2 for tensors. Fix: give the device more L2, or less L1.",
                    works, all, division.left_to_tensors, target_.l2_bytes));
        } else if (2 * plan.staging_bytes * works > target_.l2_bytes / 2 && crowds_out(plan, target_)) {
            notes_.info({origin_, 0, 0}, fmt::format("{}. Fix: give the device more L2, or less L1.",
                                                     division_text(plan, target_)));
        }
    }

    void write_artefacts(const Compiled& result, const Typed& network, const Division& division) const {
        if (network.measured && !options_.report_accuracy.empty())
            report_accuracy(*network.measured, options_.report_accuracy, result.lowered, result.precision);
        explain(result, division.target);
        if (!options_.write_mapping.empty()) write_mapping(result.lowered, division, options_.write_mapping);
        if (!options_.memory_map.empty()) write_memory_map(result, target_, options_.memory_map);
        if (!options_.dot.empty()) write_file(options_.dot, graph::to_dot(*result.lowered.plan.graph));
    }

    // ---- choices

    compiler::Guide guide_of_user() const {
        compiler::Guide guide;
        if (!options_.mapping.empty()) guide.wishes = read_mapping(options_.mapping);
        if (options_.inferences) guide.inferences = *options_.inferences;
        guide.explain = options_.explain_mapping;
        return guide;
    }

    void explain(const Compiled& result, const compiler::Target& target) const {
        const std::string& wanted = options_.explain_mapping;
        if (wanted.empty()) return;
        std::string text = mapping_text(result, wanted == "all" ? std::string_view() : wanted);
        if (wanted == "all") text += division_text(result.lowered.plan, target) + "\n";
        std::fputs(text.c_str(), stderr);
    }

    const compiler::LoadRequest& request_;
    CompileOptions options_;
    std::string origin_;
    Diagnostics& notes_;
    compiler::Target target_;
    graph::TextHead head_;
};

}  // namespace

Compiled compile(const Import& import, const compiler::LoadRequest& request, const std::string& origin,
                 Diagnostics& notes, const graph::TextHead& head) {
    return Compilation(request, origin, notes, head).run(import);
}

}  // namespace kpu::pipeline
