#pragma once

#include <fmt/format.h>

#include <string>

namespace kpu::bench {

/// NEM text of a network of `layers` dense int8 layers with a skip connection each, for npm_lite: constants,
/// buffers, quantised regions, a pipelined loop, inline regions, every decorator, comments. Correct: it
/// verifies without a finding, its schedule included. 11 tasks and about 3 KB a layer.
inline std::string network_text(int layers) {
    std::string text = R"(# A generated network: dense layers of 64 features over 8 blocks of 32 rows.
device "npm_lite.nem"
program network:

const width = 64
const rows = 32
const blocks = 8
const block_bytes = rows * width
const matrix_bytes = width * width

buffer features : DDR (size = blocks * block_bytes, align = 64)
buffer history : DDR (size = 4096, align = 64)
buffer w_l2 : L2 (size = matrix_bytes, align = 64)
buffer b_l2 : L2 (size = width * 4, align = 64)
buffer x_l2 : L2 (size = 2 * block_bytes, align = 64)
buffer y_l2 : L2 (size = 2 * block_bytes, align = 64)
buffer w_l1 : L1[0] (size = matrix_bytes, align = 64)
buffer x_l1 : L1[0] (size = 2 * block_bytes, align = 64)
buffer h_l1 : L1[0] (size = 2 * block_bytes, align = 64)
buffer y_l1 : L1[0] (size = 2 * block_bytes, align = 64)
)";
    constexpr const char* layer = R"(
# ---- layer {n}: the weights come first, then the blocks, two of them in flight
const last_{n} = blocks - 1                # blocks of this layer
buffer weights_{n} : DDR (size = matrix_bytes, align = 64) @debug(layer_{n})
buffer bias_{n} : DDR (size = width * 4, align = 64)

let w_ddr_{n} = region(weights_{n}, 0, matrix_bytes) elem=i8, shape=[width, width], layout=KN @readonly
let w_mid_{n} = region(w_l2, 0, matrix_bytes) elem=i8, shape=[width, width], layout=KN
let w_{n} = region(w_l1, 0, matrix_bytes) elem=i8, shape=[width, width], layout=KN,
    quant=per_tensor(scale=0.015625, zero_point=0)
let b_{n} = region(b_l2, 0, width * 4) elem=i32, shape=[width], layout=N

load_w_{n} = transfer.async(dst=w_mid_{n}, src=w_ddr_{n}) @seq_engine(0) @profile(layer_{n})
feed_w_{n} = transfer.async(dst=w_{n}, src=w_mid_{n}, deps=[load_w_{n}]) @resource(DMA[1])
load_b_{n} = transfer.async(dst=b_{n}, src=region(bias_{n}, 0, width * 4) elem=i32, shape=[width], layout=N)
shift_{n} = transfer.async(dst=region(history, 64, 960), src=region(history, 0, 960)) @memmove

loop i in [0..last_{n}] @max_in_flight(2):
    let slot = i mod 2
    let x_ddr = region(features, i * block_bytes, block_bytes) elem=i8, shape=[rows, width], strides=[width, 1]
    let x_mid = region(x_l2, slot * block_bytes, block_bytes) elem=i8, shape=[rows, width], layout=MK
    let x = region(x_l1, slot * block_bytes, block_bytes) elem=i8, shape=[rows, width], layout=MK,
        quant=per_tensor(scale=0.0625, zero_point=0)
    let h = region(h_l1, slot * block_bytes, block_bytes) elem=i8, shape=[rows, width], layout=MN,
        quant=per_tensor(scale=0.0625, zero_point=0)
    let y = region(y_l1, slot * block_bytes, block_bytes) elem=i8, shape=[rows, width], layout=MN,
        quant=per_tensor(scale=0.125, zero_point=-3)
    let y_mid = region(y_l2, slot * block_bytes, block_bytes) elem=i8, shape=[rows, width], layout=MN
    let y_ddr = region(features, i * block_bytes, block_bytes) elem=i8, shape=[rows, width], layout=MN @writeonly

    load_x = transfer.async(dst=x_mid, src=x_ddr)
    feed_x = transfer.async(dst=x, src=x_mid, deps=[load_x]) @resource(DMA[0])
    dense = gemm.async in x, w_{n}, b_{n} out h @materialized
        accum_type=i32 deps=[feed_x, feed_w_{n}, load_b_{n}] @resource(NMU[0]) @deterministic
    active = relu.async in h out h deps=[dense] @profile("relu")
    skip = add.async in h, x out y deps=[active]
    save = store.async(dst=y_mid, src=y, deps=[skip])
    save_ddr = transfer.async(dst=y_ddr, src=y_mid, deps=[save])
endloop
wait(save_ddr, shift_{n})
)";
    for (int n = 0; n < layers; ++n) text += fmt::format(fmt::runtime(layer), fmt::arg("n", n));
    return text;
}

}  // namespace kpu::bench
