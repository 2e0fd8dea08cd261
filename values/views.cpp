#include "values/views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/diagnostics.hpp"
#include "isa/shapes.hpp"

namespace kpu::values {
namespace {

/// Returns the bytes of one element of the dense form.
int64_t element_bytes(ElemType type) { return std::max(1, bit_width(type) / 8); }

/// Source of an output's elements: index i along dimension d lies at `first + i * stride` elements.
struct Source {
    int64_t first = 0;
    Dims stride;
};

template <class T>
void copy_row(const T* from, int64_t stride, T* to, int64_t count) {
    if (stride == 1) {
        std::copy(from, from + count, to);
    } else {
        for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
    }
}

/// Elements of `shape` in index order.
template <class T>
void copy_strided(const uint8_t* data, const Source& source, const Dims& shape, uint8_t* out) {
    const T* from = reinterpret_cast<const T*>(data) + source.first;
    T* to = reinterpret_cast<T*>(out);
    const size_t last = shape.rank - 1U;
    const int64_t rows = shape.product() / std::max<int64_t>(shape[last], 1);
    int64_t index[max_rank] = {};
    for (int64_t row = 0; row < rows; ++row, to += shape[last]) {
        copy_row(from, source.stride[last], to, shape[last]);
        for (size_t d = last; d-- > 0;) {
            from += source.stride[d];
            if (++index[d] < shape[d]) break;
            from -= source.stride[d] * shape[d];
            index[d] = 0;
        }
    }
}

void copy_view(const Tensor& x, const Source& source, const Tensor& y) {
    switch (element_bytes(y.type)) {
        case 1:
            return copy_strided<uint8_t>(x.data, source, y.shape, y.data);
        case 2:
            return copy_strided<uint16_t>(x.data, source, y.shape, y.data);
        default:
            return copy_strided<uint32_t>(x.data, source, y.shape, y.data);
    }
}

void transpose(const Call& call) {
    const Tensor &x = call.x(), &y = call.y();
    const Dims strides = row_major(x.shape);
    Source source;
    for (const int64_t from : call.attrs.find("perm")->ints) {
        source.stride[source.stride.rank++] = strides[static_cast<size_t>(from)];
    }
    copy_view(x, source, y);
}

void slice(const Call& call) {
    const Tensor &x = call.x(), &y = call.y();
    Source source{0, row_major(x.shape)};
    const std::vector<SliceRange> ranges = slice_ranges(x.shape, call.attrs);
    for (size_t d = 0; d < x.shape.rank; ++d) {
        source.first += ranges[d].first * source.stride[d];
        source.stride[d] *= ranges[d].step;
    }
    copy_view(x, source, y);
}

/// A tensor as outer x (size along the axis * inner) elements, in bytes.
struct Slabs {
    int64_t outer = 1, inner = 1, row = 0;
    Slabs(const Tensor& tensor, size_t axis) : inner(element_bytes(tensor.type)) {
        for (size_t d = 0; d < axis; ++d) outer *= tensor.shape[d];
        for (size_t d = axis + 1; d < tensor.shape.rank; ++d) inner *= tensor.shape[d];
        row = inner * tensor.shape[axis];
    }
};

/// Copies the parts of a tensor that is cut along the axis: concat copies into the whole, split out of it.
void copy_parts(const Tensor& whole, const std::vector<Tensor>& parts, bool join, const BoundAttrs& attrs) {
    const size_t axis = axis_of(whole.shape, attrs);
    const Slabs all(whole, axis);
    int64_t offset = 0;
    for (const Tensor& part : parts) {
        const Slabs slabs(part, axis);
        for (int64_t o = 0; o < all.outer; ++o) {
            uint8_t* in_whole = whole.data + o * all.row + offset;
            uint8_t* in_part = part.data + o * slabs.row;
            std::memcpy(join ? in_whole : in_part, join ? in_part : in_whole, static_cast<size_t>(slabs.row));
        }
        offset += slabs.row;
    }
}

/// Returns, for each index of a padded dimension, the index of X, or -1 for the constant.
std::vector<int64_t> padding_map(int64_t size, int64_t before, int64_t behind, std::string_view mode) {
    std::vector<int64_t> map;
    for (int64_t i = -before; i < size + behind; ++i) {
        if (i >= 0 && i < size) {
            map.push_back(i);
        } else if (mode == "constant") {
            map.push_back(-1);
        } else if (mode == "edge") {
            map.push_back(i < 0 ? 0 : size - 1);
        } else {
            map.push_back(i < 0 ? -i : 2 * (size - 1) - i);
        }
    }
    return map;
}

/// The constant of pad as an element of Y: rounded once, saturated; quantised by Y's own scale.
void fill_constant(const Tensor& y, double value, uint8_t* element) {
    if (is_float(y.type)) return store_float(y.type, element, 0, value);
    const QuantMap map(y);
    store_saturated(y.type, element, 0,
                    quantized(in_steps(value, map.scale(0)), map.zero_point(0), range_of(y.type)));
}

void pad(const Call& call) {
    const Tensor &x = call.x(), &y = call.y();
    const std::vector<int64_t>& pads = call.attrs.find("pads")->ints;
    const size_t rank = x.shape.rank, size = static_cast<size_t>(element_bytes(x.type));
    if (has_quant(y) && y.quant->kind != proto::Quant::PER_TENSOR) {
        throw UserError(
            fmt::format("pad: {} is not quantised per tensor. Fix: use quant=per_tensor(...).", describe(y)));
    }
    std::vector<std::vector<int64_t>> maps;
    for (size_t d = 0; d < rank; ++d)
        maps.push_back(padding_map(x.shape[d], pads[d], pads[d + rank], call.attrs.find("mode")->text));
    alignas(4) uint8_t constant[4] = {};
    fill_constant(y, call.attrs.real("constant_value", 0), constant);
    const Dims strides = row_major(x.shape);
    int64_t index[max_rank] = {};
    const auto count = static_cast<int64_t>(y.elements());
    for (int64_t i = 0; i < count; ++i) {
        int64_t at = 0;
        bool inside = true;
        for (size_t d = 0; d < rank; ++d) {
            const int64_t from = maps[d][static_cast<size_t>(index[d])];
            inside = inside && from >= 0;
            at += from * strides[d];
        }
        std::memcpy(y.data + i * static_cast<int64_t>(size),
                    inside ? x.data + at * static_cast<int64_t>(size) : constant, size);
        for (size_t d = rank; d-- > 0;) {
            if (++index[d] < y.shape[d]) break;
            index[d] = 0;
        }
    }
}

void gather(const Call& call) {
    const Tensor &x = call.x(), &indices = call.inputs[1];
    const size_t axis = axis_of(x.shape, call.attrs);
    const Slabs slabs(x, axis);
    const int64_t size = x.shape[axis];
    const auto count = static_cast<int64_t>(indices.elements());
    uint8_t* to = call.y().data;
    for (int64_t o = 0; o < slabs.outer; ++o) {
        for (int64_t i = 0; i < count; ++i, to += slabs.inner) {
            const int64_t index = load_integer(indices.type, indices.data, i);
            if (index < -size || index >= size) {
                throw UserError(
                    fmt::format("gather: index {} at position {} is outside dimension {} of {}. "
                                "Fix: use indices from {} to {}.",
                                index, i, axis, describe(x), -size, size - 1));
            }
            const int64_t row = index < 0 ? index + size : index;
            std::memcpy(to, x.data + o * slabs.row + row * slabs.inner, static_cast<size_t>(slabs.inner));
        }
    }
}

/// T: as wide as an element.
template <class T>
void copy_elements(const Call& call, size_t axis) {
    const Tensor &x = call.x(), &indices = call.inputs[1];
    const Dims strides = row_major(x.shape);
    const int64_t size = x.shape[axis];
    const auto count = static_cast<int64_t>(indices.elements());
    int64_t at[max_rank] = {};
    for (int64_t i = 0; i < count; ++i) {
        const int64_t given = load_integer(indices.type, indices.data, i);
        if (given < -size || given >= size) {
            throw UserError(
                fmt::format("gather_elements: index {} at position {} is outside dimension {} of {}. "
                            "Fix: use indices from {} to {}.",
                            given, i, axis, describe(x), -size, size - 1));
        }
        int64_t from = 0;
        for (size_t d = 0; d < x.shape.rank; ++d) {
            const int64_t index = d != axis ? at[d] : given < 0 ? given + size : given;
            from += index * strides[d];
        }
        store(call.y().data, i, load<T>(x.data, from));
        for (size_t d = x.shape.rank; d-- > 0;) {
            if (++at[d] < indices.shape[d]) break;
            at[d] = 0;
        }
    }
}

void gather_elements(const Call& call) {
    const size_t axis = axis_of(call.x().shape, call.attrs);
    switch (element_bytes(call.x().type)) {
        case 1:
            return copy_elements<uint8_t>(call, axis);
        case 2:
            return copy_elements<uint16_t>(call, axis);
        default:
            return copy_elements<uint32_t>(call, axis);
    }
}

/// Copies pixels to channels or back. Both sides have the six dimensions [n, y, i, x, j, c] of pixels
/// (y*block+i, x*block+j): `wide` is the tensor of many pixels, `deep` the one of many channels. Copies from
/// one to the other.
void copy_blocks(const Call& call, bool to_wide) {
    const Tensor& wide = to_wide ? call.y() : call.x();
    const Tensor& deep = to_wide ? call.x() : call.y();
    const int64_t block = call.attrs.integer("block", 1), bytes = element_bytes(wide.type);
    const int64_t height = deep.shape[1], width = deep.shape[2], channels = wide.shape[3];
    const bool channel_first = call.attrs.word("mode", "DCR") == "CRD";
    uint8_t* in_wide = wide.data;
    const auto count = static_cast<int64_t>(wide.elements());
    for (int64_t e = 0; e < count; ++e, in_wide += bytes) {
        const int64_t c = e % channels, pixel = e / channels;
        const int64_t column = pixel % (width * block), row = pixel / (width * block) % (height * block);
        const int64_t image = pixel / (width * block) / (height * block);
        const int64_t in_block = row % block * block + column % block;
        const int64_t channel = channel_first ? c * block * block + in_block : in_block * channels + c;
        const int64_t at = (image * height + row / block) * width + column / block;
        uint8_t* in_deep = deep.data + (at * channels * block * block + channel) * bytes;
        std::memcpy(to_wide ? in_wide : in_deep, to_wide ? in_deep : in_wide, static_cast<size_t>(bytes));
    }
}

void depth_to_space(const Call& call) { copy_blocks(call, true); }
void space_to_depth(const Call& call) { copy_blocks(call, false); }

void reshape(const Call& call) {
    const Tensor& y = call.y();
    std::memcpy(y.data, call.x().data, y.elements() * static_cast<size_t>(element_bytes(y.type)));
}

void concat(const Call& call) { copy_parts(call.y(), call.inputs, true, call.attrs); }
void split(const Call& call) { copy_parts(call.x(), call.outputs, false, call.attrs); }

void choose(const Call& call) {
    const Tensor &x = call.inputs[static_cast<size_t>(call.attrs.integer("index", 0))], &y = call.y();
    std::memcpy(y.data, x.data, y.elements() * static_cast<size_t>(element_bytes(y.type)));
}

void insert_rows(const Call& call) {
    const Tensor &x = call.x(), &rows = call.inputs[1], &y = call.y();
    std::memcpy(y.data, x.data, y.elements() * static_cast<size_t>(element_bytes(y.type)));
    const size_t axis = axis_of(x.shape, call.attrs);
    const Slabs whole(y, axis), part(rows, axis);
    const int64_t first = call.attrs.integer("start", 0) * whole.inner;
    for (int64_t o = 0; o < whole.outer; ++o)
        std::memcpy(y.data + o * whole.row + first, rows.data + o * part.row, static_cast<size_t>(part.row));
}

/// Calls `copy` unless the output is empty, whose strides mean nothing.
template <void (*copy)(const Call&)>
void unless_empty(const Call& call) {
    if (call.y().elements() > 0) copy(call);
}

}  // namespace

const std::vector<View>& view_table() {
    static const std::vector<View> rows = {
        {"transpose", unless_empty<transpose>},
        {"reshape", unless_empty<reshape>},
        {"slice", unless_empty<slice>},
        {"concat", unless_empty<concat>},
        {"choose", unless_empty<choose>},
        {"insert_rows", unless_empty<insert_rows>},
        {"split", unless_empty<split>},
        {"pad", unless_empty<pad>},
        {"gather", unless_empty<gather>},
        {"gather_elements", unless_empty<gather_elements>},
        {"depth_to_space", unless_empty<depth_to_space>},
        {"space_to_depth", unless_empty<space_to_depth>},
    };
    return rows;
}

}  // namespace kpu::values
