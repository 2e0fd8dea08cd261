#pragma once

#include <vector>

#include "values/arithmetic.hpp"

namespace kpu::values {

/// Base of the engines: opcode look-up, operand checks, the float environment.
class BackendBase : public ComputeBackend {
  public:
    BackendBase();
    bool supports(OpcodeId opcode, const std::vector<ElemType>& inputs,
                  const std::vector<ElemType>& outputs) const final;
    void execute(OpcodeId opcode, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                 const BoundAttrs& attrs) final;

  private:
    virtual void run(const Arithmetic& arithmetic, const Call& call) = 0;

    std::vector<const Arithmetic*> arithmetic_;  ///< indexed by opcode id; null: none
};

}  // namespace kpu::values
