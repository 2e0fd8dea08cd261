// Throughput of the engines: 1024^3 products in one piece and as 128^3 tiles that accumulate.
#include <benchmark/benchmark.h>

#include "tests/values/helpers.hpp"

namespace kpu::values {
namespace {

using testing::op;
using testing::Operand;

void product(benchmark::State& state, ElemType type, ElemType result, int64_t size, bool accumulate) {
    std::vector<Operand> operands = {{type, {size, size}}, {type, {size, size}}, {result, {size, size}}};
    for (Operand& operand : operands) std::fill(operand.storage.begin(), operand.storage.end(), 0x3c013c02U);
    Operand y(result, {size, size});
    std::vector<Tensor> in = {operands[0].tensor(), operands[1].tensor()};
    if (accumulate) in.push_back(operands[2].tensor());
    const auto backend = make_fast_backend();
    const int64_t calls = 1024 / size * (1024 / size) * (1024 / size);
    for (auto _ : state) {
        for (int64_t i = 0; i < calls; ++i) {
            backend->execute(op(accumulate ? "gemm.acc" : "gemm"), in, {y.tensor()}, {});
        }
    }
    state.counters["GMAC/s"] = benchmark::Counter(1.073741824, benchmark::Counter::kIsIterationInvariantRate);
}

void conv(benchmark::State& state, ElemType type, int64_t groups) {
    const int64_t channels = 64;
    std::vector<Operand> operands = {{type, {1, 56, 56, channels}},
                                     {type, {3, 3, channels / groups, channels}}};
    for (Operand& operand : operands) std::fill(operand.storage.begin(), operand.storage.end(), 0x3c013c02U);
    Operand y(type, {1, 56, 56, channels});
    BoundAttrs attrs;
    attrs.list = {testing::ints_attr("pads", {1, 1, 1, 1}), testing::integer_attr("groups", groups)};
    const auto backend = make_fast_backend();
    for (auto _ : state) {
        backend->execute(op("conv2d"), {operands[0].tensor(), operands[1].tensor()}, {y.tensor()}, attrs);
    }
    state.counters["GMAC/s"] = benchmark::Counter(56 * 56 * 64 * 64 * 9e-9 / static_cast<double>(groups),
                                                  benchmark::Counter::kIsIterationInvariantRate);
}

void unary(benchmark::State& state, const char* opcode, ElemType type, int64_t axis = -1,
           bool reference = false) {
    const int64_t count = 1 << 20;
    Operand x(type, {1, 1024, 1, 1024});
    std::fill(x.storage.begin(), x.storage.end(), 0x3c013c02U);
    Operand y(type, {1, 1024, 1, 1024});
    BoundAttrs attrs;
    attrs.list = {testing::ints_attr("kernel_shape", {1, 1}), testing::ints_attr("perm", {0, 3, 2, 1}),
                  testing::integer_attr("axis", axis)};
    const auto backend = reference ? make_reference_backend() : make_fast_backend();
    for (auto _ : state) backend->execute(op(opcode), {x.tensor()}, {y.tensor()}, attrs);
    state.counters["Gelem/s"] =
        benchmark::Counter(static_cast<double>(count) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK_CAPTURE(product, i8_tiles, ElemType::i8, ElemType::i32, 128, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(product, i8_whole, ElemType::i8, ElemType::i8, 1024, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(product, f32_tiles, ElemType::f32, ElemType::f32, 128, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(product, f32_whole, ElemType::f32, ElemType::f32, 1024, false)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(product, f16_tiles, ElemType::f16, ElemType::f32, 128, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(conv, f16, ElemType::f16, 1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(conv, i8, ElemType::i8, 1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(conv, f16_depthwise, ElemType::f16, 64)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(conv, i8_depthwise, ElemType::i8, 64)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unary, relu_f16, "relu", ElemType::f16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unary, relu_i8, "relu", ElemType::i8)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unary, maxpool_f16, "maxpool", ElemType::f16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unary, avgpool_f16, "avgpool", ElemType::f16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unary, rmsnorm_f16, "rmsnorm", ElemType::f16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unary, layernorm_f16, "layernorm", ElemType::f16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unary, softmax_f16, "softmax", ElemType::f16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unary, softmax_f16_axis1, "softmax", ElemType::f16, 1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unary, softmax_f16_reference, "softmax", ElemType::f16, -1, true)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unary, exp_f32, "exp", ElemType::f32)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unary, tanh_f16, "tanh", ElemType::f16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unary, gelu_f16, "gelu", ElemType::f16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unary, gelu_f16_reference, "gelu", ElemType::f16, -1, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unary, transpose_f16, "transpose", ElemType::f16)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kpu::values
