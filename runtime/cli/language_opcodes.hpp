#pragma once

#include <string_view>

namespace kpu::cli {

/// The opcodes of the language's registry. Every other one of the table is an extension of ours.
inline constexpr std::string_view language_opcodes[] = {
    "transfer",  "store",   "gemm",    "matmul",     "conv2d",    "conv1d",     "conv3d",  "depthwise_conv2d",
    "relu",      "sigmoid", "tanh",    "exp",        "log",       "sqrt",       "abs",     "neg",
    "gelu",      "silu",    "add",     "sub",        "mul",       "div",        "min",     "max",
    "pow",       "clamp",   "maxpool", "leaky_relu", "avgpool",   "transpose",  "reshape", "slice",
    "concat",    "split",   "pad",     "gather",     "layernorm", "reduce_sum", "rmsnorm", "reduce_max",
    "softmax",   "cast",    "argmax",  "reduce_min", "argmin",    "quantize",   "compute", "log_softmax",
    "dequantize"};

constexpr bool in_language(std::string_view opcode) {
    for (const std::string_view known : language_opcodes) {
        if (known == opcode) return true;
    }
    return false;
}

}  // namespace kpu::cli
