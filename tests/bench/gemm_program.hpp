#pragma once

#include <cstdint>
#include <vector>

#include "isa/builder.hpp"

namespace kpu::bench {

/// int8 GEMM of `size`^3 in tiles of `tile`: DDR -> L2 -> L1, i32 accumulation over K in L1 (gemm.acc),
/// requantised to i8, two output tiles in flight. Nothing is kept in L2: every tile of A and B comes from DDR
/// again for every output tile. `size` and `tile` powers of two.
inline Module tiled_gemm_reloading(int64_t size, int64_t tile) {
    using namespace kpu::builder;
    Program p("tiled_gemm_reloading");
    const int64_t tiles = size / tile, bytes = tile * tile;
    const Buffer a = p.buffer("A", Level::ddr, size * size, 64),
                 b = p.buffer("B", Level::ddr, size * size, 64);
    const Buffer y = p.buffer("Y", Level::ddr, size * size, 64);
    const Buffer a_mid = p.buffer("A_L2", Level::l2, 4 * bytes, 64),
                 b_mid = p.buffer("B_L2", Level::l2, 4 * bytes, 64);
    const Buffer y_mid = p.buffer("Y_L2", Level::l2, 2 * bytes, 64);
    const Buffer a_in = p.buffer("A_L1", Level::l1, 2 * bytes, 64),
                 b_in = p.buffer("B_L1", Level::l1, 2 * bytes, 64);
    const Buffer acc = p.buffer("ACC_L1", Level::l1, 2 * bytes * 4, 64),
                 out = p.buffer("Y_L1", Level::l1, 2 * bytes, 64);
    const auto i8 = tensor(ElemType::i8, {tile, tile});
    const auto window = i8.strides({size, 1});

    p.loop("t", 0, tiles * tiles - 1, 2, [&](Expr t) {
        const Expr row = t / tiles, col = t % tiles, slot = t % 2;
        const Region sum = p.region("sum", acc, slot * (bytes * 4),
                                    tensor(ElemType::i32, {tile, tile}).quant(per_tensor(1.0 / 4096)));
        std::vector<Task> feeds_a, feeds_b, gemms;
        for (int64_t k = 0; k < tiles; ++k) {
            // L2 holds two K tiles per output tile, L1 one: a load waits for the feed that last read its L2
            // slot, a feed for the gemm that last read its L1 slot. The two output tiles in flight keep the
            // array busy.
            const Region a_l2 = p.region("", a_mid, (slot * 2 + k % 2) * bytes, i8);
            const Region b_l2 = p.region("", b_mid, (slot * 2 + k % 2) * bytes, i8);
            const Region a_l1 = p.region("", a_in, slot * bytes, i8),
                         b_l1 = p.region("", b_in, slot * bytes, i8);
            Task load_a = p.transfer("", a_l2, p.region("", a, row * (tile * size) + k * tile, window));
            Task load_b = p.transfer("", b_l2, p.region("", b, col * tile + k * (tile * size), window));
            const auto last = static_cast<size_t>(k);
            if (k >= 2) {
                load_a.after({feeds_a[last - 2]});
                load_b.after({feeds_b[last - 2]});
            }
            Task feed_a = p.transfer("", a_l1, a_l2).after({load_a});
            Task feed_b = p.transfer("", b_l1, b_l2).after({load_b});
            if (k >= 1) {
                feed_a.after({gemms[last - 1]});
                feed_b.after({gemms[last - 1]});
            }
            Task gemm = k == 0 ? p.compute("gemm.acc", {a_l1, b_l1}, {sum})
                               : p.compute("gemm.acc", {a_l1, b_l1, sum}, {sum});
            gemm.attr("accum_type", ElemType::i32).after({feed_a, feed_b});
            feeds_a.push_back(feed_a);
            feeds_b.push_back(feed_b);
            gemms.push_back(gemm);
        }
        const Region result = p.region("result", out, slot * bytes, i8.quant(per_tensor(1.0)));
        const Region result_l2 = p.region("result_l2", y_mid, slot * bytes, i8);
        Task narrow = p.compute("requant", {sum}, {result}).after({gemms.back()});
        Task save = p.store("", result_l2, result).after({narrow});
        p.transfer("", p.region("", y, row * (tile * size) + col * tile, window), result_l2).after({save});
    });
    return p.build();
}

/// Returns the same GEMM as it would be scheduled where L2 has room for B and two rows of tiles of A: B is
/// loaded once, the next row of A while the present one is used, so DDR is read once.
inline Module tiled_gemm(int64_t size, int64_t tile) {
    using namespace kpu::builder;
    Program p("tiled_gemm");
    const int64_t tiles = size / tile, bytes = tile * tile;
    const Buffer a = p.buffer("A", Level::ddr, size * size, 64),
                 b = p.buffer("B", Level::ddr, size * size, 64),
                 y = p.buffer("Y", Level::ddr, size * size, 64);
    const Buffer a_mid = p.buffer("A_L2", Level::l2, 2 * tiles * bytes, 64),
                 b_mid = p.buffer("B_L2", Level::l2, tiles * tiles * bytes, 64),
                 y_mid = p.buffer("Y_L2", Level::l2, 2 * bytes, 64);
    const Buffer a_in = p.buffer("A_L1", Level::l1, 2 * bytes, 64),
                 b_in = p.buffer("B_L1", Level::l1, 2 * bytes, 64);
    const Buffer acc = p.buffer("ACC_L1", Level::l1, 2 * bytes * 4, 64),
                 out = p.buffer("Y_L1", Level::l1, 2 * bytes, 64);
    const auto i8 = tensor(ElemType::i8, {tile, tile});
    const auto window = i8.strides({size, 1});  // a tile inside a matrix in DDR
    const auto load_row = [&](const Expr& row) {
        p.loop("k", 0, tiles - 1, 2, [&](Expr k) {
            const Region tile_of_a = p.region("", a_mid, (row % 2 * tiles + k) * bytes, i8);
            p.transfer("", tile_of_a, p.region("", a, row * (tile * size) + k * tile, window));
        });
    };

    load_row(0);
    p.loop("t", 0, tiles * tiles - 1, 2, [&](Expr t) {  // tile (k, col) of B at k * tiles + col
        p.transfer("", p.region("", b_mid, t * bytes, i8),
                   p.region("", b, t / tiles * (tile * size) + t % tiles * tile, window));
    });
    p.loop("row", 0, tiles - 1, 1, [&](Expr row) {
        load_row((row + 1) % tiles);  // after the last row the first one again, for nobody
        p.loop("col", 0, tiles - 1, 2, [&](Expr col) {
            const Expr slot = col % 2;
            const Region sum = p.region("sum", acc, slot * (bytes * 4),
                                        tensor(ElemType::i32, {tile, tile}).quant(per_tensor(1.0 / 4096)));
            const Region a_l1 = p.region("", a_in, slot * bytes, i8),
                         b_l1 = p.region("", b_in, slot * bytes, i8);
            std::vector<Task> last;
            for (int64_t k = 0; k < tiles; ++k) {
                const Region a_l2 = p.region("", a_mid, (row % 2 * tiles + k) * bytes, i8);
                const Region b_l2 = p.region("", b_mid, (col + k * tiles) * bytes, i8);
                const Task feed_a = p.transfer("", a_l1, a_l2).after(last);
                const Task feed_b = p.transfer("", b_l1, b_l2).after(last);
                Task gemm = last.empty() ? p.compute("gemm.acc", {a_l1, b_l1}, {sum})
                                         : p.compute("gemm.acc", {a_l1, b_l1, sum}, {sum});
                gemm.attr("accum_type", ElemType::i32).after({feed_a, feed_b});
                last = {gemm};
            }
            const Region result = p.region("result", out, slot * bytes, i8.quant(per_tensor(1.0)));
            const Region result_l2 = p.region("result_l2", y_mid, slot * bytes, i8);
            const Task narrow = p.compute("requant", {sum}, {result}).after(last);
            const Task save = p.store("", result_l2, result).after({narrow});
            p.transfer("", p.region("", y, row * (tile * size) + col * tile, window), result_l2)
                .after({save});
        });
    });
    return p.build();
}

}  // namespace kpu::bench
