#pragma once

#include "model/worker/worker.hpp"

namespace kpu::model {

/// A systolic array (NMU): gemm, matmul and convolutions. array_unit.md.
class ArrayUnit : public Worker {
  public:
    using Worker::Worker;
    const char* kind() const override { return "array_unit"; }

  protected:
    void plan(Job& job) override;
};

}  // namespace kpu::model
