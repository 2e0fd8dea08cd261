// Weights and tables of com.microsoft whose numbers of 2, 4 or 8 bits have a scale for each block: MatMulNBits and
// GatherBlockQuantized.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/graph/data.hpp"
#include "compiler/onnx/moves/indexing.hpp"
#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/products.hpp"
#include "compiler/onnx/quantized/packed_numbers.hpp"
#include "compiler/onnx/quantized/quantized.hpp"

namespace kpu::onnx {
namespace {

/// Returns, from g_idx, the block of each of the k rows; empty where those are the blocks in order.
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

struct NBits {
    int64_t k = 0, n = 0, size = 0, bits = 4;
    int64_t blocks = 0, lower = 8;
};

NBits nbits_of(const Call& call) {
    NBits of{call.integer("K", 0), call.integer("N", 0), call.integer("block_size", 0),
             call.integer("bits", 4)};
    if (of.bits != 2 && of.bits != 4 && of.bits != 8)
        Call::refuse(fmt::format("its weights have {} bits", of.bits));
    constexpr int64_t most = int64_t{1} << 31;  // so that no product of two of them overflows
    if (of.k < 1 || of.n < 1 || of.size < 16 || of.size % 4 != 0 || of.k > most || of.n > most ||
        of.size > most)
        Call::refuse(fmt::format("K is {}, N {}, block_size {}", of.k, of.n, of.size));
    of.blocks = (of.k + of.size - 1) / of.size;
    of.lower = int64_t{1} << (of.bits - 1);
    return of;
}

/// Returns the steps [K, N], less `lower`.
graph::Data steps_of(const NBits& of, const PackedNumbers& packed) {
    constexpr int64_t side = 64;  // squares that stay in the cache
    const graph::NewData made = graph::new_data(static_cast<uint64_t>(of.k * of.n));
    const int64_t row_bytes = of.blocks * of.size * of.bits / 8;
    for (int64_t first = 0; first < of.n; first += side) {
        for (int64_t i = 0; i < of.k; ++i) {
            for (int64_t row = first; row < std::min(first + side, of.n); ++row)
                made.bytes[i * of.n + row] = static_cast<uint8_t>(packed.at(row * row_bytes, i) - of.lower);
        }
    }
    return made.data;
}

/// Returns the zero points [blocks, N], less `lower`; packed, or floats.
std::vector<double> zeros_of(Call& call, const NBits& of) {
    std::vector<double> zeros(static_cast<size_t>(of.blocks * of.n), 0);
    if (!call.has(3)) return zeros;
    const Known& given = call.known(3, "zero points");
    const int64_t stored = given.real() ? of.blocks : (of.blocks * of.bits + 7) / 8;
    if (static_cast<int64_t>(given.size()) != of.n * stored)
        Call::refuse(fmt::format("{} zero points do not fit", given.size()));
    std::optional<PackedNumbers> packed;
    if (!given.real()) packed.emplace(call, 3, "zero points", of.bits);
    for (int64_t block = 0; block < of.blocks; ++block) {
        for (int64_t row = 0; row < of.n; ++row) {
            const double zero = packed ? static_cast<double>(packed->at(row * stored, block))
                                       : given.reals[static_cast<size_t>(row * stored + block)];
            zeros[static_cast<size_t>(block * of.n + row)] = zero - static_cast<double>(of.lower);
        }
    }
    return zeros;
}

/// Returns (step - zero point) * scale.
graph::Data floats_of(const NBits& of, const graph::Data& steps, const Known& scales,
                      const std::vector<double>& zeros, const Sizes& groups, ElemType elem) {
    const auto columns = static_cast<size_t>(of.n);
    const graph::NewData made =
        graph::new_data(graph::data_bytes(elem, static_cast<uint64_t>(of.k) * columns));
    std::vector<double> row(columns);
    for (int64_t i = 0; i < of.k; ++i) {
        const int64_t group = groups.empty() ? i / of.size : groups[static_cast<size_t>(i)];
        const auto from = static_cast<size_t>(i) * columns, of_group = static_cast<size_t>(group) * columns;
        for (size_t c = 0; c < columns; ++c)
            row[c] = (static_cast<int8_t>(steps.bytes[from + c]) - zeros[of_group + c]) *
                     scales.reals[of_group + c];
        const graph::Data rounded = graph::make_numbers(elem, row);
        std::copy(rounded.bytes, rounded.bytes + rounded.size,
                  made.bytes + static_cast<uint64_t>(i) * rounded.size);
    }
    return made.data;
}

/// Imports A times a matrix [N, K] in blocks along K, packed [N, blocks, bytes of a block]; A, B, scales,
/// zero points, g_idx, bias.
void matmul_nbits(Call& call) {
    const NBits of = nbits_of(call);
    if (!call.in(1).constant()) call.known(1, "weights");
    const PackedNumbers packed(call, 1, "weights", of.bits);
    const Known& given = call.known(2, "scales");
    if (static_cast<int64_t>(packed.bytes()) != of.n * of.blocks * (of.size * of.bits / 8) ||
        static_cast<int64_t>(given.size()) != of.n * of.blocks)
        Call::refuse(fmt::format("{} bytes of weights and {} scales do not fit [{},{}] in blocks of {}",
                                 packed.bytes(), given.size(), of.n, of.k, of.size));
    Known scales{given.type, {of.blocks, of.n}, {}, {}};
    for (int64_t block = 0; block < of.blocks; ++block) {
        for (int64_t row = 0; row < of.n; ++row)
            scales.reals.push_back(given.number(static_cast<size_t>(row * of.blocks + block)));
    }
    const std::vector<double> zeros = zeros_of(call, of);
    const Sizes groups = groups_of(call, of.k, of.size, of.blocks);
    const graph::Data steps = steps_of(of, packed);
    const ElemType elem = call.elem(call.value(0));
    const ValueId w = call.graph.add_constant(call.node.inputs[1], elem, graph::dims({of.k, of.n}),
                                              floats_of(of, steps, scales, zeros, groups, elem));
    if (groups.empty() && of.bits == 4)
        call.graph.value(w).blocks = blocks_of(steps, scales, zeros, 0, of.size);
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

/// Returns the type of a table: numbers of u4 have a byte each when they are read.
Type table_type(const Operand& data) { return data.tensor && data.tensor->nibbles ? Type::u4 : data.type; }

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
    const PackedNumbers numbers(call, 0, "data", bytes ? bits : 8);
    for (uint64_t i = 0; i < made.data.size; ++i)
        made.bytes[i] = static_cast<uint8_t>(numbers.at(0, static_cast<int64_t>(i)) - table.lower);
    table.steps =
        call.graph.add_constant(call.node.inputs[0], ElemType::i8, graph::dims(table.shape), made.data);
    return table;
}

/// Returns zero points, less what the table is lower; packed as it is.
std::optional<ValueId> table_zeros(Call& call, const BlockTable& table, const Sizes& blocks, int64_t bits) {
    const bool bytes = table_type(call.in(0)) == Type::u8;
    if (!call.has(3)) {
        if (bytes || table.lower == 0) return std::nullopt;
        return call.constant(scalar_known(Type::f64, static_cast<double>(-table.lower)), ElemType::f32);
    }
    const int64_t each = bytes ? 8 / bits : 1, row = blocks.back(), stored = (row + each - 1) / each;
    const PackedNumbers packed(call, 3, "zero points", bytes ? bits : 8);
    Known zeros{Type::f64, blocks, {}, {}};
    if (static_cast<int64_t>(packed.bytes()) != elements_of(blocks) / row * stored)
        Call::refuse(
            fmt::format("zero points {} do not fit to scales {}", text_of(call.shape(3)), text_of(blocks)));
    for (int64_t i = 0; i < elements_of(blocks); ++i) {
        const int64_t zero = packed.at(i / row * stored, i % row);
        zeros.reals.push_back(static_cast<double>((bytes ? zero : static_cast<int8_t>(zero)) - table.lower));
    }
    return call.constant(zeros, ElemType::f32);
}

/// Gathers rows of the table, then (number - zero point) * scale of those alone: the table stays one byte a
/// number.
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
