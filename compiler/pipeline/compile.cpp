#include "compiler/pipeline/compile.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "base/text_output.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/pipeline/division.hpp"
#include "compiler/pipeline/effort.hpp"
#include "compiler/pipeline/mapping_file.hpp"
#include "compiler/pipeline/numbers.hpp"
#include "compiler/precision/keep.hpp"
#include "compiler/quantize/absorb_qdq.hpp"
#include "compiler/quantize/export_qdq.hpp"
#include "platforms/library.hpp"

namespace kpu::pipeline {
namespace {

class Compilation {
  public:
    Compilation(graph::Graph graph, const compiler::LoadRequest& request, std::string origin,
                Diagnostics& notes)
        : graph_(std::move(graph)),
          request_(request),
          origin_(std::move(origin)),
          notes_(notes),
          target_(*request.platform),
          has_weights_(graph_.absent.empty()) {}

    Compiled run() {
        check_values();
        const ElemType precision = choose_precision();
        const auto backend = values::make_fast_backend();
        passes::Options options{*backend};
        options.host_layout = request_.options.text("layout") != "NHWC";
        if (is_float(precision)) options.precision = precision;
        options.l1_bytes = target_.l1_bytes;
        options.f32_outputs = target_.takes("gemm.acc", {precision, precision}, {ElemType::f32});
        const std::string& wanted = request_.options.text("print-after");
        if (!wanted.empty() && wanted != "all" && wanted != "quantize" && !passes::is_pass(wanted))
            refuse_pass(wanted);
        const auto after = [&](const passes::Pass& pass, const graph::Graph& graph) {
            if (wanted == "all" || wanted == pass.name) print(pass.name, graph);
        };
        passes::run_passes(graph_, options, passes::Stage::rewrite, after);
        const std::string& qdq = request_.options.text("export-qdq");
        Numbers numbers(request_, origin_, target_, notes_);
        numbers.run(graph_, precision, options, after);
        if (!qdq.empty()) write_qdq(qdq);
        if (quantize::is_quantized(graph_) && (wanted == "all" || wanted == "quantize"))
            print("quantize", graph_);
        const int effort = request_.options.text("effort")[0] - '0';
        const compiler::Guide guide = for_effort(guide_of_user(), effort);
        guide.wishes.mark_alone(graph_);
        add_device(options);
        passes::run_passes(graph_, options, passes::Stage::schedule, after);
        Division division = best_division(graph_, target_, guide);
        tell(division);
        Compiled result{lower_with_effort(division.cut.graph, division.target, division.guide, effort,
                                          request_.simulate, std::move(division.cut.lowered)),
                        precision};
        if (has_weights_)
            request_.values ? compiler::add_weights(result.lowered)
                            : compiler::promise_weights(result.lowered);
        if (effort == 3 && result.lowered.emitted.needs_values)
            notes_.info({origin_, 0, 0},
                        "what some operations take depends on values, so no mapping was "
                        "simulated: --effort 3 chose as 2 does.");
        result.lowered.emitted.module.program.set_precision(
            std::string(precision::precision_name(result.precision)));
        if (platforms::is_shipped(target_.platform.name()))  // as a path: swkpu-v1 is no identifier of NEM
            result.lowered.emitted.module.program.mutable_device()->set_path(target_.platform.name());
        state_estimates(result, target_);
        numbers.report(result.lowered, result.precision);
        explain(result);
        if (const std::string& path = request_.options.text("write-mapping"); !path.empty())
            write_mapping(result.lowered, path);
        if (const std::string& path = request_.options.text("memory-map"); !path.empty())
            write_memory_map(result, target_, path);
        if (const std::string& path = request_.options.text("dot"); !path.empty())
            write_file(path, graph::to_dot(*result.lowered.plan.graph));
        return result;
    }

  private:
    static void print(std::string_view pass, const graph::Graph& graph) {
        std::fputs(fmt::format("# after {}\n{}\n", pass, graph::to_text(graph)).c_str(), stderr);
    }

    /// What passes ask before they choose between forms of a node.
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

