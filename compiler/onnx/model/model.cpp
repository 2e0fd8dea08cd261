#include "compiler/onnx/model/model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace kpu::onnx {
namespace {

struct TypeRow {
    std::string_view name;
    ElemType elem = ElemType::none;
    uint8_t bytes = 0;
    uint8_t packed = 0;  ///< bits, where files have several elements in a byte
};

/// Rows of types, indexed by the number of the type.
constexpr std::array<TypeRow, 27> types{{
    {"undefined"},
    {"float", ElemType::f32, 4},
    {"uint8", ElemType::u8, 1},
    {"int8", ElemType::i8, 1},
    {"uint16", ElemType::u16, 2},
    {"int16", ElemType::i16, 2},
    {"int32", ElemType::i32, 4},
    {"int64", ElemType::i32, 8},
    {"string"},
    {"bool", ElemType::u8, 1},
    {"float16", ElemType::f16, 2},
    {"double", ElemType::f32, 8},
    {"uint32", ElemType::u32, 4},
    {"uint64", ElemType::i32, 8},
    {"complex64"},
    {"complex128"},
    {"bfloat16", ElemType::bf16, 2},
    {"float8e4m3fn", ElemType::f8e4m3, 1},
    {"float8e4m3fnuz"},
    {"float8e5m2", ElemType::f8e5m2, 1},
    {"float8e5m2fnuz"},
    {"uint4", ElemType::u8, 1, 4},
    {"int4", ElemType::i4, 1, 4},
    {"float4e2m1", ElemType::f4e2m1, 1, 4},
    {"float8e8m0", ElemType::u8, 1},
    {"uint2", ElemType::u8, 1, 2},
    {"int2", ElemType::i8, 1, 2},
}};

const TypeRow& row(Type type) {
    static constexpr TypeRow unknown{""};
    const auto number = static_cast<size_t>(type);
    return number < types.size() ? types[number] : unknown;
}

}  // namespace

std::string name_of(Type type) {
    const std::string_view name = row(type).name;
    return name.empty() ? fmt::format("type {}", static_cast<int>(type)) : std::string(name);
}

ElemType elem_of(Type type) { return row(type).elem; }

uint64_t element_bytes(Type type) { return row(type).bytes; }

int packed_bits(Type type) { return row(type).packed; }

bool is_real(Type type) {
    return type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f64 ||
           type == Type::f8e8m0 || is_small_float(elem_of(type));
}

std::string text_of(const Sizes& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

uint64_t Tensor::elements() const {
    uint64_t result = 1;
    for (const int64_t size : shape) result *= static_cast<uint64_t>(size);
    return result;
}

const Attribute* NodeModel::find(std::string_view attribute) const {
    for (const Attribute& candidate : attributes) {
        if (candidate.name == attribute) return &candidate;
    }
    return nullptr;
}

std::string NodeModel::full_type() const { return domain.empty() ? type : domain + "." + type; }

std::string domain_of(const std::string& written) { return written == "ai.onnx" ? "" : written; }

}  // namespace kpu::onnx
