#pragma once
// Random networks for tests of plans.
#include <algorithm>
#include <utility>

#include "tests/compiler/plan/maker.hpp"

namespace kpu::compiler::testing {

/// Random chains over pictures: convolutions, pools, sums, branches, joins, slices, resized pictures.
class Pictures {
  public:
    Pictures(ElemType elem, uint32_t seed) : maker(elem, seed) {}

    Maker maker;

    ValueId layers(ValueId x, int64_t count) {
        for (int64_t i = 0; i < count; ++i) x = layer(x);
        return x;
    }

  private:
    const graph::Value& value(ValueId x) { return maker.graph().value(x); }
    int64_t rows(ValueId x) { return value(x).shape[1]; }
    int64_t columns(ValueId x) { return value(x).shape[2]; }
    int64_t channels(ValueId x) { return value(x).shape[3]; }

    ValueId layer(ValueId x) {
        const int64_t size = std::min(rows(x), columns(x));
        switch (maker.pick(0, 10)) {
            case 0:
                return maker.unary("relu", x);
            case 1: {
                if (size < 8) return x;
                const int64_t kernel = maker.pick(2, 3);
                return maker.pool("maxpool", x, kernel, maker.pick(1, kernel), maker.pick(0, kernel - 1));
            }
            case 2: {  // a residual, fused
                const ValueId y = maker.conv(x, channels(x), 3, 1, 1);
                const ValueId sum = maker.binary("add", y, x);
                maker.fuse(2);
                return sum;
            }
            case 3: {  // two convolutions and a way around them
                const ValueId y = maker.conv(maker.conv(x, maker.pick(4, 12), 3, 1, 1), channels(x), 3, 1, 1);
                return maker.binary("add", y, x);
            }
            case 4: {
                const ValueId a = maker.conv(x, maker.pick(4, 12), 1, 1, 0);
                const ValueId b = maker.conv(x, maker.pick(4, 12), 5, 1, 2);
                return joined({a, b});
            }
            case 5: {
                if (channels(x) < 8) return x;
                const ValueId half = slice(x, channels(x) / 2);
                return joined({maker.conv(half, 8, 3, 1, 1), maker.conv(x, 8, 1, 1, 0)});
            }
            case 6:
                return size > 24 ? x : resized(x);
            case 7: {
                const int64_t h = rows(x), w = columns(x), c = channels(x);
                return maker.reshape(maker.unary("relu", maker.reshape(x, {1, h * w, c})), {1, h, w, c});
            }
            case 8:
                return turned(maker.unary("relu", turned(x)));
            default: {
                const int64_t kernel = maker.pick(1, std::min<int64_t>(5, size));
                const int64_t stride = size > 20 ? maker.pick(1, 2) : 1;
                return maker.conv(x, maker.pick(4, 20), kernel, stride, maker.pick(0, kernel / 2));
            }
        }
    }

    ValueId joined(std::vector<ValueId> parts) {
        NodeOptions options = maker.named("Concat");
        options.quant = value(parts[0]).quant;
        for (const ValueId part : parts) maker.graph().value(part).quant = options.quant;
        return maker.graph().add_node("concat", std::move(parts), attributes({integer("axis", 3)}), options);
    }

    ValueId slice(ValueId x, int64_t count) {
        NodeOptions options = maker.named("Slice");
        options.quant = value(x).quant;
        return maker.graph().add_node(
            "slice", {x},
            attributes({ints("starts", {channels(x) - count}), ints("ends", {channels(x)}), ints("axes", {3}),
                        ints("steps", {1})}),
            options);
    }

    /// Turns a value: rows and columns change places.
    ValueId turned(ValueId x) {
        NodeOptions options = maker.named("Transpose");
        options.quant = value(x).quant;
        return maker.graph().add_node("transpose", {x}, attributes({ints("perm", {0, 2, 1, 3})}), options);
    }

    ValueId resized(ValueId x) {
        NodeOptions options = maker.named("Resize");
        options.quant = value(x).quant;
        return maker.graph().add_node(
            "resize", {x},
            attributes({ints("sizes", {1, 2 * rows(x), 2 * columns(x), channels(x)}),
                        graph::word("mode", "nearest"), graph::word("coordinates", "asymmetric"),
                        graph::word("nearest_mode", "floor")}),
            options);
    }
};

/// Steps that read the same weights, as those of recurrent networks do.
class Recurrence {
  public:
    Recurrence(ElemType elem, uint32_t seed) : maker(elem, seed), elem_(elem) {}

    Maker maker;

    ValueId weights(int64_t in, int64_t out) {
        return maker.constant({in, out}, elem_, maker.channels(1, out));
    }
    /// Adds a product whose numbers stay as small as those of inputs.
    ValueId product(ValueId x, ValueId w, bool fused = true) {
        const ValueId y = maker.graph().add_node(
            "gemm", {x, w}, attributes({graph::type("accum_type", maker.sums())}), maker.named("Gemm", 8));
        if (maker.quantised()) return y;
        NodeOptions options = maker.named("Clip");
        const ValueId small = maker.graph().add_node(
            "clamp", {y}, attributes({graph::real("min_val", -3), graph::real("max_val", 3)}), options);
        if (fused) maker.fuse(2);
        return small;
    }

  private:
    ElemType elem_;
};

/// Two products of the same rows, the second multiplied with the first, as in a gated feed-forward.
inline ValueId gated(Maker& maker, int64_t rows, int64_t columns) {
    const ValueId x = maker.unary("relu", maker.input({rows, 64}));
    const ValueId gate = maker.gemm(x, columns);
    const ValueId up = maker.gemm(x, columns);
    const ValueId y = maker.binary("mul", gate, up);
    maker.fuse(2);
    return y;
}

/// Heads of attention in f16, their scores, mask and softmax one group, as `fuse` makes it.
inline ValueId attention(Maker& maker, int64_t heads, int64_t rows, int64_t columns, int64_t width) {
    const auto product = [&](ValueId a, ValueId b) {
        return maker.graph().add_node("gemm", {a, b}, attributes({graph::type("accum_type", ElemType::f32)}),
                                      maker.named("MatMul"));
    };
    const ValueId scores = product(maker.input({heads, rows, width}), maker.input({heads, width, columns}));
    const ValueId masked = maker.binary("add", scores, maker.constant({1, rows, columns}, ElemType::f16));
    const ValueId shares =
        maker.graph().add_node("softmax", {masked}, attributes({integer("axis", 2)}), maker.named("Softmax"));
    maker.fuse(3);
    return product(shares, maker.input({heads, columns, width}));
}

}  // namespace kpu::compiler::testing
