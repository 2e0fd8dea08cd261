// Weights and tables of com.microsoft whose numbers of 2, 4 or 8 bits have a scale for each block: MatMulNBits and
// GatherBlockQuantized.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/graph/data.hpp"
#include "compiler/onnx/indexing.hpp"
#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products.hpp"
#include "compiler/onnx/quantized.hpp"

namespace kpu::onnx {
namespace {

/// Of g_idx, the block of each of the k rows; empty where those are the blocks in order.
Sizes groups_of(Call& call, int64_t k, int64_t size, int64_t blocks) {
    if (!call.has(4)) return {};
    Sizes groups = call.ints_of(4, "g_idx");
    // some have an entry for each row of whole blocks
    if (static_cast<int64_t>(groups.size()) < k)
        Call::refuse(fmt::format("g_idx has {} entries for {} rows", groups.size(), k));
    groups.resize(static_cast<size_t>(k));
    bool ordered = true;
    for (int64_t i = 0; i < k; ++i) {
        const int64_t group = groups[static_cast<size_t>(i)];
        if (group < 0 || group >= blocks)
            Call::refuse(fmt::format("g_idx: {} is none of {} blocks", group, blocks));
        ordered = ordered && group == i / size;
    }
    return ordered ? Sizes() : groups;
}

/// A times a matrix [N, K] in blocks along K, packed [N, blocks, bytes of a block]; A, B, scales, zero points, g_idx, bias.
void matmul_nbits(Call& call) {
    const int64_t k = call.integer("K", 0), n = call.integer("N", 0), size = call.integer("block_size", 0);
    const int64_t bits = call.integer("bits", 4);
    if (bits != 2 && bits != 4 && bits != 8) Call::refuse(fmt::format("its weights have {} bits", bits));
    constexpr int64_t most = int64_t{1} << 31;  // so that no product of two of them overflows
    if (k < 1 || n < 1 || size < 16 || size % 4 != 0 || k > most || n > most || size > most)
        Call::refuse(fmt::format("K is {}, N {}, block_size {}", k, n, size));
    const int64_t blocks = (k + size - 1) / size;
    const Known &packed = call.known(1, "weights"), &given = call.known(2, "scales");
    const int64_t per_byte = 8 / bits, bytes = size / per_byte;  // of a block
    if (static_cast<int64_t>(packed.size()) != n * blocks * bytes ||
        static_cast<int64_t>(given.size()) != n * blocks)
        Call::refuse(fmt::format("{} bytes of weights and {} scales do not fit [{},{}] in blocks of {}",
                                 packed.size(), given.size(), n, k, size));
    const auto unpacked = [&](const Known& all, int64_t row, int64_t bytes_in_row, int64_t i) {
        const int64_t byte = all.ints[static_cast<size_t>(row * bytes_in_row + i / per_byte)];
        return byte >> (bits * (i % per_byte)) & ((1 << bits) - 1);
    };
    const Type type = bits == 4 ? Type::u4 : Type::u8;
    Known steps{type, {k, n}, {}, {}}, scales{given.type, {blocks, n}, {}, {}},
        zeros{Type::f32, {blocks, n}, {}, {}};
    for (int64_t i = 0; i < k; ++i) {
        for (int64_t row = 0; row < n; ++row) steps.ints.push_back(unpacked(packed, row, blocks * bytes, i));
    }
    const Known* points = call.has(3) ? &call.known(3, "zero points") : nullptr;
    const int64_t packed_points = (blocks + per_byte - 1) / per_byte;
    if (points != nullptr &&
        static_cast<int64_t>(points->size()) != n * (points->real() ? blocks : packed_points))
        Call::refuse(fmt::format("{} zero points do not fit", points->size()));
    for (int64_t block = 0; block < blocks; ++block) {
        for (int64_t row = 0; row < n; ++row) {
            const auto at = static_cast<size_t>(row * blocks + block);
            scales.reals.push_back(given.number(at));
            zeros.reals.push_back(points == nullptr ? double(1 << (bits - 1))
                                  : points->real()  ? points->number(at)
                                                    : double(unpacked(*points, row, packed_points, block)));
        }
    }
    const ElemType elem = call.elem(call.value(0));
    const Sizes groups = groups_of(call, k, size, blocks);
    std::vector<double> floats;
    for (int64_t i = 0; i < k * n; ++i) {
        const int64_t group = groups.empty() ? i / n / size : groups[static_cast<size_t>(i / n)];
        const auto of = static_cast<size_t>(group * n + i % n);
        floats.push_back((double(steps.ints[static_cast<size_t>(i)]) - zeros.reals[of]) * scales.reals[of]);
    }
    const ValueId w = call.graph.add_constant(call.node.inputs[1], elem, graph::dims({k, n}),
                                              graph::make_numbers(elem, floats));
    if (groups.empty()) call.graph.value(w).blocks = blocks_of(type, steps, scales, &zeros, 0, size);
    ValueId y = matmul(call, call.value(0), w);
    if (call.has(5)) y = call.binary("add", y, call.value(5));
    call.result(y);
}

// ---- GatherBlockQuantized

/// The constant table, its numbers as i8 that are `lower` less.
struct BlockTable {
    ValueId steps;
    Sizes shape;
    int64_t lower = 0;
};

/// Numbers of u4 have a byte each when they are read.
Type table_type(const Operand& data) {
    return data.tensor && data.tensor->nibbles ? Type::u4 : data.type;
}

/// The numbers of a byte are side by side along the last dimension.
BlockTable table_of(Call& call, int64_t bits) {
    const Operand& data = call.in(0);
    if (!data.constant()) call.known(0, "data");
    const Type type = table_type(data);
    const bool bytes = type == Type::u8;
    if (!bytes && type != Type::i4 && type != Type::u4)
        Call::refuse(fmt::format("a table of {} is not taken", name_of(data.type)));
    if (bits != 2 && bits != 4 && bits != 8) Call::refuse(fmt::format("bits is {}", bits));
    const int64_t each = bytes ? 8 / bits : 1;
    BlockTable table{0, data.shape, bytes ? int64_t{1} << (bits - 1) : type == Type::u4 ? 8 : 0};
    if (table.shape.empty()) Call::refuse("its table has no dimensions");
    table.shape.back() *= each;
    const graph::NewData made = graph::new_data(static_cast<uint64_t>(elements_of(table.shape)));
    const bool in_file = data.tensor != nullptr && data.known == nullptr;
    const Known* known = in_file ? nullptr : &call.known(0, "data");
    const auto number = [&](uint64_t i) {
        const auto at = i / static_cast<uint64_t>(each);
        if (known != nullptr && !bytes) return known->ints[at];
        const int64_t byte = known != nullptr ? known->ints[at] : data.tensor->data.bytes[at];
        if (!bytes) return type == Type::i4 ? int64_t{static_cast<int8_t>(byte)} : byte;
        return byte >> (bits * (static_cast<int64_t>(i) % each)) & ((1 << bits) - 1);
    };
    for (uint64_t i = 0; i < made.data.size; ++i)
        made.bytes[i] = static_cast<uint8_t>(number(i) - table.lower);
    table.steps =
        call.graph.add_constant(call.node.inputs[0], ElemType::i8, graph::dims(table.shape), made.data);
    return table;
}

/// Zero points, less what the table is lower; packed as it is.
std::optional<ValueId> table_zeros(Call& call, const BlockTable& table, const Sizes& blocks, int64_t bits) {
    const bool bytes = table_type(call.in(0)) == Type::u8;
    if (!call.has(3)) {
        if (bytes || table.lower == 0) return std::nullopt;
        return call.constant(scalar_known(Type::f64, static_cast<double>(-table.lower)), ElemType::f32);
    }
    const Known& given = call.known(3, "zero points");
    const int64_t each = bytes ? 8 / bits : 1, row = blocks.back(), stored = (row + each - 1) / each;
    Known zeros{Type::f64, blocks, {}, {}};
    if (static_cast<int64_t>(given.size()) != elements_of(blocks) / row * stored)
        Call::refuse(
            fmt::format("zero points {} do not fit to scales {}", text_of(given.shape), text_of(blocks)));
    for (int64_t i = 0; i < elements_of(blocks); ++i) {
        const int64_t at = i % row, byte = given.ints[static_cast<size_t>(i / row * stored + at / each)];
        const int64_t zero = each == 1 ? byte : byte >> (bits * (at % each)) & ((1 << bits) - 1);
        zeros.reals.push_back(static_cast<double>(zero - table.lower));
    }
    return call.constant(zeros, ElemType::f32);
}

/// Rows of the table, then (number - zero point) * scale of those alone: the table stays one byte a number.
void gather_block_quantized(Call& call) {
    const int64_t bits = call.integer("bits", 4), size = call.integer("block_size", 128);
    const BlockTable table = table_of(call, bits);
    const auto rank = static_cast<int64_t>(table.shape.size());
    const size_t along = call.axis("quantize_axis", 1, rank), from = call.axis("gather_axis", 0, rank);
    if (size < 16) Call::refuse(fmt::format("block_size is {}", size));
    if (along == from) Call::refuse("gather_axis is the quantize_axis");
    Sizes blocks = table.shape;
    blocks[along] = (table.shape[along] + size - 1) / size;
    if (call.shape(2) != blocks)
        Call::refuse(fmt::format("scales {} of blocks of {} in {} are not taken", text_of(call.shape(2)),
                                 size, text_of(table.shape)));
    const ElemType elem = call.elem(call.value(2));
    const ValueId indices = call.value(1);
    const auto axis = static_cast<int64_t>(from);
    const auto rows_of = [&](ValueId x) { return gathered(call, x, indices, axis); };
    ValueId x = call.emit("cast", {rows_of(table.steps)}, {}, ElemType::f32);
    const Sizes whole = call.sizes(x);
    const size_t at = along < from ? along : along + whole.size() - table.shape.size();
    // [.., blocks, size, ..] beside [.., blocks, 1, ..]
    Sizes pads(2 * whole.size(), 0), apart = whole;
    pads[at + whole.size()] = blocks[along] * size - whole[at];
    apart[at] = blocks[along];
    Sizes ones = apart;
    apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(at) + 1, size);
    ones.insert(ones.begin() + static_cast<std::ptrdiff_t>(at) + 1, 1);
    x = call.reshape(call.pad(x, pads, 0), apart);
    if (const auto zeros = table_zeros(call, table, blocks, bits)) {
        const bool one = call.sizes(*zeros).empty();
        x = call.binary("sub", x, one ? *zeros : call.reshape(rows_of(*zeros), ones));
    }
    x = call.binary("mul", x, call.cast(call.reshape(rows_of(call.value(2)), ones), ElemType::f32));
    Sizes padded = whole;
    padded[at] = blocks[along] * size;
    x = call.reshape(x, padded);
    if (padded != whole) x = call.slice(x, static_cast<int64_t>(at), 0, whole[at]);
    call.result(0, call.cast(x, elem), call.type(2));
}

}  // namespace

void add_block_quantized(Operators& t) {
    t.push_back({"MatMulNBits", matmul_nbits, 1, 999, "com.microsoft"});
    t.push_back({"GatherBlockQuantized", gather_block_quantized, 1, 999, "com.microsoft"});
}

}  // namespace kpu::onnx
