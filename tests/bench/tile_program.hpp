#pragma once

#include "isa/builder.hpp"

namespace kpu::bench {

/// ResNet-50 at the granularity of the tiles of a 32x32 array, as traffic: 32,154 products of 32 x 68 by 68 x
/// 32, each of which loads its operands from DDR to L1 and stores its result: 5,376 bytes a tile, 172.9 MB
/// and 2.70 million bursts of 64 bytes in all. Four tiles in flight.
inline Module resnet50_tiles() {
    using namespace kpu::builder;
    constexpr int64_t tiles = 32154, side = 32, depth = 68, slots = 4;
    constexpr int64_t operand = side * depth, result = side * side;
    Program p("resnet50_tiles");
    const Buffer a = p.buffer("A", Level::ddr, tiles * operand, 64),
                 b = p.buffer("B", Level::ddr, tiles * operand, 64),
                 y = p.buffer("Y", Level::ddr, tiles * result, 64);
    const Buffer a_in = p.buffer("A_L1", Level::l1, slots * operand, 64),
                 b_in = p.buffer("B_L1", Level::l1, slots * operand, 64),
                 out = p.buffer("Y_L1", Level::l1, slots * result, 64);
    const auto scaled = [](int64_t rows, int64_t columns) {
        return tensor(ElemType::i8, {rows, columns}).quant(per_tensor(1.0 / 64));
    };
    const auto left = scaled(side, depth), right = scaled(depth, side), product = scaled(side, side);
    p.loop("t", 0, tiles - 1, slots, [&](Expr t) {
        const Expr slot = t % slots;
        const Region a_l1 = p.region("", a_in, slot * operand, left);
        const Region b_l1 = p.region("", b_in, slot * operand, right);
        const Region y_l1 = p.region("", out, slot * result, product);
        const Task load_a = p.transfer("", a_l1, p.region("", a, t * operand, left));
        const Task load_b = p.transfer("", b_l1, p.region("", b, t * operand, right));
        const Task gemm =
            p.compute("gemm", {a_l1, b_l1}, {y_l1}).attr("accum_type", ElemType::i32).after({load_a, load_b});
        p.transfer("", p.region("", y, t * result, product), y_l1).after({gemm});
    });
    return p.build();
}

}  // namespace kpu::bench
