#pragma once

#include "model/unit/worker.hpp"

namespace kpu::model {

/// A vector unit (CSTL or VPU): everything that is neither a matrix product nor a transfer, and stores.
/// vector_unit.md.
class VectorUnit : public Worker {
  public:
    using Worker::Worker;
    const char* kind() const override { return "vector_unit"; }

  protected:
    void plan(Job& job) override;

  private:
    void plan_compute(Job& job);
    void plan_store(Job& job);
};

}  // namespace kpu::model
