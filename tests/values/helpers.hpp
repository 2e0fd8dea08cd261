#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "isa/shapes.hpp"
#include "values/compute.hpp"
#include "values/scalar.hpp"

namespace kpu::values::testing {

using Random = std::mt19937_64;

inline int64_t pick(Random& random, int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

inline Dims dims(const std::vector<int64_t>& values) {
    Dims result;
    for (const int64_t v : values) result[result.rank++] = v;
    return result;
}

inline BoundRegion region(ElemType elem, const std::vector<int64_t>& shape, Level level = Level::ddr) {
    BoundRegion r;
    r.name = "r";
    r.level = level;
    r.elem = elem;
    r.shape = dims(shape);
    r.strides = row_major(r.shape);
    r.extent = packed_bytes(elem, static_cast<uint64_t>(r.shape.product()));
    return r;
}

/// Returns a region whose strides leave random gaps and come in random order of dimensions.
inline BoundRegion random_region(Random& random, ElemType elem) {
    BoundRegion r;
    r.name = "random";
    r.elem = elem;
    r.shape.rank = static_cast<uint8_t>(pick(random, 1, 4));
    r.strides.rank = r.shape.rank;
    std::vector<size_t> order;
    for (size_t d = 0; d < r.shape.rank; ++d) order.push_back(d);
    if (pick(random, 0, 1) == 0) std::shuffle(order.begin(), order.end(), random);
    int64_t step = pick(random, 1, 2);
    for (const size_t d : order) {
        r.shape[d] = pick(random, 1, 4);
        r.strides[d] = step;
        step = step * r.shape[d] + (pick(random, 0, 2) == 0 ? pick(random, 1, 5) : 0);
    }
    r.dense = r.strides == row_major(r.shape);
    r.extent = packed_bytes(elem, static_cast<uint64_t>(step));
    return r;
}

/// Offsets of all elements in index order, in elements, by plain recursion over the indices.
inline std::vector<int64_t> element_offsets(const BoundRegion& r) {
    std::vector<int64_t> offsets = {0};
    for (size_t d = 0; d < r.shape.rank; ++d) {
        std::vector<int64_t> next;
        for (const int64_t base : offsets) {
            for (int64_t i = 0; i < r.shape[d]; ++i) next.push_back(base + i * r.strides[d]);
        }
        offsets = next;
    }
    return offsets;
}

/// An operand that owns its elements.
struct Operand {
    ElemType type;
    Dims shape;
    BoundQuant quant;
    std::vector<uint32_t> storage;  ///< aligned for every element type
    size_t bytes = 0;

    Operand(ElemType t, const std::vector<int64_t>& s) : type(t), shape(dims(s)) {
        bytes = static_cast<size_t>(shape.product()) *
                static_cast<size_t>(bit_width(t) == 4 ? 1 : bit_width(t) / 8);
        storage.assign(bytes / 4 + 1, 0xa5a5a5a5);
    }
    uint8_t* data() { return reinterpret_cast<uint8_t*>(storage.data()); }
    Tensor tensor() { return {type, shape, &quant, data()}; }
    template <class T>
    void set(const std::vector<T>& values) {
        if (values.empty()) return;  // memcpy takes no null pointer, not even for nothing
        std::memcpy(data(), values.data(), std::min(bytes, values.size() * sizeof(T)));
    }
    template <class T>
    std::vector<T> get() {
        std::vector<T> values(bytes / sizeof(T));
        if (!values.empty()) std::memcpy(values.data(), data(), bytes);
        return values;
    }
};

inline BoundQuant per_tensor(double scale, int64_t zero) {
    BoundQuant q;
    q.kind = proto::Quant::PER_TENSOR;
    q.scales = {scale};
    q.zero_points = {zero};
    return q;
}

inline BoundAttr ints_attr(const std::string& name, std::vector<int64_t> values) {
    BoundAttr attr;
    attr.name = name;
    attr.ints = std::move(values);
    return attr;
}
inline BoundAttr integer_attr(const std::string& name, int64_t value) {
    BoundAttr attr;
    attr.name = name;
    attr.integer = value;
    return attr;
}
inline BoundAttr real_attr(const std::string& name, double value) {
    BoundAttr attr;
    attr.name = name;
    attr.real = value;
    return attr;
}

/// Floats: ordinary values of mixed size with zeros, subnormals, infinities and NaNs among them when
/// `special`. Integers: any value, extremes often.
inline void fill(Random& random, Operand& operand, bool special) {
    const auto count = static_cast<int64_t>(operand.tensor().elements());
    for (int64_t i = 0; i < count; ++i) {
        if (is_float(operand.type)) {
            double v = std::ldexp(static_cast<double>(random()) * 0x1p-64 - 0.5,
                                  static_cast<int>(pick(random, -6, 4)));
            if (special && pick(random, 0, 3) == 0) {
                const double specials[] = {0.0,  -0.0,   1e-7,     -6e-8,     1e-42, -1e-25,
                                           3e38, -65504, HUGE_VAL, -HUGE_VAL, NAN};
                v = specials[pick(random, 0, pick(random, 0, 3) == 0 ? 10 : 7)];
            }
            store_float(operand.type, operand.data(), i, v);
        } else {
            const IntegerRange range = range_of(operand.type);
            const int64_t choice = pick(random, 0, 9);
            const int64_t v = choice == 0   ? range.low
                              : choice == 1 ? range.high
                                            : pick(random, range.low, range.high);
            store_saturated(operand.type, operand.data(), i, v);
        }
    }
}

inline double random_scale(Random& random) {
    return std::ldexp(1.0 + static_cast<double>(random()) * 0x1p-64, -7);
}

inline BoundQuant random_quant(Random& random, const Operand& operand, int axis, bool zeros) {
    BoundQuant q;
    q.kind = axis < 0 ? proto::Quant::PER_TENSOR : proto::Quant::PER_CHANNEL;
    q.axis = std::max(axis, 0);
    const int64_t entries = axis < 0 ? 1 : operand.shape[static_cast<size_t>(axis)];
    const IntegerRange range = range_of(operand.type);
    for (int64_t i = 0; i < entries; ++i) {
        q.scales.push_back(random_scale(random));
        q.zero_points.push_back(
            zeros ? pick(random, std::max<int64_t>(range.low, -200), std::min<int64_t>(range.high, 200)) : 0);
    }
    return q;
}

/// Attributes of a two-dimensional window without padding, at every position.
inline BoundAttrs plain_window() {
    BoundAttrs attrs;
    attrs.list = {ints_attr("pads", {0, 0, 0, 0}), ints_attr("strides", {1, 1}),
                  ints_attr("dilations", {1, 1})};
    return attrs;
}

inline OpcodeId op(const char* name) { return find_opcode(name).value(); }

}  // namespace kpu::values::testing
