// Operators whose results are constants: of attributes, of shapes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/onnx/operators.hpp"

namespace kpu::onnx {
namespace {

constexpr int64_t most_made = int64_t{1} << 24;
/// Limit of a constant of one number: weights of models that are small files.
constexpr int64_t most_filled_bytes = int64_t{1} << 29;

void check_count(double count, int64_t limit) {
    if (!(count <= static_cast<double>(limit)))
        Call::refuse(fmt::format("its {} elements are more than {}", count, limit));
}

void check_shape(const Sizes& shape, int64_t limit) {
    double count = 1;
    for (const int64_t size : shape) {
        if (size < 0) Call::refuse(fmt::format("{} is not a shape", text_of(shape)));
        count *= static_cast<double>(size);
    }
    check_count(count, limit);
}

void constant(Call& call) {
    const NodeModel& node = call.node;
    if (const Attribute* value = node.find("value"); value != nullptr && value->tensor != nullptr) {
        if (!value->tensor->data)
            Call::refuse(fmt::format("tensors of {} are not taken", name_of(value->tensor->type)));
        Operand operand;
        operand.type = value->tensor->type;
        operand.shape = value->tensor->shape;
        operand.tensor = value->tensor;
        return call.result(0, std::move(operand));
    }
    if (const Attribute* one = node.find("value_float"))
        return call.result(0, scalar_known(Type::f32, one->real));
    if (const Attribute* one = node.find("value_int"))
        return call.result(0, Known{Type::i64, {}, {one->integer}, {}});
    if (const Attribute* list = node.find("value_ints")) return call.result(0, ints_known(list->ints));
    if (const Attribute* list = node.find("value_floats"))
        return call.result(0, Known{Type::f32, {static_cast<int64_t>(list->reals.size())}, {}, list->reals});
    Call::refuse("its value is not a dense tensor of numbers");
}

/// Returns the bytes of the element, again and again.
graph::Data repeated(const graph::Data& element, size_t count) {
    std::vector<uint8_t> bytes(count * element.size);
    for (size_t have = 0; have < bytes.size();) {
        const size_t next = have == 0 ? element.size : std::min(have, bytes.size() - have);
        std::memcpy(bytes.data() + have, have == 0 ? element.bytes : bytes.data(), next);
        have += next;
    }
    return graph::make_data(std::move(bytes));
}

void constant_of_shape(Call& call) {
    const Attribute* value = call.node.find("value");
    auto filled = std::make_shared<Tensor>();
    if (value != nullptr && value->tensor != nullptr) {
        *filled = *value->tensor;
    } else {
        filled->type = Type::f32;
        filled->data = graph::make_data(std::vector<uint8_t>(sizeof(float)));
    }
    if (filled->elements() != 1) Call::refuse("its value is not one number");
    if (!filled->data || filled->data.size != element_bytes(filled->type))
        Call::refuse(fmt::format("tensors of {} are not taken", name_of(filled->type)));
    filled->shape = call.ints_of(0, "sizes");
    check_shape(filled->shape, most_filled_bytes / static_cast<int64_t>(filled->data.size));
    const auto count = static_cast<size_t>(elements_of(filled->shape));
    if (count == 0) return call.result(0, Known{filled->type, filled->shape, {}, {}});
    call.add_made(count * filled->data.size);
    filled->data = repeated(filled->data, count);
    Operand operand;
    operand.type = filled->type;
    operand.shape = filled->shape;
    operand.tensor = std::move(filled);
    call.result(0, std::move(operand));
}

void shape(Call& call) {
    const Sizes& whole = call.shape(0);
    const auto rank = static_cast<int64_t>(whole.size());
    const auto bound = [rank](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const int64_t start = call.opset >= 15 ? bound(call.integer("start", 0)) : 0;
    const int64_t end = call.opset >= 15 ? bound(call.integer("end", rank)) : rank;
    call.result(0, ints_known(Sizes(whole.begin() + start, whole.begin() + std::max(start, end))));
}

void size(Call& call) { call.result(0, Known{Type::i64, {}, {elements_of(call.shape(0))}, {}}); }

/// Sums integers; overflow wraps, as integers of ONNX do.
int64_t sum_of(int64_t start, int64_t times, int64_t delta) {
    return static_cast<int64_t>(static_cast<uint64_t>(start) +
                                static_cast<uint64_t>(times) * static_cast<uint64_t>(delta));
}

/// Fills start, start + delta, ... below limit.
void range(Call& call) {
    const Known &start = call.known(0, "start"), &limit = call.known(1, "limit"),
                &delta = call.known(2, "delta");
    if (start.type != limit.type || start.type != delta.type)
        Call::refuse("start, limit and delta have different types");
    if (start.size() != 1 || limit.size() != 1 || delta.size() != 1 || delta.number(0) == 0)
        Call::refuse("start, limit and delta are not three numbers");
    const double count = std::max(0.0, std::ceil((limit.number(0) - start.number(0)) / delta.number(0)));
    check_count(count, most_made);
    Known result{start.type, {static_cast<int64_t>(count)}, {}, {}};
    for (int64_t i = 0; i < result.shape[0]; ++i) {
        if (result.real()) {
            result.reals.push_back(
                rounded(result.type, start.reals[0] + static_cast<double>(i) * delta.reals[0]));
        } else {
            result.ints.push_back(wrapped(result.type, sum_of(start.ints[0], i, delta.ints[0])));
        }
    }
    call.result(0, std::move(result));
}

void eye_like(Call& call) {
    if (call.rank(0) != 2) Call::refuse("its operand is not a matrix");
    const auto type = static_cast<Type>(call.integer("dtype", static_cast<int64_t>(call.type(0))));
    const int64_t rows = call.shape(0)[0], columns = call.shape(0)[1], k = call.integer("k", 0);
    check_shape(call.shape(0), most_made);
    Known result{type, {rows, columns}, {}, {}};
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
            const int one = c - r == k ? 1 : 0;
            if (result.real()) {
                result.reals.push_back(one);
            } else {
                result.ints.push_back(one);
            }
        }
    }
    call.result(0, std::move(result));
}

}  // namespace

void add_constants(Operators& t) {
    t.push_back({"Constant", constant});
    t.push_back({"ConstantOfShape", constant_of_shape, 9});
    t.push_back({"Shape", shape});
    t.push_back({"Size", size});
    t.push_back({"Range", range, 11});
    t.push_back({"EyeLike", eye_like, 9});
}

}  // namespace kpu::onnx
