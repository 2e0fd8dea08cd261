#include "compiler/pipeline/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/diagnostics.hpp"
#include "isa/bound_program.hpp"

namespace kpu::pipeline {

std::vector<OptionRow> option_rows() {
    return {
        {"precision",
         "type of the products: f32, fp16, bf16, int8, int4 (weights of 4 bits, activations of 8), fp8 "
         "(f8e4m3 "
         "with scales), fp8_e5m2, mxfp8, mxfp8_e5m2, mxfp6 (e2m3), mxfp6_e3m2, mxfp4, mxint8, nvfp4 (blocks "
         "with scales; weights of 4 bits, activations of 8), posit8 "
         "(of es 0; posit8_es1, posit8_es2), posit16 (of es 1; posit16_es0, posit16_es2); "
         "without it the widest float type of the device",
         ValueKind::choice,
         "",
         {"f32",    "fp16",       "bf16",       "int8",       "int4",        "fp8",        "fp8_e5m2",
          "mxfp8",  "mxfp8_e5m2", "mxfp6",      "mxfp6_e3m2", "mxfp4",       "mxint8",     "nvfp4",
          "posit8", "posit8_es1", "posit8_es2", "posit16",    "posit16_es0", "posit16_es2"}},
        {"group-size",
         "of int4: input channels of a weight that have one scale, for each output channel; the last group "
         "of a "
         "sum may be shorter",
         ValueKind::text, "32"},
        {"calibrate",
         "samples of the inputs, for int8, int4 and fp8: a folder of .npy, .png, .jpg files (of several "
         "inputs: a "
         "folder "
         "for each), or random:SEED",
         ValueKind::text},
        {"calibration-method",
         "numbers that the int8 steps or float8 must reach: minmax (all), percentile (their middle), mse "
         "(least error "
         "of the "
         "steps), entropy (least loss of information); without it minmax",
         ValueKind::choice,
         "",
         {"minmax", "percentile", "mse", "entropy"}},
        {"percentile",
         "share of the numbers, in percent, that --calibration-method percentile keeps; without it 99.99",
         ValueKind::text},
        {"keep",
         "operations in a type of their own: NAME=TYPE,..., with * and ? in names; types f32, fp16, bf16, "
         "posit8, posit16, and those of another es",
         ValueKind::text},
        {"accuracy",
         "least signal to noise of the outputs, in dB, on the samples: the compiler widens the operations "
         "that add "
         "most error for their cycles; `best`: the least error that --wide-share allows",
         ValueKind::text},
        {"wide-share", "of the multiply-accumulates, in percent, that --accuracy may make wider",
         ValueKind::text, "10"},
        {"report-accuracy",
         "writes the error that each layer adds, its share of cycles and energy: columns if the name ends in "
         ".csv, else "
         "a page",
         ValueKind::text},
        {"image-mean", "of sample pictures, subtracted from 0..1: one number, or R,G,B", ValueKind::text},
        {"image-std", "of sample pictures, what is left is divided by it: one number, or R,G,B",
         ValueKind::text},
        {"boundary",
         "where inputs are quantized and outputs dequantized: by the host, outside the cycles, or by the "
         "device",
         ValueKind::choice,
         "host",
         {"host", "device"}},
        {"dim",
         "NAME=N or INPUT.AXIS=N: size of a dynamic dimension of the model, by its name or its place; "
         "without "
         "it 1",
         ValueKind::sizes},
        {"bind",
         "INPUT=VALUE: makes an input a constant, so that it may decide structure (a branch, sizes, how "
         "often "
         "something "
         "runs); a number, true, false, a list such as [1,2], or FILE.npy",
         ValueKind::pairs},
        {"positions",
         "N or N:STEP: compiles one program for caches that have 0 to N - 1 rows before it runs (run it with "
         "--param "
         "position=P); attention reads rows in multiples of STEP; --bind INPUT=position+K or "
         "INPUT=upto(position+K) says "
         "which inputs follow",
         ValueKind::text},
        {"batch",
         "inferences in one run: size of the dynamic first dimension of the inputs; the report says how many "
         "the device does in a second",
         ValueKind::integer},
        {"inferences",
         "inferences one after the other in one run, each with inputs and outputs of its own along a new "
         "first dimension; "
         "weights stay in L2 where they fit",
         ValueKind::integer},
        {"layout",
         "order of dimensions of pictures on the host: as the model has it, or NHWC",
         ValueKind::choice,
         "model",
         {"model", "NHWC"}},
        {"effort",
         "how mappings are found: 1 by closed forms of each operation, 2 the best few compared by schedules "
         "of the program's tasks, of few operations by simulations as well, 3 any program by simulations",
         ValueKind::choice,
         "2",
         {"1", "2", "3"}},
        {"print-after", "prints the graph after this pass, or after each (all)", ValueKind::text},
        {"print-graph",
         "writes what --print-after prints to this file, constants beside it in FILE.bin: a network that "
         "compiles on "
         "from there",
         ValueKind::text},
        {"dot", "writes the graph, as it is lowered, as a picture in Graphviz's language", ValueKind::text},
        {"export-qdq", "writes the quantized graph as an ONNX model (QDQ), for other runtimes",
         ValueKind::text},
        {"memory-map",
         "writes where each tensor lives and when: a picture if the name ends in .html, else a table",
         ValueKind::text},
        {"explain-mapping",
         "prints tiles, predicted cycles and bound of this operation, and of the mappings that lost, or of "
         "each "
         "operation (all)",
         ValueKind::text},
        {"mapping",
         "fixes tiles, engines, iterations in flight, L2 or DDR, fusion of operations: a JSON file",
         ValueKind::text},
        {"write-mapping", "writes the mapping of each operation, in the form that --mapping reads",
         ValueKind::text},
    };
}

namespace {

double number(std::string_view text, std::string_view option) {
    double value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
        throw UserError(fmt::format("--{}: `{}` is not a number. Fix: write one such as 0.5.", option, text));
    return value;
}

std::vector<double> numbers(std::string_view text, std::string_view option) {
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

int64_t group_size(const std::string& text) {
    const double size = number(text, "group-size");
    if (!(size >= 1 && size <= 65536 && size == std::floor(size)))
        throw UserError(
            fmt::format("--group-size: {} must be 32, 64 or 128. Fix: give 32, 64 or 128.", size));
    return static_cast<int64_t>(size);
}

double wide_share(const std::string& percent) {
    const double share = number(percent, "wide-share") / 100;
    if (!(share >= 0 && share <= 1))
        throw UserError(
            fmt::format("--wide-share: {} must be 0 to 100 percent. Fix: give 0 to 100.", percent));
    return share;
}

quantize::RangeOptions ranges(const std::string& method, const std::string& percentile) {
    using Method = quantize::RangeMethod;
    quantize::RangeOptions options;
    options.method = method == "mse"                                 ? Method::mse
                     : method == "entropy"                           ? Method::entropy
                     : method == "percentile" || !percentile.empty() ? Method::percentile
                                                                     : Method::minmax;
    if (percentile.empty()) return options;
    if (!method.empty() && method != "percentile")
        throw UserError(fmt::format(
            "--percentile is not for --calibration-method {}. Fix: leave one of them out.", method));
    options.percentile = number(percentile, "percentile");
    if (!(options.percentile > 50 && options.percentile <= 100))
        throw UserError("--percentile: not above 50 and at most 100. Fix: give such as 99.99.");
    return options;
}

uint64_t inferences(int64_t count) {
    if (count < 1 || count > static_cast<int64_t>(max_inferences))
        throw UserError(
            fmt::format("--inferences {}: a program makes 1 to {} inferences. Fix: use one of these.", count,
                        max_inferences));
    return static_cast<uint64_t>(count);
}

}  // namespace

const char* CompileOptions::needs_values() const {
    return accuracy                   ? "accuracy"
           : !report_accuracy.empty() ? "report-accuracy"
           : !export_qdq.empty()      ? "export-qdq"
                                      : nullptr;
}

CompileOptions compile_options(const OptionValues& given) {
    CompileOptions options;
    options.precision = given.text("precision");
    options.group_size = group_size(given.text("group-size"));
    options.keep = given.text("keep");
    if (const std::string& text = given.text("accuracy"); !text.empty())
        options.accuracy = {text, text == "best" ? HUGE_VAL : number(text, "accuracy")};
    options.wide_share = wide_share(given.text("wide-share"));
    options.report_accuracy = given.text("report-accuracy");
    options.calibrate = given.text("calibrate");
    options.ranges = ranges(given.text("calibration-method"), given.text("percentile"));
    for (const char* const name : {"calibration-method", "percentile"})
        if (!given.text(name).empty()) options.of_ranges.emplace_back(name);
    options.image_mean = numbers(given.text("image-mean"), "image-mean");
    options.image_deviation = numbers(given.text("image-std"), "image-std");
    options.boundary_on_device = given.text("boundary") == "device";
    options.host_layout = given.text("layout") != "NHWC";
    if (given.given("inferences")) options.inferences = inferences(given.integer("inferences"));
    options.effort = given.text("effort")[0] - '0';
    options.explain_mapping = given.text("explain-mapping");
    options.mapping = given.text("mapping");
    options.write_mapping = given.text("write-mapping");
    options.print_after = given.text("print-after");
    options.print_graph = given.text("print-graph");
    options.dot = given.text("dot");
    options.export_qdq = given.text("export-qdq");
    options.memory_map = given.text("memory-map");
    return options;
}

}  // namespace kpu::pipeline
