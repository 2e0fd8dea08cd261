// Tensors without elements: what is made of them is known, so no node of a graph reads or makes one.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "compiler/onnx/call.hpp"
#include "values/scalar.hpp"

namespace kpu::onnx {
namespace {

/// Returns what a reduction of nothing gives, and a product along nothing; none: the opcode gives nothing for
/// nothing.
std::optional<double> value_of_nothing(std::string_view opcode, ElemType elem) {
    const bool real = is_float(elem);
    const values::IntegerRange range = real ? values::IntegerRange{0, 0} : values::range_of(elem);
    if (opcode == "reduce_sum" || opcode == "reduce_l2" || opcode == "gemm") return 0;
    if (opcode == "reduce_prod") return 1;
    if (opcode == "reduce_max") return real ? -INFINITY : static_cast<double>(range.low);
    if (opcode == "reduce_min") return real ? INFINITY : static_cast<double>(range.high);
    if (opcode == "reduce_mean" && real) return NAN;
    return std::nullopt;
}

}  // namespace

/// Returns the values of nodes that read or make tensors without elements: nothing is left to compute.
ValueId Call::without_elements(std::string_view opcode, const std::vector<Dims>& shapes, ElemType to,
                               const BoundAttrs& attrs) {
    std::optional<ValueId> first;
    for (const Dims& shape : shapes) {
        std::optional<double> value = shape.product() == 0 ? 0.0 : value_of_nothing(opcode, to);
        if (opcode == "pad" && attrs.word("mode", "constant") == "constant")
            value = attrs.real("constant_value", 0);
        if (!value) refuse(fmt::format("opcode {} of a tensor without elements is not taken", opcode));
        const Sizes sizes = sizes_of(shape);
        check_made(sizes);
        const std::vector<double> filled(static_cast<size_t>(elements_of(sizes)), *value);
        const ValueId made = constant(Known{Type::f64, sizes, {}, filled}, to);
        first = first.value_or(made);
    }
    return *first;
}

}  // namespace kpu::onnx
