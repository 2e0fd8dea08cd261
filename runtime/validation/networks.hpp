#pragma once
// Kernels of named workloads: gemm_MxKxN, conv_BxHxWxCxKxRxSTRIDExPAD, layernorm_MxN, softmax_MxN, attention_HEADSxSEQxDIM,
// and the networks of the TPU v3 table.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/validation/measured.hpp"

namespace kpu::validation {

struct Workload {
    LayerClass layer_class = LayerClass::gemm;
    std::vector<Kernel> kernels;
    std::string unknown;  ///< part that the name leaves open, and what was taken
};
/// A layer of a network that a chip ran: one group of it for one picture, and how often that comes.
struct ChipLayer {
    Work work;
    int64_t times = 1;
};
/// Layers of `alexnet` (CONV1 to CONV5, four pictures) and `vgg16` (CONV1-1 to CONV5-3, three), as Eyeriss ran them.
std::optional<ChipLayer> chip_layer_of(std::string_view network, std::string_view layer);

/// Finds a workload; none for a name that is none of these, or whose sizes are out of range.
std::optional<Workload> workload_of(std::string_view name);

}  // namespace kpu::validation
