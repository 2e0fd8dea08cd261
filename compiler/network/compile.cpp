#include "compiler/network/compile.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>

#include "base/text_output.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/quantize/absorb_qdq.hpp"
#include "compiler/quantize/export_qdq.hpp"
#include "compiler/quantize/quantize.hpp"
#include "platforms/library.hpp"

namespace kpu::network {
namespace {

ElemType type_of(const std::string& precision) {
    if (precision == "f32") return ElemType::f32;
    if (precision == "fp16") return ElemType::f16;
    if (precision == "bf16") return ElemType::bf16;
    return ElemType::i8;
}

std::string precision_name(ElemType type) {
    return type == ElemType::f16 ? "fp16" : type == ElemType::i8 ? "int8" : std::string(name_of(type));
}

class Compilation {
  public:
    Compilation(graph::Graph graph, const compiler::LoadRequest& request, std::string origin,
                Diagnostics& notes)
        : graph_(std::move(graph)),
          request_(request),
          origin_(std::move(origin)),
          notes_(notes),
          target_(*request.platform) {}

    Compiled run() {
        Compiled result;
        result.precision = choose_precision();
        const auto backend = values::make_fast_backend();
        passes::Options options{*backend};
        options.host_layout = request_.options.text("layout") != "NHWC";
        if (is_float(result.precision)) options.precision = result.precision;
        options.f32_outputs =
            target_.takes("gemm.acc", {result.precision, result.precision}, {ElemType::f32});
        const std::string& wanted = request_.options.text("print-after");
        if (!wanted.empty() && wanted != "all" && wanted != "quantize" && !passes::is_pass(wanted))
            refuse_pass(wanted);
        const auto after = [&](const passes::Pass& pass, const graph::Graph& graph) {
            if (wanted == "all" || wanted == pass.name) print(pass.name, graph);
        };
        passes::run_passes(graph_, options, passes::Stage::rewrite, after);
        const std::string& qdq = request_.options.text("export-qdq");
        if (result.precision == ElemType::i8 || quantize::is_quantized(graph_)) {
            quantize(result.precision);
            if (!qdq.empty()) write_file(qdq, quantize::export_qdq(graph_));
            if (wanted == "all" || wanted == "quantize") print("quantize", graph_);
        } else {
            if (!qdq.empty())
                throw UserError("--export-qdq: the network is not quantized. Fix: give --precision int8.");
            if (!request_.options.text("calibrate").empty())
                notes_.warning({origin_, 0, 0}, "--calibrate is for --precision int8; it is not used.");
            passes::run_passes(graph_, options, passes::Stage::types, after);
        }
        passes::run_passes(graph_, options, passes::Stage::schedule, after);
        result.lowered = lower::lower(std::move(graph_), target_);
        result.lowered.module.program.set_precision(precision_name(result.precision));
        if (platforms::is_shipped(target_.platform.name()))  // as a path: swkpu-v1 is no identifier of NEM
            result.lowered.module.program.mutable_device()->set_path(target_.platform.name());
        state_bounds(result, target_);
        explain(result);
        if (const std::string& path = request_.options.text("memory-map"); !path.empty())
            write_memory_map(result, target_, path);
        if (const std::string& path = request_.options.text("dot"); !path.empty())
            write_file(path, graph::to_dot(result.lowered.graph));
        return result;
    }

  private:
    static void print(std::string_view pass, const graph::Graph& graph) {
        std::fputs(fmt::format("# after {}\n{}\n", pass, graph::to_text(graph)).c_str(), stderr);
    }

    // ---- int8

    static double number(std::string_view text, std::string_view option) {
        double value = 0;
        const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (failed != std::errc() || end != text.data() + text.size())
            throw UserError(
                fmt::format("--{}: `{}` is no number. Fix: write one such as 0.5.", option, text));
        return value;
    }
    std::vector<double> numbers(std::string_view option) const {
        std::string_view text = request_.options.text(option);
        std::vector<double> result;
        while (!text.empty()) {
            const size_t comma = std::min(text.find(','), text.size());
            result.push_back(number(text.substr(0, comma), option));
            text.remove_prefix(std::min(text.size(), comma + 1));
        }
        if (result.size() > 3 || result.size() == 2)
            throw UserError(
                fmt::format("--{}: {} numbers. Fix: give one, or three: R,G,B.", option, result.size()));
        return result;
    }

