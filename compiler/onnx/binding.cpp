#include "compiler/onnx/binding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/diagnostics.hpp"
#include "base/json.hpp"
#include "base/npy.hpp"

namespace kpu::onnx {
namespace {

using nlohmann::json;

std::string_view dtype_of(Type type) {
    switch (type) {
        case Type::boolean:
            return "|b1";
        case Type::i64:
            return "<i8";
        case Type::u64:
            return "<u8";
        case Type::f64:
            return "<f8";
        default:
            return npy_dtype(elem_of(type));
    }
}

Operand operand_of_file(const ValueInfo& input, const std::string& path) {
    const NpyArray array = read_npy(path);
    if (array.dtype != dtype_of(input.type))
        throw Unsupported(
            fmt::format("the file holds `{}`, which is not {}", array.dtype, name_of(input.type)));
    auto tensor = std::make_shared<Tensor>();
    tensor->name = input.name;
    tensor->type = input.type;
    tensor->shape = array.shape;
    tensor->data = graph::make_data({array.data.begin(), array.data.end()});
    Operand operand;
    operand.type = tensor->type;
    operand.shape = tensor->shape;
    operand.tensor = std::move(tensor);
    return operand;
}

/// Throws Unsupported when the type does not have this number.
int64_t whole_number(Type type, const json& number) {
    const bool truth = type == Type::boolean;
    if (truth && number.is_boolean()) return number.get<bool>() ? 1 : 0;
    if (!number.is_number_integer())
        throw Unsupported(fmt::format("{} is not {}", json_text(number), name_of(type)));
    const auto value = number.get<int64_t>();  // above its range: negative
    const bool beyond = number.is_number_unsigned() && value < 0;
    const bool below = type == Type::u64 && value < 0;
    const bool narrow = type == Type::i4 && (value < -8 || value > 7);
    if (beyond || below || narrow || (truth && (value < 0 || value > 1)) || wrapped(type, value) != value)
        throw Unsupported(fmt::format("{} does not hold {}", name_of(type), json_text(number)));
    return value;
}

void add_elements(Known& known, const json& list, size_t depth) {
    if (depth < known.shape.size()) {
        if (!list.is_array() || static_cast<int64_t>(list.size()) != known.shape[depth])
            throw Unsupported("its lists are not all of one length");
        for (const json& item : list) add_elements(known, item, depth + 1);
        return;
    }
    if (!known.real()) {
        known.ints.push_back(whole_number(known.type, list));
    } else if (list.is_number()) {
        known.reals.push_back(rounded(known.type, list.get<double>()));
    } else {
        throw Unsupported(fmt::format("{} is not {}", json_text(list), name_of(known.type)));
    }
}

Operand operand_of_text(Type type, const std::string& text) {
    json document;
    try {
        document = parse_json(text);
    } catch (const UserError&) {
        throw Unsupported("that is not a number, true, false, list of them, or .npy file");
    }
    Known known{type, {}, {}, {}};
    for (const json* list = &document; list->is_array(); list = &list->front()) {
        known.shape.push_back(static_cast<int64_t>(list->size()));
        if (list->empty()) break;
    }
    add_elements(known, document, 0);
    return operand_of(std::move(known));
}

bool fits(const Sizes& shape, const Sizes& wanted) {
    return shape.size() == wanted.size() &&
           std::equal(shape.begin(), shape.end(), wanted.begin(),
                      [](int64_t size, int64_t of_input) { return of_input < 0 || size == of_input; });
}

}  // namespace

std::optional<int64_t> decimal(std::string_view text) {
    int32_t number = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool all = failed == std::errc() && end == text.data() + text.size() && number >= 0;
    return all ? std::optional<int64_t>(number) : std::nullopt;
}

std::optional<std::pair<graph::Follows, int64_t>> following(const std::string& value) {
    constexpr std::string_view begin = "upto(", name = "position";
    std::string_view rest = value;
    const bool up_to = rest.substr(0, begin.size()) == begin && rest.back() == ')';
    if (up_to) rest = rest.substr(begin.size(), rest.size() - begin.size() - 1);
    if (rest.substr(0, name.size()) != name) return std::nullopt;
    rest.remove_prefix(name.size());
    int64_t plus = 0;
    if (!rest.empty()) {
        if (rest[0] != '+' && rest[0] != '-') return std::nullopt;
        const std::optional<int64_t> number = decimal(rest.substr(1));
        if (!number) return std::nullopt;
        plus = rest[0] == '-' ? -*number : *number;
    }
    return std::pair(up_to ? graph::Follows::up_to : graph::Follows::position, plus);
}

Operand bound_operand(const ValueInfo& input, const std::optional<Sizes>& shape, const std::string& value) {
    const bool wide = input.type == Type::f64 || input.type == Type::u64;
    if (elem_of(input.type) == ElemType::none && !wide)
        throw Unsupported(fmt::format("inputs of {} are not taken", name_of(input.type)));
    constexpr std::string_view end = ".npy";
    const bool file =
        value.size() > end.size() && value.compare(value.size() - end.size(), end.size(), end) == 0;
    Operand operand = file ? operand_of_file(input, value) : operand_of_text(input.type, value);
    if (!shape || fits(operand.shape, *shape)) return operand;
    const bool single =
        std::all_of(shape->begin(), shape->end(), [](int64_t size) { return size == 1 || size < 0; });
    if (!operand.shape.empty() || !single)
        throw Unsupported(fmt::format("its shape is {}", text_of(operand.shape)));
    // one number is all that there is to say of an input of one element
    const Known number = operand.known ? *operand.known : known_of(*operand.tensor);
    return operand_of({number.type, Sizes(shape->size(), 1), number.ints, number.reals});
}

}  // namespace kpu::onnx