    void tell(const Division& division) const {
        const size_t works = division.target.engines.size(), all = target_.engines.size();
        if (works < all)
            notes_.info({origin_, 0, 0},
                        fmt::format("{} of {} engines work: staging for all of them would leave {} of the {} "
                                    "bytes of L2 for tensors. Fix: give the device more L2, or less L1.",
                                    works, all, division.left_to_tensors, target_.l2_bytes));
    }

    void write_qdq(const std::string& path) const {
        if (!quantize::is_quantized(graph_))
            throw UserError(
                "--export-qdq: the network is not quantized. Fix: give --precision int8, and a device "
                "that has int8 forms of its operations.");
        write_file(path, quantize::export_qdq(graph_));
    }

    // ---- choices

    /// What is chosen by values, or holds them, needs the model's own.
    void check_values() const {
        if (graph_.absent.empty()) return;
        for (const char* const option : {"accuracy", "report-accuracy", "export-qdq"}) {
            if (!request_.options.given(option)) continue;
            const auto& [name, reason] = *graph_.absent.begin();
            throw UserError(
                fmt::format("{}: tensor `{}`: {}, which --{} needs. Fix: give the model with its weights, "
                            "or leave --{} out.",
                            origin_, name, reason, option, option));
        }
    }

    compiler::Guide guide_of_user() const {
        compiler::Guide guide;
        if (const std::string& path = request_.options.text("mapping"); !path.empty())
            guide.wishes = read_mapping(path);
        if (request_.options.given("inferences")) guide.inferences = inferences_of_user();
        guide.explain = request_.options.text("explain-mapping");
        return guide;
    }

    uint64_t inferences_of_user() const {
        const int64_t inferences = request_.options.integer("inferences");
        if (inferences < 1 || inferences > static_cast<int64_t>(max_inferences))
            throw UserError(
                fmt::format("--inferences {}: a program makes 1 to {} inferences. Fix: use one of these.",
                            inferences, max_inferences));
        return static_cast<uint64_t>(inferences);
    }

    ElemType choose_precision() {
        const std::string& wanted = request_.options.text("precision");
        if (!wanted.empty()) {
            const ElemType type = precision::type_named(wanted);
            const auto [a, b] = graph::factors_of(type);
            if (!target_.has_rate(a, b)) {
                throw UserError(
                    fmt::format("{}: the arrays of `{}` have no {} products. Fix: choose another "
                                "--precision, or a device "
                                "that has them (`kpusim list platforms`).",
                                origin_, target_.platform.name(), wanted));
            }
            return type;
        }
        if (quantize::is_quantized(graph_) && target_.has_rate(ElemType::i8, ElemType::i8))
            return ElemType::i8;
        const ElemType widest = target_.widest_float();
        if (widest == ElemType::none) {
            throw UserError(fmt::format(
                "{}: `{}` has no float products. Fix: quantize with --precision int8 --calibrate SAMPLES.",
                origin_, target_.platform.name()));
        }
        notes_.info({origin_, 0, 0},
                    fmt::format("compiled for {} in {}, the widest float type of its arrays; --platform and "
                                "--precision choose others.",
                                target_.platform.name(), precision::precision_name(widest)));
        return widest;
    }

    [[noreturn]] static void refuse_pass(const std::string& wanted) {
        std::string names = "quantize";
        for (const passes::Pass& pass : passes::pass_table()) {
            if (names.find(pass.name) == std::string::npos)
                names += fmt::format("{}{}", names.empty() ? "" : ", ", pass.name);
        }
        throw UserError(
            fmt::format("--print-after: there is no pass `{}`. Fix: give one of {}, or all.", wanted, names));
    }

    void explain(const Compiled& result) const {
        const std::string& wanted = request_.options.text("explain-mapping");
        if (wanted.empty()) return;
        std::fputs(mapping_text(result, wanted == "all" ? std::string_view() : wanted).c_str(), stderr);
    }

    graph::Graph graph_;
    const compiler::LoadRequest& request_;
    std::string origin_;
    Diagnostics& notes_;
    compiler::Target target_;
    bool has_weights_;
};

}  // namespace

Compiled compile(graph::Graph graph, const compiler::LoadRequest& request, const std::string& origin,
                 Diagnostics& notes) {
    return Compilation(std::move(graph), request, origin, notes).run();
}

}  // namespace kpu::pipeline