    quantize::QuantizeOptions quantize_options() const {
        quantize::QuantizeOptions options;
        const bool halves = target_.takes("quantize", {ElemType::f16}, {ElemType::i8}) &&
                            target_.takes("softmax", {ElemType::f16}, {ElemType::f16});
        options.real = halves ? ElemType::f16 : ElemType::f32;
        options.supports = [this](std::string_view opcode, const std::vector<ElemType>& inputs,
                                  const std::vector<ElemType>& outputs) {
            return target_.takes(opcode, inputs, outputs);
        };
        options.ranges.percentile = number(request_.options.text("percentile"), "percentile");
        if (!(options.ranges.percentile > 50 && options.ranges.percentile <= 100))
            throw UserError("--percentile: not above 50 and at most 100. Fix: give such as 99.99.");
        options.boundary_on_device = request_.options.text("boundary") == "device";
        return options;
    }

    /// precision: of the network's floats, where it is quantized itself.
    void quantize(ElemType precision) {
        const std::string& from = request_.options.text("calibrate");
        if (quantize::is_quantized(graph_)) {  // its own scales count
            if (!from.empty())
                notes_.warning({origin_, 0, 0}, "the model is quantized already; --calibrate is not used.");
            quantize::QuantizeOptions options = quantize_options();
            if (is_float(precision)) options.real = precision;
            return take(quantize::absorb_qdq(graph_, options));
        }
        if (from.empty()) {
            throw UserError(fmt::format(
                "{}: int8 needs samples of the inputs, for the ranges of values. Fix: give --calibrate "
                "FOLDER "
                "(.npy, .png or .jpg files), or --calibrate random:1 where accuracy does not matter.",
                origin_));
        }
        quantize::SampleOptions sample_options;
        sample_options.mean = numbers("image-mean");
        sample_options.deviation = numbers("image-std");
        const auto samples = quantize::open_samples(graph_, from, sample_options);
        quantize::QuantizeResult result = quantize::quantize(graph_, *samples, quantize_options());
        const bool calibrated = result.calibrated;
        take(std::move(result));
        if (!calibrated) {
            notes_.warning(
                {origin_, 0, 0},
                "the samples are random numbers: accuracy is not calibrated. Fix: give --calibrate a folder "
                "of real inputs.");
        }
    }
    void take(quantize::QuantizeResult result) {
        graph_ = std::move(result.graph);
        for (const std::string& node : result.in_floats)
            notes_.info({origin_, 0, 0}, fmt::format("stays in floats: {}.", node));
        for (const std::string& name : result.widened)
            notes_.info(
                {origin_, 0, 0},
                fmt::format("`{}` has 4 bits, is stored with 8: `{}` has no such form of its operation.",
                            name, target_.platform.name()));
    }

    // ---- choices

    ElemType choose_precision() {
        const std::string& wanted = request_.options.text("precision");
        if (!wanted.empty()) {
            const ElemType type = type_of(wanted);
            if (!target_.has_rate(type, type)) {
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
                                target_.platform.name(), precision_name(widest)));
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
        std::fputs(mapping_text(result, target_, wanted == "all" ? std::string_view() : wanted).c_str(),
                   stderr);
    }

    graph::Graph graph_;
    const compiler::LoadRequest& request_;
    std::string origin_;
    Diagnostics& notes_;
    lower::Target target_;
};

}  // namespace

Compiled compile(graph::Graph graph, const compiler::LoadRequest& request, const std::string& origin,
                 Diagnostics& notes) {
    return Compilation(std::move(graph), request, origin, notes).run();
}

}  // namespace kpu::network
