#include "compiler/network/compile.hpp"

namespace kpu::network {

std::vector<OptionRow> option_rows() {
    return {
        {"precision",
         "type of the products: f32, fp16, bf16, int8; without it the widest float type of the device",
         ValueKind::choice,
         "",
         {"f32", "fp16", "bf16", "int8"}},
        {"dim", "NAME=N: size of a dynamic dimension of the model; without it 1", ValueKind::sizes},
        {"layout",
         "order of dimensions of pictures on the host: as the model has it, or NHWC",
         ValueKind::choice,
         "model",
         {"model", "NHWC"}},
        {"print-after", "prints the graph after this pass, or after each (all)", ValueKind::text},
        {"dot", "writes the graph, as it is lowered, as a picture in Graphviz's language", ValueKind::text},
        {"explain-mapping", "prints tiles, predicted cycles and bound of this operation, or of each (all)",
         ValueKind::text},
    };
}

}  // namespace kpu::network
