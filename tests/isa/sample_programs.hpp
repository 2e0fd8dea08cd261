#pragma once

#include "isa/builder.hpp"

namespace kpu::test {

/// i8 rows of 64 bytes stream DDR -> L1 -> DDR through relu, two iterations in flight; weights ride along as
/// data.
inline Module relu_rows() {
    using namespace builder;
    Program p("relu_rows");
    const Expr rows = p.param("ROWS", 8, 1, 8);
    const Expr row = p.constant("ROW", 64);
    const Buffer x = p.buffer("X", Level::ddr, 8 * row, 64), y = p.buffer("Y", Level::ddr, 8 * row);
    p.buffer("BIAS", Level::ddr, 4);
    const Buffer s = p.l1_buffer("S", 0, 2 * row);
    p.data("bias", "BIAS", std::string("\x01\x02\x03\x04", 4));
    p.loop("i", 0, rows - 1, 2, [&](const Expr& i) {
        const TensorType type = tensor(ElemType::i8, {64});
        const Region slot = p.region("slot", s, i % 2 * row, type);
        const Task load = p.transfer("load", slot, p.region("src", x, i * row, type));
        const Task work = p.compute("relu", {slot}, {slot}, "work").after({load});
        p.store("", p.region("dst", y, i * row, type), slot).after({work});
    });
    return p.build();
}

}  // namespace kpu::test
