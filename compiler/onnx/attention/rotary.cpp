// Rotary embeddings: of ONNX, and of com.microsoft, whose operands have another order.
#include <fmt/format.h>

#include "compiler/onnx/attention/attention.hpp"
#include "compiler/onnx/moves/indexing.hpp"
#include "compiler/onnx/operators.hpp"

namespace kpu::onnx {

ValueId angles(Call& call, ValueId table, std::optional<ValueId> positions) {
    if (positions) table = gathered(call, table, *positions, 0);
    const Sizes s = call.sizes(table);
    if (s.size() != 3) Call::refuse(fmt::format("its angles {} do not fit", text_of(s)));
    return call.reshape(table, {s[0], s[1], 1, s[2]});
}

ValueId rotated(Call& call, ValueId x, ValueId cosine, ValueId sine, bool interleaved) {
    const Sizes s = call.sizes(x), of_angles = call.sizes(cosine);
    const int64_t half = of_angles.back(), turns = 2 * half;
    if (call.sizes(sine) != of_angles || turns > s[3] || of_angles[1] != s[1])
        Call::refuse(fmt::format("its angles {} do not fit to {}", text_of(of_angles), text_of(s)));
    const ValueId turned = turns == s[3] ? x : call.slice(x, 3, 0, turns);
    const ValueId a = interleaved ? call.slice(turned, 3, 0, turns, 2) : call.slice(turned, 3, 0, half);
    const ValueId b = interleaved ? call.slice(turned, 3, 1, turns, 2) : call.slice(turned, 3, half, turns);
    const ValueId real = call.binary("sub", call.binary("mul", cosine, a), call.binary("mul", sine, b));
    const ValueId imaginary = call.binary("add", call.binary("mul", sine, a), call.binary("mul", cosine, b));
    ValueId y;
    if (interleaved) {
        const Sizes pair{s[0], s[1], s[2], half, 1};
        y = call.reshape(call.concat({call.reshape(real, pair), call.reshape(imaginary, pair)}, 4),
                         {s[0], s[1], s[2], turns});
    } else {
        y = call.concat({real, imaginary}, 3);
    }
    return turns < s[3] ? call.concat({y, call.slice(x, 3, turns, s[3])}, 3) : y;
}

namespace {

/// Embeds the operand as [B, S, heads, size], turned, in its own order again. `size`: of a head that no
/// attribute tells.
void embed(Call& call, ValueId cosine, ValueId sine, int64_t size) {
    const Sizes shape = call.shape(0);
    const bool flat = shape.size() == 3;
    if (!flat && shape.size() != 4) Call::refuse("its operand has neither 3 nor 4 dimensions");
    const int64_t told = call.integer("num_heads", 0);
    const int64_t heads = !flat ? shape[1] : told == 0 && size > 0 ? shape[2] / size : told;
    if (heads < 1 || (flat && shape[2] % heads != 0)) Call::refuse("num_heads does not fit");
    ValueId x = call.value(0);
    x = flat ? call.reshape(x, {shape[0], shape[1], heads, shape[2] / heads})
             : call.transpose(x, {0, 2, 1, 3});
    const int64_t whole = call.sizes(x)[3], given = call.integer("rotary_embedding_dim", 0),
                  turns = given == 0 ? whole : given;
    if (turns != 2 * call.sizes(cosine)[3])
        Call::refuse(fmt::format("rotary_embedding_dim: {} elements of a head {} do not fit to {} angles",
                                 turns, whole, call.sizes(cosine)[3]));
    const ValueId y = rotated(call, x, cosine, sine, call.integer("interleaved", 0) != 0);
    call.result(flat ? call.reshape(y, shape) : call.transpose(y, {0, 2, 1, 3}));
}

/// Imports X, cosines, sines, position_ids.
void rotary(Call& call) {
    const std::optional<ValueId> positions = call.has(3) ? std::optional(call.value(3)) : std::nullopt;
    embed(call, angles(call, call.value(1), positions), angles(call, call.value(2), positions), 0);
}

/// Imports com.microsoft: X, position_ids, tables of cosines and sines. One position is that of the first
/// row.
void rotary_of_tables(Call& call) {
    if (call.integer("is_packed_batching", 0) != 0) Call::refuse("is_packed_batching is not taken");
    if (call.real("scale", 1) != 1) Call::refuse("a scale is not taken");
    const Sizes shape = call.shape(0);
    if (shape.size() != 3 && shape.size() != 4) Call::refuse("its operand has neither 3 nor 4 dimensions");
    const int64_t rows = shape[shape.size() - 2];
    ValueId positions = call.value(1);
    if (call.shape(1) == Sizes{1}) {
        positions =
            call.binary("add", call.reshape(positions, {1, 1}),
                        positions_constant(call, identity_perm(static_cast<size_t>(rows)), {1, rows}));
    } else if (call.shape(1) != Sizes{shape[0], rows}) {
        Call::refuse(fmt::format("position_ids {} are neither [1] nor [{},{}]", text_of(call.shape(1)),
                                 shape[0], rows));
    }
    if (call.rank(2) != 2 || call.shape(2) != call.shape(3)) Call::refuse("its tables of angles do not fit");
    embed(call, angles(call, call.value(2), positions), angles(call, call.value(3), positions),
          2 * call.shape(2)[1]);
}

}  // namespace

void add_rotary(Operators& t) {
    t.push_back({"RotaryEmbedding", rotary, 23});
    t.push_back({"RotaryEmbedding", rotary_of_tables, 1, 999, "com.microsoft"});
}

}  // namespace kpu::onnx
