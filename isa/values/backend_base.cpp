#include "isa/values/backend_base.hpp"

#include <fmt/format.h>

#include "isa/diagnostics.hpp"

namespace kpu::values {

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
    check_operands(*ops_[id], inputs, outputs);
    const FloatEnvironment environment;
    run(*ops_[id], inputs, outputs, attrs);
}

}  // namespace kpu::values
