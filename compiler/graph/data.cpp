#include "compiler/graph/data.hpp"

#include <fmt/format.h>

#include <cstring>

#include "values/scalar.hpp"

namespace kpu::graph {
namespace {

/// Copies elements to a dense result of shape `to`, whose index moves through the source by `strides`
/// (elements, 0 where the source repeats).
template <uint64_t size>
void copy_fixed(const uint8_t* from, uint8_t* into, const Dims& to, const Dims& strides) {
    std::array<int64_t, max_rank> index{};
    const int last = to.rank - 1;
    const int64_t count = to.product() / to[static_cast<size_t>(last)];
    const int64_t line = to[static_cast<size_t>(last)], step = strides[static_cast<size_t>(last)];
    int64_t offset = 0;
    for (int64_t i = 0; i < count; ++i) {
        for (int64_t j = 0; j < line; ++j, into += size)
            std::memcpy(into, from + static_cast<uint64_t>(offset + j * step) * size, size);
        for (int d = last - 1; d >= 0; --d) {
            const auto at = static_cast<size_t>(d);
            offset += strides[at];
            if (++index[at] < to[at]) break;
            offset -= strides[at] * to[at];
            index[at] = 0;
        }
    }
}

void copy_strided(const uint8_t* from, uint8_t* into, uint64_t size, Dims to, Dims strides) {
    if (to.rank == 0) to.rank = strides.rank = 1, to[0] = 1, strides[0] = 0;
    switch (size) {
        case 1:
            return copy_fixed<1>(from, into, to, strides);
        case 2:
            return copy_fixed<2>(from, into, to, strides);
        case 4:
            return copy_fixed<4>(from, into, to, strides);
        case 8:
            return copy_fixed<8>(from, into, to, strides);
        default:
            throw InternalError(fmt::format("graph: elements of {} bytes", size));
    }
}

}  // namespace

NewData new_data(uint64_t size) {
    const std::shared_ptr<uint8_t[]> owner(new uint8_t[size == 0 ? 1 : size]);
    return {{owner, owner.get(), size}, owner.get()};
}

Data aligned(const Data& data, uint64_t alignment) {
    if (reinterpret_cast<uintptr_t>(data.bytes) % alignment == 0) return data;
    const NewData copy = new_data(data.size);
    std::memcpy(copy.bytes, data.bytes, data.size);
    return copy.data;
}

uint64_t element_bytes(ElemType elem) { return data_bytes(elem, 1); }

Dims permuted(const Dims& shape, const std::vector<int>& perm) {
    if (perm.size() != shape.rank) throw InternalError("graph: a permutation of another rank");
    Dims result;
    for (const int d : perm) result[result.rank++] = shape[static_cast<size_t>(d)];
    return result;
}

Data permuted(const Data& data, uint64_t element_size, const Dims& shape, const std::vector<int>& perm) {
    const NewData result = new_data(data.size);
    copy_strided(data.bytes, result.bytes, element_size, permuted(shape, perm),
                 permuted(row_major(shape), perm));
    return result.data;
}

std::vector<int> inverse(const std::vector<int>& perm) {
    std::vector<int> result(perm.size());
    for (size_t d = 0; d < perm.size(); ++d) result[static_cast<size_t>(perm[d])] = static_cast<int>(d);
    return result;
}

Data slice(const Data& data, uint64_t element_size, const Dims& shape, size_t dim, int64_t first,
           int64_t last) {
    uint64_t outer = 1, inner = element_size;
    for (size_t d = 0; d < shape.rank; ++d) {
        if (d < dim) outer *= static_cast<uint64_t>(shape[d]);
        if (d > dim) inner *= static_cast<uint64_t>(shape[d]);
    }
    const uint64_t row = static_cast<uint64_t>(shape[dim]) * inner,
                   part = static_cast<uint64_t>(last - first) * inner;
    NewData result = new_data(outer * part);
    for (uint64_t o = 0; o < outer; ++o)
        std::memcpy(result.bytes + o * part, data.bytes + o * row + static_cast<uint64_t>(first) * inner,
                    part);
    return result.data;
}

Data broadcast_to(const Data& data, uint64_t element_size, const Dims& shape, const Dims& target) {
    Dims strides;
    strides.rank = target.rank;
    const Dims own = row_major(shape);
    for (size_t d = 1; d <= shape.rank; ++d) {
        if (shape[shape.rank - d] != 1) strides[target.rank - d] = own[shape.rank - d];
    }
    const NewData result = new_data(static_cast<uint64_t>(target.product()) * element_size);
    copy_strided(data.bytes, result.bytes, element_size, target, strides);
    return result.data;
}

std::vector<double> numbers(const Value& value) {
    std::vector<double> result;
    result.reserve(value.elements());
    for (uint64_t i = 0; i < value.elements(); ++i)
        result.push_back(values::load_real(value.elem, value.data.bytes, static_cast<int64_t>(i)));
    return result;
}

Data make_numbers(ElemType elem, const std::vector<double>& numbers) {
    const NewData result = new_data(data_bytes(elem, numbers.size()));
    for (size_t i = 0; i < numbers.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        if (is_float(elem)) {
            values::store_float(elem, result.bytes, at, numbers[i]);
        } else {
            values::store_saturated(elem, result.bytes, at, static_cast<int64_t>(numbers[i]));
        }
    }
    return result.data;
}

}  // namespace kpu::graph
