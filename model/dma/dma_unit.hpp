#pragma once

#include "model/unit/worker.hpp"

namespace kpu::model {

/// A DMA channel, of an engine (L2 <-> L1) or of the system (DDR <-> L2, DDR <-> L1): one transfer at a time.
/// dma_unit.md.
class DmaUnit : public Worker {
  public:
    using Worker::Worker;
    const char* kind() const override { return "dma_unit"; }

  protected:
    void plan(Job& job) override;
};

}  // namespace kpu::model
