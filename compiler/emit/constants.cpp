#include "compiler/emit/constants.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "compiler/graph/data.hpp"
#include "compiler/mapping/tiling.hpp"
#include "compiler/tile_op/tile_op.hpp"
#include "values/scalar.hpp"

namespace kpu::compiler {

int64_t Constants::place(const Block& block) {
    const auto [found, added] = places_.try_emplace(block, 0);
    if (added) {
        const auto size = packed_bytes(block.elem, static_cast<uint64_t>(block.count.product()));
        size_ = align_up(size_, size < 8 * tile_align ? small_align : tile_align);
        found->second = static_cast<int64_t>(size_);
        size_ += size;
    }
    return found->second;
}

namespace {

/// Appends numbers, two to a byte, the lower one first.
void append_nibbles(std::string& to, const uint8_t* numbers, size_t count, bool low) {
    for (size_t i = 0; i < count; ++i, low = !low) {
        const int number = numbers[i] & 0xf;
        if (low) {
            to.push_back(static_cast<char>(number));
        } else {
            to.back() = static_cast<char>(static_cast<uint8_t>(to.back()) | number << 4);
        }
    }
}

void append(std::string& to, const graph::Value& value, const Block& block) {
    const Dims strides = row_major(shape_of(value));
    const auto size = static_cast<size_t>(graph::element_bytes(value.elem));
    const size_t rank = block.count.rank;
    const auto row = static_cast<size_t>(block.count[rank - 1]);
    std::vector<int64_t> index(rank, 0);
    const int64_t rows = block.count.product() / block.count[rank - 1];
    for (int64_t r = 0; r < rows; ++r) {
        int64_t from = block.first[rank - 1];
        for (size_t d = 0; d + 1 < rank; ++d) from += (block.first[d] + index[d]) * strides[d];
        const uint8_t* bytes = value.data.bytes + static_cast<size_t>(from) * size;
        if (shares_bytes(block.elem)) {
            append_nibbles(to, bytes, row, r * block.count[rank - 1] % 2 == 0);
        } else if (block.elem == value.elem) {
            to.append(reinterpret_cast<const char*>(bytes), row * size);
        } else {
            for (size_t i = 0; i < row; ++i) {
                const float number = values::load_float(value.elem, bytes, static_cast<int64_t>(i));
                to.append(reinterpret_cast<const char*>(&number), sizeof number);
            }
        }
        for (size_t d = rank - 1; d-- > 0 && ++index[d] == block.count[d];) index[d] = 0;
    }
}

}  // namespace

std::string bytes_of(const graph::Graph& graph, const BlockPlaces& places) {
    std::vector<std::pair<int64_t, const Block*>> in_order;
    in_order.reserve(places.size());
    for (const auto& [block, at] : places) in_order.emplace_back(at, &block);
    std::sort(in_order.begin(), in_order.end());
    std::string result;
    if (!in_order.empty()) {
        const Block& last = *in_order.back().second;
        result.reserve(static_cast<size_t>(in_order.back().first) +
                       packed_bytes(last.elem, static_cast<uint64_t>(last.count.product())));
    }
    for (const auto& [at, block] : in_order) {
        result.resize(static_cast<size_t>(at));
        append(result, graph.value(block->value), *block);
    }
    return result;
}

}  // namespace kpu::compiler
