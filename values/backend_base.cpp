#include "values/backend_base.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "isa/shapes.hpp"
#include "values/reference.hpp"

namespace kpu::values {
namespace {

bool counts_fit(const OpcodeSpec& spec, size_t inputs, size_t outputs) {
    const auto required = [](const OperandSpec& operand) { return !operand.optional; };
    const auto least = std::count_if(spec.inputs.begin(), spec.inputs.end(), required);
    if (inputs < static_cast<size_t>(least) || outputs < spec.outputs.size()) return false;
    return (spec.variadic_inputs || inputs <= spec.inputs.size()) &&
           (spec.variadic_outputs || outputs == spec.outputs.size());
}

bool types_supported(const OpcodeSpec& spec, const std::vector<ElemType>& in,
                     const std::vector<ElemType>& out) {
    return spec.types != nullptr && counts_fit(spec, in.size(), out.size()) && spec.types(spec, in, out);
}

void check_types(const Call& call) {
    std::vector<ElemType> in;
    std::vector<ElemType> out;
    in.reserve(call.inputs.size());
    out.reserve(call.outputs.size());
    for (const Tensor& tensor : call.inputs) in.push_back(tensor.type);
    for (const Tensor& tensor : call.outputs) out.push_back(tensor.type);
    if (types_supported(call.spec, in, out)) return;
    std::string text;
    for (const Tensor& tensor : call.inputs) text += describe(tensor) + " ";
    text += "->";
    for (const Tensor& tensor : call.outputs) text += " " + describe(tensor);
    throw UserError(fmt::format("{} does not take these operands: {}. Fix: use types of its families.",
                                call.spec.name, text));
}

/// Quantised operands are read as real numbers by all of these, so all or none must be quantised. Views copy
/// elements and must mean the same on both sides.
bool uniform_quant(const OpcodeSpec& spec) {
    return spec.op_class == OpcodeClass::elementwise || spec.op_class == OpcodeClass::pooling ||
           spec.op_class == OpcodeClass::view || spec.op_class == OpcodeClass::reduction;
}

/// Calls visit(role, tensor) for every operand.
template <class Visit>
void for_each_operand(const Call& call, Visit visit) {
    for (size_t i = 0; i < call.outputs.size(); ++i)
        visit(operand_spec(call.spec.outputs, i).role, call.outputs[i]);
    for (size_t i = 0; i < call.inputs.size(); ++i)
        visit(operand_spec(call.spec.inputs, i).role, call.inputs[i]);
}

/// Data operands are quantised all or none, and only integers; positions and conditions stand for themselves.
void check_quant(const Call& call) {
    const OpcodeSpec& spec = call.spec;
    const Tensor* first = nullptr;
    for_each_operand(call, [&](OperandRole role, const Tensor& tensor) {
        if (role == OperandRole::condition && has_quant(tensor)) {
            throw UserError(
                fmt::format("{}: a condition cannot be quantised. Fix: remove its quant.", spec.name));
        }
        if (role == OperandRole::integer && spec.op_class == OpcodeClass::elementwise && has_quant(tensor)) {
            throw UserError(
                fmt::format("{}: it works on bits, not on quantised numbers. Fix: remove quant.", spec.name));
        }
        if (role != OperandRole::data) return;
        if (first == nullptr) first = &tensor;
        if (has_quant(tensor) == has_quant(*first)) return;
        throw UserError(fmt::format(
            "{}: some operands are quantised and some are not. Fix: give every operand quant, or none.",
            spec.name));
    });
    if (first == nullptr) return;
    if (has_quant(*first) && !is_integer(first->type)) {
        throw UserError(fmt::format("{}: {} operands cannot be quantised. Fix: remove quant.", spec.name,
                                    name_of(first->type)));
    }
    if (spec.integers_need_quant && is_integer(first->type) && !has_quant(*first)) {
        throw UserError(
            fmt::format("{}: {} operands have no quantisation, and the formula no integer meaning. "
                        "Fix: give every operand quant, or use a float type.",
                        spec.name, name_of(first->type)));
    }
}

std::vector<TypedShape> shapes_of(const std::vector<Tensor>& tensors) {
    std::vector<TypedShape> result;
    result.reserve(tensors.size());
    for (const Tensor& tensor : tensors) result.push_back({tensor.type, tensor.shape});
    return result;
}

}  // namespace

BackendBase::BackendBase() {
    for (const OpcodeSpec& spec : opcode_table()) {
        const auto& table = arithmetic_table();
        const auto found = std::find_if(table.begin(), table.end(),
                                        [&](const Arithmetic& row) { return row.opcode == spec.name; });
        arithmetic_.push_back(found == table.end() ? nullptr : &*found);
    }
}

bool BackendBase::supports(OpcodeId id, const std::vector<ElemType>& inputs,
                           const std::vector<ElemType>& outputs) const {
    return id < arithmetic_.size() && arithmetic_[id] != nullptr &&
           types_supported(opcode(id), inputs, outputs);
}

void BackendBase::execute(OpcodeId id, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                          const BoundAttrs& attrs) {
    const OpcodeSpec& spec = opcode(id);
    if (arithmetic_[id] == nullptr) {
        throw UserError(fmt::format(
            "opcode `{}` cannot be executed: it has no arithmetic. Fix: use another opcode, or --mode "
            "timing, which computes no values.",
            spec.name));
    }
    const Call call{spec, inputs, outputs, attrs};
    check_types(call);
    if (uniform_quant(spec)) check_quant(call);
    check_shapes(spec, shapes_of(inputs), shapes_of(outputs), attrs);
    const FloatEnvironment environment;
    run(*arithmetic_[id], call);
    if (outputs.empty()) return;
    Beyond* beyond = outputs[0].beyond;
    // f16 cannot be the cause of an infinite f32 sum
    const bool product = spec.op_class == OpcodeClass::gemm || spec.op_class == OpcodeClass::conv;
    if (beyond != nullptr && beyond->infinite_sums > 0 && product && outputs[0].type == ElemType::bf16)
        reference::count_infinite_products(call);
}

}  // namespace kpu::values
