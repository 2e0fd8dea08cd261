#include "compiler/pipeline/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text_output.hpp"
#include "compiler/precision/keep.hpp"
#include "compiler/precision/report.hpp"
#include "compiler/quantize/absorb_qdq.hpp"
#include "compiler/quantize/equalise.hpp"
#include "compiler/quantize/float8.hpp"
#include "compiler/quantize/plan.hpp"

namespace kpu::pipeline {
namespace {

/// Samples without the first ones.
class LaterSamples : public quantize::Samples {
  public:
    LaterSamples(const quantize::Samples& all, size_t first) : all_(all), first_(first) {}
    size_t count() const override { return all_.count() - first_; }
    std::vector<graph::Data> load(size_t index) const override { return all_.load(first_ + index); }
    bool calibrated() const override { return all_.calibrated(); }

  private:
    const quantize::Samples& all_;
    size_t first_;
};

}  // namespace

graph::Supports supports_of(const compiler::Target& target) {
    return [&target](std::string_view opcode, const std::vector<ElemType>& inputs,
                     const std::vector<ElemType>& outputs) {
        return target.has_unit_for(opcode) && target.takes(opcode, inputs, outputs);
    };
}

void Numbers::run(graph::Graph& graph, ElemType precision, const passes::Options& options,
                  const passes::AfterPass& after) {
    const bool quantized = quantize::is_quantized(graph);
    check_options(graph, quantized, precision);
    precision::keep(graph, options_.keep);
    const ElemType rest = is_float8(precision) ? float_beside(target_, origin_) : precision;
    precision::spread(graph, rest, supports_of(target_));
    if (!quantized && rest != ElemType::f32) passes::keep_norms_wide(graph, rest, supports_of(target_));
    passes::check_kept(graph, rest, supports_of(target_));
    if (const auto* format = quantize::find_block_format(options_.precision)) {
        if (quantized) {
            throw UserError(
                fmt::format("{}: the model is quantized already, which --precision {} does not take. Fix: "
                            "give the float model, or choose another --precision.",
                            origin_, format->name));
        }
        return make_blocks(graph, *format, options, after);
    }
    if (quantized) return absorb(graph, precision);
    if (is_float8(precision)) return make_float8(graph, precision, options, after);
    if (is_integer(precision)) return quantize(graph, precision);
    convert(graph, precision, options, after);
}

// ---- options

void Numbers::check_options(const graph::Graph& graph, bool quantized_already, ElemType precision) const {
    const bool has_float8 = std::any_of(graph.values.begin(), graph.values.end(),
                                        [](const graph::Value& value) { return is_small_float(value.elem); });
    if (is_integer(precision) && has_float8) {
        throw UserError(
            fmt::format("{}: the model has float8 tensors, which --precision {} does not take. Fix: choose a "
                        "--precision of floats.",
                        origin_, precision::precision_name(precision)));
    }
    const bool measures = options_.measures();
    const bool calibrates = is_integer(precision) || is_float8(precision);
    if (is_float8(precision) && quantized_already) {
        throw UserError(
            fmt::format("{}: the model is quantized already, which --precision {} does not take. Fix: give "
                        "the float model, or choose another --precision.",
                        origin_, precision::precision_name(precision)));
    }
    if (measures && quantized_already) {
        throw UserError(
            fmt::format("{}: the model is quantized already, so its error cannot be measured. Fix: give the "
                        "float model, or leave "
                        "--accuracy and --report-accuracy out.",
                        origin_));
    }
    if (measures && options_.calibrate.empty()) {
        throw UserError(
            fmt::format("{}: errors are measured on samples of the inputs. Fix: give --calibrate FOLDER "
                        "(.npy, .png or .jpg files).",
                        origin_));
    }
    if (!options_.calibrate.empty() && quantized_already)
        notes_.warning({origin_, 0, 0}, "the model is quantized already; --calibrate is not used.");
    if (!options_.calibrate.empty() && !quantized_already && !calibrates && !measures)
        notes_.warning(
            {origin_, 0, 0},
            "--calibrate is for --precision int8, int4 and fp8, --accuracy and --report-accuracy; it "
            "is not used.");
    if (!calibrates || quantized_already) {
        for (const std::string& option : options_.of_ranges)
            notes_.warning(
                {origin_, 0, 0},
                fmt::format("--{} is for what --precision int8, int4 and fp8 quantize; it is not used.",
                            option));
    }
    if (options_.calibrate.empty() && !quantized_already && calibrates) {
        throw UserError(fmt::format(
            "{}: {} needs samples of the inputs, for the ranges of values. Fix: give --calibrate FOLDER "
            "(.npy, .png or .jpg files), or --calibrate random:1 where accuracy does not matter.",
            origin_, precision::precision_name(precision)));
    }
}

std::unique_ptr<quantize::Samples> Numbers::open_samples(const graph::Graph& graph) const {
    quantize::SampleOptions options;
    options.mean = options_.image_mean;
    options.deviation = options_.image_deviation;
    return quantize::open_samples(graph, options_.calibrate, options);
}

void Numbers::warn_of_random(const quantize::Samples& samples) const {
    if (samples.calibrated()) return;
    notes_.warning(
        {origin_, 0, 0},
        "the samples are random numbers: accuracy is not calibrated. Fix: give --calibrate a folder of real "
        "inputs.");
}

int64_t Numbers::group_size() const {
    if (!quantize::takes_groups(supports_of(target_), "gemm.group")) {
        throw UserError(
            fmt::format("{}: `{}` has no products of int4 weights with scales of groups (gemm.group of i8, "
                        "i4, f16 to f32, and "
                        "quantize of f32 to i8). Fix: choose a device that has them, such as swkpu-v2, or "
                        "--precision int8.",
                        origin_, target_.platform.name()));
    }
    return options_.group_size;
}

quantize::QuantizeOptions Numbers::quantize_options(ElemType precision) const {
    quantize::QuantizeOptions options;
    const bool halves = target_.takes("quantize", {ElemType::f16}, {ElemType::i8}) &&
                        target_.takes("softmax", {ElemType::f16}, {ElemType::f16});
    options.real = is_float(precision) ? precision : halves ? ElemType::f16 : ElemType::f32;
    options.supports = supports_of(target_);
    options.ranges = options_.ranges;
    if (precision == ElemType::i4) options.group_size = group_size();
    options.boundary_on_device = options_.boundary_on_device;
    return options;
}

// ---- kinds of networks

void Numbers::absorb(graph::Graph& graph, ElemType precision) {  // its own scales count
    take(graph, quantize::absorb_qdq(graph, quantize_options(precision)));
}

void Numbers::quantize(graph::Graph& graph, ElemType precision) {
    graph::Graph exact = quantize::split_addends(std::move(graph));
    const auto samples = open_samples(exact);
    const quantize::QuantizeOptions options = quantize_options(precision);
    std::vector<quantize::Range> ranges = quantize::checked_ranges(exact, *samples, options.ranges);
    if (samples->calibrated()) equalise(exact, ranges, *samples, options);
    quantize::QuantizeOptions anywhere = options;  // a machine that has all
    anywhere.real = ElemType::f32;
    anywhere.supports = {};
    precision::Question question;
    question.exact = &exact;
    question.precision = precision;
    question.compiled = [&](const graph::Graph& marked) {
        return quantize::quantize(marked, ranges, options, samples.get()).graph;
    };
    question.alone = [&](const graph::Graph& marked) {
        return quantize::quantize(marked, ranges, anywhere).graph;
    };
    question.corrects_means = samples->calibrated();
    graph::Graph marked = exact;
    choose(marked, std::move(question), *samples);
    take(graph, quantize::quantize(marked, ranges, options, samples.get()));
    warn_of_random(*samples);
}

ElemType Numbers::float_beside(const compiler::Target& target, const std::string& origin) {
    for (const ElemType type : {ElemType::f16, ElemType::bf16, ElemType::f32}) {
        if (target.has_rate(type, type) && target.takes("softmax", {type}, {type})) return type;
    }
    throw UserError(fmt::format(
        "{}: `{}` has no f16, bf16 or f32 for what is not a product. Fix: choose a device that has, "
        "such as core128-fp8.",
        origin, target.platform.name()));
}

void Numbers::make_blocks(graph::Graph& graph, const quantize::BlockFormat& format,
                          const passes::Options& options, const passes::AfterPass& after) {
    passes::Options with_device = options;
    with_device.supports = supports_of(target_);
    with_device.f32_outputs = false;         // products get f32 sums below
    passes::Options anywhere = with_device;  // a machine that has all
    anywhere.supports = {};
    const auto in_blocks = [&](const graph::Graph& marked, const passes::Options& with) {
        graph::Graph made = marked;
        passes::run_passes(made, with, passes::Stage::types);
        made = quantize::split_addends(std::move(made));
        quantize::make_block_products(made, format, with.supports);
        return made;
    };
    if (options_.measures()) {
        const graph::Graph exact = graph;
        const auto samples = open_samples(exact);
        precision::Question question;
        question.exact = &exact;
        question.precision = format.element;
        question.compiled = [&](const graph::Graph& marked) { return in_blocks(marked, with_device); };
        question.alone = [&](const graph::Graph& marked) { return in_blocks(marked, anywhere); };
        choose(graph, std::move(question), *samples);
        warn_of_random(*samples);
    }
    passes::run_passes(graph, with_device, passes::Stage::types, after);
    graph = quantize::split_addends(std::move(graph));
    tell_of_floats(quantize::make_block_products(graph, format, with_device.supports));
}

void Numbers::make_float8(graph::Graph& graph, ElemType precision, const passes::Options& options,
                          const passes::AfterPass& after) {
    passes::Options anywhere = options;  // a machine that has all
    anywhere.precision = float_beside(target_, origin_);
    anywhere.f32_outputs = false;  // products get f32 sums below
    passes::Options with_device = anywhere;
    with_device.supports = supports_of(target_);
    const graph::Graph exact = graph;
    const auto samples = open_samples(exact);
    const auto in_floats = [](const graph::Graph& marked, const passes::Options& with,
                              const passes::AfterPass& then = {}) {
        graph::Graph made = marked;
        passes::run_passes(made, with, passes::Stage::types, then);
        return quantize::split_addends(std::move(made));
    };
    const graph::Graph plain = in_floats(exact, with_device);
    const quantize::NamedRanges ranges =
        quantize::by_name(plain, quantize::checked_ranges(plain, *samples, options_.ranges));
    const auto in_float8 = [&](const graph::Graph& marked, const passes::Options& with) {
        graph::Graph made = in_floats(marked, with);
        quantize::make_float8_products(made, ranges, precision, with.supports);
        return made;
    };
    precision::Question question;
    question.exact = &exact;
    question.precision = precision;
    question.compiled = [&](const graph::Graph& marked) { return in_float8(marked, with_device); };
    question.alone = [&](const graph::Graph& marked) { return in_float8(marked, anywhere); };
    choose(graph, std::move(question), *samples);
    graph = in_floats(graph, with_device, after);
    tell_of_floats(quantize::make_float8_products(graph, ranges, precision, with_device.supports));
    warn_of_random(*samples);
}

/// Takes the network with equalised channels if int8 then is nearer to the floats, on samples that the factors do not know,
/// if there are enough.
void Numbers::equalise(graph::Graph& exact, std::vector<quantize::Range>& ranges,
                       const quantize::Samples& samples, const quantize::QuantizeOptions& options) const {
    constexpr size_t most_samples = 8;
    constexpr double least_gain_db = 0.5;
    const auto is_float_port = [](const graph::Port& port) { return is_float(port.elem); };
    if (std::none_of(exact.outputs.begin(), exact.outputs.end(), is_float_port)) return;
    const LaterSamples others(samples, samples.count() < 2 * most_samples ? 0 : most_samples);
    auto equal = quantize::equalise_channels(exact, others, options.supports);
    if (!equal) return;
    auto equal_ranges = quantize::checked_ranges(*equal, samples, options.ranges);
    const precision::Yardstick yardstick(exact, samples, most_samples);
    const auto ratio = [&](const graph::Graph& graph, const std::vector<quantize::Range>& of) {
        return precision::decibel(
            yardstick.noise(quantize::quantize(graph, of, options).graph, most_samples, true));
    };
    const double before = ratio(exact, ranges), after = ratio(*equal, equal_ranges);
    if (!(after >= before + least_gain_db)) return;
    notes_.info({origin_, 0, 0},
                fmt::format("channels are equalised: signal to noise on samples {:.1f} dB, {:.1f} dB before.",
                            after, before));
    exact = std::move(*equal);
    ranges = std::move(equal_ranges);
}

/// Masks of -3e38 mean the least number there is, whatever the type. Weights do not.
void Numbers::warn_of_large_weights(const graph::Graph& graph, ElemType precision) const {
    const double most = passes::largest(precision);
    for (const graph::Node& node : graph.nodes) {
        if (!graph::is_product(node.spec()) || node.kept != ElemType::none) continue;
        const graph::Value& w = graph.value(node.inputs[1]);
        if (!w.constant() || w.elem != ElemType::f32) continue;
        const auto* numbers = reinterpret_cast<const float*>(w.data.bytes);
        const auto beyond = std::count_if(numbers, numbers + w.elements(),
                                          [&](float x) { return std::fabs(double(x)) > most; });
        if (beyond > 0)
            notes_.warning(
                {origin_, 0, 0},
                fmt::format("{} ({}): {} of the weights `{}` are beyond {:g}, the largest {}: they "
                            "become that. Fix: choose a --precision with a wider range, or scale the model.",
                            node.source.name, node.source.type, beyond, w.name, most,
                            precision::precision_name(precision)));
    }
}

void Numbers::convert(graph::Graph& graph, ElemType precision, const passes::Options& options,
                      const passes::AfterPass& after) {
    if (bit_width(precision) < 32) warn_of_large_weights(graph, precision);
    passes::Options with_device = options;
    with_device.supports = supports_of(target_);
    if (options_.measures()) {
        const graph::Graph exact = graph;
        const auto samples = open_samples(exact);
        precision::Question question;
        question.exact = &exact;
        question.precision = precision;
        question.compiled = [&](graph::Graph marked) {
            passes::run_passes(marked, with_device, passes::Stage::types);
            return marked;
        };
        question.alone = [&](graph::Graph marked) {
            passes::run_passes(marked, options, passes::Stage::types);
            return marked;
        };
        choose(graph, std::move(question), *samples);
        warn_of_random(*samples);
    }
    passes::run_passes(graph, with_device, passes::Stage::types, after);
}

// ---- mixes

void Numbers::choose(graph::Graph& graph, precision::Question question, const quantize::Samples& samples) {
    if (!options_.measures()) return;
    question.wide_share = options_.wide_share;
    measured_.emplace();
    for (const graph::Node& node : graph.nodes) measured_->names.push_back(node.source.name);
    precision::Mix& mix = measured_->mix;
    if (!options_.accuracy) {
        mix = precision::measure(question, target_, samples);
        return;
    }
    question.bound_db = options_.accuracy->decibel;
    mix = precision::find_mix(question, target_, samples);
    if (!mix.met && std::isfinite(question.bound_db)) {
        throw UserError(fmt::format(
            "{}: --accuracy {} is not reached: {:.1f} dB in one type, {:.1f} dB with {} % of the "
            "work in a wider one; `{}` "
            "adds most of what is left. Fix: ask for less, allow more with --wide-share, or give "
            "--accuracy best and "
            "--report-accuracy to see why.",
            origin_, options_.accuracy->text, precision::decibel(mix.narrow_noise),
            precision::decibel(mix.mixed_noise), 100 * options_.wide_share, precision::worst(mix).name));
    }
    precision::mark(graph, mix);
    tell(mix);
}

void Numbers::tell(const precision::Mix& mix) const {
    std::string names;
    for (size_t i = 0; i < mix.layers.size(); ++i) {
        if (mix.wide[i])
            names += fmt::format("{}{}={}", names.empty() ? "" : ",", mix.layers[i].name,
                                 precision::precision_name(mix.layers[i].wide));
    }
    notes_.info(
        {origin_, 0, 0},
        fmt::format("signal to noise of the outputs: {:.1f} dB{}.", precision::decibel(mix.mixed_noise),
                    names.empty()
                        ? std::string(" without wider operations")
                        : fmt::format(", {:.1f} dB before {}", precision::decibel(mix.narrow_noise), names)));
}

void Numbers::tell_of_floats(const std::vector<std::string>& in_floats) const {
    std::map<std::string, std::vector<std::string>> by_reason;
    for (const std::string& node : in_floats) {
        const size_t colon = node.rfind(": ");
        by_reason[node.substr(colon + 2)].push_back(node.substr(0, colon));
    }
    for (const auto& [reason, nodes] : by_reason) {
        constexpr size_t named = 6;
        const auto last = nodes.begin() + static_cast<std::ptrdiff_t>(std::min(named, nodes.size()));
        const std::string more =
            nodes.size() > named ? fmt::format(", and {} more", nodes.size() - named) : std::string();
        notes_.info({origin_, 0, 0}, fmt::format("stays in floats, because {}: {}{}.", reason,
                                                 fmt::join(nodes.begin(), last, ", "), more));
    }
}

void Numbers::take(graph::Graph& graph, quantize::QuantizeResult result) const {
    graph = std::move(result.graph);
    tell_of_floats(result.in_floats);
    for (const std::string& name : result.narrow_sums)
        notes_.warning({origin_, 0, 0},
                       fmt::format("`{}` makes f16 of sums of integers, which end at 65504: `{}` has no f32 "
                                   "form of it. Fix: choose another device, or quantize with given scales.",
                                   name, target_.platform.name()));
    for (const std::string& name : result.widened)
        notes_.info({origin_, 0, 0},
                    fmt::format("`{}` has 4 bits, is stored with 8: `{}` has no such form of its operation.",
                                name, target_.platform.name()));
}

void report_accuracy(const Measured& measured, const std::string& path, const compiler::Lowered& lowered,
                     ElemType precision) {
    const auto& [mix, names] = measured;
    std::map<std::string, size_t> layers;
    for (size_t i = 0; i < mix.layers.size(); ++i) {
        for (const graph::NodeId n : mix.layers[i].nodes) layers.emplace(names[n], i);
    }
    std::vector<precision::Cost> costs(mix.layers.size());
    for (const proto::Op& op : lowered.emitted.module.program.op()) {
        const auto layer = layers.find(op.id());
        if (layer == layers.end()) continue;
        precision::Cost& cost = costs[layer->second];
        cost.cycles += static_cast<double>(op.estimated_cycles());
        cost.energy_pj += op.estimated_energy_pj();
    }
    const bool csv = path.size() > 4 && path.compare(path.size() - 4, 4, ".csv") == 0;
    write_file(path, precision::report(mix, precision, costs, csv));
}

}  // namespace kpu::pipeline
