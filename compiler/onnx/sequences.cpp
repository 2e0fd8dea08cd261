// Sequences and optionals: lists of operands that import keeps; the graph has none of them.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/onnx/operators.hpp"

namespace kpu::onnx {
namespace {

using Items = std::vector<Operand>;

void give(Call& call, Items items) {
    Operand result;
    result.type = items.empty() ? Type::f32 : items[0].type;
    result.items = std::make_shared<const Items>(std::move(items));
    call.result(0, std::move(result));
}

/// Returns the position from the front; one more than there are items where another one is put in.
size_t position(Call& call, size_t operand, int64_t count) {
    const int64_t given = call.integer_of(operand, "position");
    if (given < -count || given >= count)
        Call::refuse(fmt::format("position {} is outside the sequence of {}", given, count));
    return static_cast<size_t>(given < 0 ? given + count : given);
}

void construct(Call& call) {
    Items items;
    for (size_t i = 0; i < call.inputs(); ++i) items.push_back(call.in(i));
    give(call, std::move(items));
}

void empty(Call& call) { give(call, {}); }

void insert(Call& call) {
    Items items = call.sequence(0);
    const auto count = static_cast<int64_t>(items.size());
    const size_t at = call.has(2) ? position(call, 2, count + 1) : items.size();
    items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), call.in(1));
    give(call, std::move(items));
}

void erase(Call& call) {
    Items items = call.sequence(0);
    const auto count = static_cast<int64_t>(items.size());
    if (count == 0) Call::refuse("its sequence is empty");
    const size_t at = call.has(1) ? position(call, 1, count) : items.size() - 1;
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
    give(call, std::move(items));
}

void item(Call& call) {
    const Items& items = call.sequence(0);
    call.result(0, items[position(call, 1, static_cast<int64_t>(items.size()))]);
}

void length(Call& call) {
    call.result(0, scalar_known(Type::i64, static_cast<double>(call.sequence(0).size())));
}

/// Sizes along the axis: those given, equal ones, or 1 each.
Sizes parts_of(Call& call, int64_t extent, bool& keep) {
    constexpr int64_t most = 65536;
    int64_t each = 1;
    keep = keep || call.has(1);
    if (call.has(1)) {
        const Sizes sizes = call.ints_of(1, "sizes");
        if (!call.shape(1).empty()) return sizes;
        each = sizes[0];
        if (each < 1) Call::refuse(fmt::format("a size of {} is not taken", each));
    }
    if (extent / each > most) Call::refuse(fmt::format("more than {} parts are not taken", most));
    Sizes result(static_cast<size_t>(extent / each), each);
    if (extent % each != 0) result.push_back(extent % each);
    return result;
}

void split(Call& call) {
    const size_t axis = call.axis("axis", 0, call.rank(0));
    bool keep = call.integer("keepdims", 1) != 0;
    const int64_t extent = call.shape(0)[axis];
    const Sizes sizes = parts_of(call, extent, keep);
    Items items;
    int64_t first = 0;
    for (const int64_t size : sizes) {
        if (size < 1 || size > extent - first) break;
        const ValueId part = call.slice(call.value(0), static_cast<int64_t>(axis), first, first + size);
        Sizes shape = call.sizes(part);
        if (!keep) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
        items.push_back(call.operand(call.reshape(part, shape), call.type(0)));
        first += size;
    }
    if (first != extent || items.size() != sizes.size())
        Call::refuse(fmt::format("sizes {} do not sum to {}", text_of(sizes), extent));
    give(call, std::move(items));
}

void join(Call& call) {
    Items items = call.sequence(0);
    if (items.empty()) Call::refuse("its sequence is empty");
    const bool added = call.integer("new_axis", 0) != 0;
    const auto rank = static_cast<int64_t>(items[0].shape.size()) + (added ? 1 : 0);
    const size_t axis = call.axis("axis", 0, rank);
    for (const Operand& operand : items) {
        if (static_cast<int64_t>(operand.shape.size()) + (added ? 1 : 0) != rank)
            Call::refuse("its tensors have different numbers of dimensions");
    }
    call.result(0, call.join(items, call.node.inputs[0], axis, added), items[0].type);
}

// ---- optionals: what is there is the operand itself

void optional(Call& call) {
    if (!call.has(0)) Call::refuse("an optional that is absent is not taken");
    call.result(0, call.given(0));
}

void has_element(Call& call) {
    Known there{Type::boolean, {}, {call.has(0) ? 1 : 0}, {}};
    call.result(0, std::move(there));
}

}  // namespace

void add_sequences(Operators& t) {
    t.push_back({"SequenceConstruct", construct, 11});
    t.push_back({"SequenceEmpty", empty, 11});
    t.push_back({"SequenceInsert", insert, 11});
    t.push_back({"SequenceErase", erase, 11});
    t.push_back({"SequenceAt", item, 11});
    t.push_back({"SequenceLength", length, 11});
    t.push_back({"SplitToSequence", split, 11});
    t.push_back({"ConcatFromSequence", join, 11});
    t.push_back({"Optional", optional, 15});
    t.push_back({"OptionalGetElement", optional, 15});
    t.push_back({"OptionalHasElement", has_element, 15});
}

}  // namespace kpu::onnx
