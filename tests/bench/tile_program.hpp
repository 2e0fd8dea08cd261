#pragma once

#include <array>
#include <string>
#include <vector>

#include "isa/builder.hpp"

namespace kpu::bench {

constexpr int64_t resnet50_tile_count = 32154, tiles_in_flight = 4;

/// ResNet-50 at the granularity of the tiles of a 32x32 array, as traffic: 32,154 products of 32 x 68 by 68 x
/// 32, each of which loads its operands from DDR to L1 and stores its result: 5,376 bytes a tile, 172.9 MB
/// and 2.70 million bursts of 64 bytes in all. Four tiles in flight. Several engines take an equal part each.
inline Module resnet50_tiles(int64_t engines = 1) {
    using namespace kpu::builder;
    constexpr int64_t all_tiles = resnet50_tile_count, slots = tiles_in_flight, side = 32, depth = 68;
    const int64_t tiles = all_tiles / engines;
    constexpr int64_t operand = side * depth, result = side * side;
    Program p("resnet50_tiles");
    const Buffer a = p.buffer("A", Level::ddr, all_tiles * operand, 64),
                 b = p.buffer("B", Level::ddr, all_tiles * operand, 64),
                 y = p.buffer("Y", Level::ddr, all_tiles * result, 64);
    const auto scaled = [](int64_t rows, int64_t columns) {
        return tensor(ElemType::i8, {rows, columns}).quant(per_tensor(1.0 / 64));
    };
    const auto left = scaled(side, depth), right = scaled(depth, side), product = scaled(side, side);
    std::vector<std::array<Buffer, 3>> in_l1;
    for (int64_t engine = 0; engine < engines; ++engine) {
        const auto buffer = [&](const char* name, int64_t bytes) {
            return p.l1_buffer(name + std::to_string(engine), engine, slots * bytes, 64);
        };
        in_l1.push_back({buffer("A_L1_", operand), buffer("B_L1_", operand), buffer("Y_L1_", result)});
    }
    p.loop("t", 0, tiles - 1, slots, [&](Expr t) {
        for (int64_t engine = 0; engine < engines; ++engine) {
            const auto& [a_in, b_in, out] = in_l1[static_cast<size_t>(engine)];
            const Expr slot = t % slots, tile = t * engines + engine;
            const Region a_l1 = p.region("", a_in, slot * operand, left);
            const Region b_l1 = p.region("", b_in, slot * operand, right);
            const Region y_l1 = p.region("", out, slot * result, product);
            const Task load_a = p.transfer("", a_l1, p.region("", a, tile * operand, left));
            const Task load_b = p.transfer("", b_l1, p.region("", b, tile * operand, right));
            const Task gemm = p.compute("gemm", {a_l1, b_l1}, {y_l1})
                                  .attr("accum_type", ElemType::i32)
                                  .after({load_a, load_b});
            p.transfer("", p.region("", y, tile * result, product), y_l1).after({gemm});
        }
    });
    return p.build();
}

}  // namespace kpu::bench
