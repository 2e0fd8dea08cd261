#include "values/backend_base.hpp"

#include <fmt/format.h>

#include "base/diagnostics.hpp"
#include "isa/output_shapes.hpp"

namespace kpu::values {

namespace {

void check_shapes(const OpcodeSpec& spec, const std::vector<Tensor>& inputs,
                  const std::vector<Tensor>& outputs, const BoundAttrs& attrs) {
    std::vector<Dims> in;
    std::vector<Dims> out;
    in.reserve(inputs.size());
    out.reserve(outputs.size());
    for (const Tensor& tensor : inputs) in.push_back(tensor.shape);
    for (const Tensor& tensor : outputs) out.push_back(tensor.shape);
    try {
        check_output_shapes(spec, in, out, attrs);
    } catch (const UserError& error) {
        throw UserError(fmt::format("{}: {}", spec.name, error.what()));
    }
}

}  // namespace

BackendBase::BackendBase() {
    for (const OpcodeSpec& spec : opcode_table()) ops_.push_back(find_op(spec.name));
}

bool BackendBase::supports(OpcodeId opcode, const std::vector<ElemType>& inputs,
                           const std::vector<ElemType>& outputs) const {
    return opcode < ops_.size() && ops_[opcode].has_value() &&
           types_supported(*ops_[opcode], inputs, outputs);
}

void BackendBase::execute(OpcodeId id, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                          const BoundAttrs& attrs) {
    if (id >= ops_.size() || !ops_[id].has_value()) {
        throw UserError(fmt::format(
            "opcode `{}` cannot be executed: it has no arithmetic. Fix: use another opcode, or --mode "
            "timing, which computes no values.",
            opcode(id).name));
    }
    const Op op = *ops_[id];
    check_operands(op, inputs, outputs);
    if (is_view(op) || is_reduction(op)) check_shapes(opcode(id), inputs, outputs, attrs);
    const FloatEnvironment environment;
    if (op != Op::cast && op != Op::quantize && op != Op::dequantize) return run(op, inputs, outputs, attrs);
    // conversions use the quantisation of one side at most
    Tensor x = inputs[0];
    Tensor y = outputs[0];
    if (op != Op::dequantize) x.quant = nullptr;
    if (op != Op::quantize) y.quant = nullptr;
    run(op, {x}, {y}, attrs);
}

}  // namespace kpu::values
