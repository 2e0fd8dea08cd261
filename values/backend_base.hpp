#pragma once

#include <optional>
#include <vector>

#include "values/problem.hpp"

namespace kpu::values {

/// What the engines share: opcode look-up, operand checks, the float environment.
class BackendBase : public ComputeBackend {
  public:
    BackendBase();
    bool supports(OpcodeId opcode, const std::vector<ElemType>& inputs,
                  const std::vector<ElemType>& outputs) const final;
    void execute(OpcodeId opcode, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                 const BoundAttrs& attrs) final;

  private:
    virtual void run(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                     const BoundAttrs& attrs) = 0;

    std::vector<std::optional<Op>> ops_;  ///< by opcode id
};

}  // namespace kpu::values
