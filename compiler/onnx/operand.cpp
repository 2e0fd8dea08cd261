#include "compiler/onnx/operand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/checked.hpp"
#include "compiler/onnx/quantized/e8m0.hpp"
#include "values/convert.hpp"
#include "values/scalar.hpp"
#include "values/small_float.hpp"

namespace kpu::onnx {
namespace {

template <class T>
T element(const Tensor& tensor, uint64_t i) {
    T value;
    std::memcpy(&value, tensor.data.bytes + i * sizeof value, sizeof value);
    return value;
}

int64_t integer_element(const Tensor& tensor, uint64_t i) {
    switch (tensor.type) {
        case Type::u8:
        case Type::u4:
        case Type::u2:
        case Type::boolean:
            return element<uint8_t>(tensor, i);
        case Type::i8:
        case Type::i4:
        case Type::i2:
            return element<int8_t>(tensor, i);
        case Type::u16:
            return element<uint16_t>(tensor, i);
        case Type::i16:
            return element<int16_t>(tensor, i);
        case Type::u32:
            return element<uint32_t>(tensor, i);
        case Type::i32:
            return element<int32_t>(tensor, i);
        default:
            return element<int64_t>(tensor, i);
    }
}

double real_element(const Tensor& tensor, uint64_t i) {
    switch (tensor.type) {
        case Type::f16:
            return static_cast<double>(values::f32_of_f16(element<uint16_t>(tensor, i)));
        case Type::bf16:
            return static_cast<double>(values::f32_of_bf16(element<uint16_t>(tensor, i)));
        case Type::f8e4m3fn:
        case Type::f8e5m2:
        case Type::f4e2m1:
            return values::load_real(elem_of(tensor.type), tensor.data.bytes, static_cast<int64_t>(i));
        case Type::f8e8m0:
            return number_of_e8m0(element<uint8_t>(tensor, i));
        case Type::f32:
            return static_cast<double>(element<float>(tensor, i));
        default:
            return element<double>(tensor, i);
    }
}

template <class T>
void put(std::vector<uint8_t>& bytes, T value) {
    const size_t at = bytes.size();
    bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

void put_real(std::vector<uint8_t>& bytes, ElemType elem, double value) {
    if (elem == ElemType::f16) return put(bytes, values::f16_of(value));
    if (elem == ElemType::bf16) return put(bytes, values::bf16_of(value));
    if (is_small_float(elem))
        return put(bytes, values::small_float_of(value, values::small_float_format(elem)));
    put(bytes, values::f32_of(value));
}

template <typename T>
std::vector<uint8_t> low_bytes(const std::vector<int64_t>& values) {
    std::vector<uint8_t> bytes(values.size() * sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) {
        const auto value = static_cast<T>(values[i]);
        std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
    return bytes;
}

/// Checks for what the 64 bits of the host hold and the device's 32 do not.
void check_narrow(const Known& known) {
    if (known.type != Type::i64 && known.type != Type::u64) return;
    const bool is_signed = known.type == Type::i64;
    for (const int64_t value : known.ints) {
        if (value >= (is_signed ? INT32_MIN : 0) && value <= INT32_MAX) continue;
        const std::string text =
            is_signed ? fmt::format("{}", value) : fmt::format("{}", static_cast<uint64_t>(value));
        throw Unsupported(
            fmt::format("the {} constant {} does not fit into int32", name_of(known.type), text));
    }
}

std::vector<uint8_t> bytes_of(const std::vector<int64_t>& values, ElemType elem) {
    const int bits = std::max(8, bit_width(elem));
    return bits == 8    ? low_bytes<uint8_t>(values)
           : bits == 16 ? low_bytes<uint16_t>(values)
                        : low_bytes<uint32_t>(values);
}

int64_t whole(double value) {
    if (!(std::fabs(value) < 9e15) || value != std::floor(value))
        throw Unsupported(fmt::format("{} is not an integer", value));
    return static_cast<int64_t>(value);
}

}  // namespace

int64_t elements_of(const Sizes& shape) {
    int64_t result = 1;
    for (const int64_t size : shape) {
        const auto product = checked_mul(result, size);
        if (!product) throw Unsupported(fmt::format("a tensor {} is too large", text_of(shape)));
        result = *product;
    }
    return result;
}

Known known_of(const Tensor& tensor) {
    if (element_bytes(tensor.type) == 0)
        throw Unsupported(fmt::format("tensors of {} are not taken", name_of(tensor.type)));
    Known known{tensor.type, tensor.shape, {}, {}};
    const uint64_t count = tensor.elements();
    if (known.real()) {
        for (uint64_t i = 0; i < count; ++i) known.reals.push_back(real_element(tensor, i));
    } else {
        for (uint64_t i = 0; i < count; ++i) known.ints.push_back(integer_element(tensor, i));
    }
    return known;
}

double number_of(const Operand& constant, uint64_t i) {
    if (constant.known != nullptr) return constant.known->number(i);
    const Tensor& tensor = *constant.tensor;
    return is_real(tensor.type) ? real_element(tensor, i) : static_cast<double>(integer_element(tensor, i));
}

Operand operand_of(Known known) {
    Operand operand;
    operand.type = known.type;
    operand.shape = known.shape;
    operand.known = std::make_shared<const Known>(std::move(known));
    return operand;
}

Known ints_known(Sizes values) {
    const auto count = static_cast<int64_t>(values.size());
    return {Type::i64, {count}, std::move(values), {}};
}

Known scalar_known(Type type, double value) {
    Known known{type, {}, {}, {}};
    if (known.real()) {
        known.reals.push_back(value);
    } else {
        known.ints.push_back(whole(value));
    }
    return known;
}

graph::Data data_of(const Known& known, ElemType elem) {
    if (!is_float(elem) && !known.real()) {
        if (elem == ElemType::i32) check_narrow(known);
        return graph::make_data(bytes_of(known.ints, elem));
    }
    if (known.type == Type::f8e8m0) {
        std::vector<uint8_t> codes;
        for (const double value : known.reals) codes.push_back(e8m0_of_power(value));
        return graph::make_data(std::move(codes));
    }
    if (!is_float(elem)) {
        std::vector<int64_t> wholes;
        for (const double value : known.reals) wholes.push_back(whole(value));
        return graph::make_data(bytes_of(wholes, elem));
    }
    std::vector<uint8_t> bytes;
    bytes.reserve(known.size() * 4);
    for (size_t i = 0; i < known.size(); ++i) put_real(bytes, elem, known.number(i));
    return graph::make_data(std::move(bytes));
}

double rounded(Type type, double value) {
    switch (type) {
        case Type::f16:
            return static_cast<double>(values::f32_of_f16(values::f16_of(value)));
        case Type::bf16:
            return static_cast<double>(values::f32_of_bf16(values::bf16_of(value)));
        case Type::f32:
            return static_cast<double>(values::f32_of(value));
        case Type::f8e4m3fn:
        case Type::f8e5m2:
        case Type::f4e2m1:
            return small_float_of_type(type, value, true);
        case Type::f8e8m0:
            return number_of_e8m0(e8m0_of(value));
        default:
            return value;
    }
}

double small_float_of_type(Type type, double value, bool saturates) {
    const values::SmallFloat& format = values::small_float_format(elem_of(type));
    const std::array<float, 256>& numbers = values::small_float_numbers(elem_of(type));
    const auto greatest = static_cast<double>(numbers[format.greatest]);
    if (saturates && !std::isnan(value)) value = std::clamp(value, -greatest, greatest);
    return static_cast<double>(numbers[values::small_float_of(value, format)]);
}

int64_t wrapped(Type type, int64_t value) {
    switch (type) {
        case Type::boolean:
            return value != 0 ? 1 : 0;
        case Type::u8:
            return static_cast<uint8_t>(value);
        case Type::i8:
            return static_cast<int8_t>(value);
        case Type::u16:
            return static_cast<uint16_t>(value);
        case Type::i16:
            return static_cast<int16_t>(value);
        case Type::u32:
            return static_cast<uint32_t>(value);
        case Type::i32:
            return static_cast<int32_t>(value);
        case Type::u4:
        case Type::u2:
            return value & ((int64_t{1} << packed_bits(type)) - 1);
        case Type::i4:
        case Type::i2: {
            const int64_t sign = int64_t{1} << (packed_bits(type) - 1);
            return ((value & (2 * sign - 1)) ^ sign) - sign;
        }
        default:
            return value;
    }
}

}  // namespace kpu::onnx
