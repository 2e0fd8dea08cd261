#include "compiler/pipeline/compile.hpp"

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

}  // namespace kpu::pipeline
