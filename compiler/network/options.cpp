#include "compiler/network/compile.hpp"

namespace kpu::network {

std::vector<OptionRow> option_rows() {
    return {
        {"precision",
         "type of the products: f32, fp16, bf16, int8; without it the widest float type of the device",
         ValueKind::choice,
         "",
         {"f32", "fp16", "bf16", "int8"}},
        {"calibrate",
         "samples of the inputs, for int8: a folder of .npy, .png, .jpg files (of several inputs: a folder "
         "for each), or random:SEED",
         ValueKind::text},
        {"percentile", "share of the numbers, in percent, that the int8 steps must reach; 100: all",
         ValueKind::text, "100"},
        {"image-mean", "of sample pictures, subtracted from 0..1: one number, or R,G,B", ValueKind::text},
        {"image-std", "of sample pictures, what is left is divided by it: one number, or R,G,B",
         ValueKind::text},
        {"boundary",
         "where inputs are quantized and outputs dequantized: by the host, outside the cycles, or by the "
         "device",
         ValueKind::choice,
         "host",
         {"host", "device"}},
        {"dim", "NAME=N: size of a dynamic dimension of the model; without it 1", ValueKind::sizes},
        {"layout",
         "order of dimensions of pictures on the host: as the model has it, or NHWC",
         ValueKind::choice,
         "model",
         {"model", "NHWC"}},
        {"print-after", "prints the graph after this pass, or after each (all)", ValueKind::text},
        {"dot", "writes the graph, as it is lowered, as a picture in Graphviz's language", ValueKind::text},
        {"export-qdq", "writes the quantized graph as an ONNX model (QDQ), for other runtimes",
         ValueKind::text},
        {"memory-map",
         "writes where each tensor lives and when: a picture if the name ends in .html, else a table",
         ValueKind::text},
        {"explain-mapping", "prints tiles, predicted cycles and bound of this operation, or of each (all)",
         ValueKind::text},
    };
}

}  // namespace kpu::network
