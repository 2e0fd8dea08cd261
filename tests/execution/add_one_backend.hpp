#pragma once

#include "values/compute.hpp"

namespace kpu::execution::test {

/// Every output element is 1 plus the sum of the inputs' elements at its index, as bytes: enough arithmetic
/// to see what was read when.
class AddOneBackend : public values::ComputeBackend {
  public:
    const char* name() const override { return "add one"; }
    bool supports(OpcodeId, const std::vector<ElemType>&, const std::vector<ElemType>&) const override {
        return true;
    }
    void execute(OpcodeId, const std::vector<values::Tensor>& inputs,
                 const std::vector<values::Tensor>& outputs, const BoundAttrs&) override {
        for (const values::Tensor& output : outputs) {
            for (uint64_t i = 0; i < output.elements(); ++i) {
                uint8_t sum = 1;
                for (const values::Tensor& input : inputs) sum = static_cast<uint8_t>(sum + input.data[i]);
                output.data[i] = sum;
            }
        }
        ++calls;
    }
    int calls = 0;
};

}  // namespace kpu::execution::test
