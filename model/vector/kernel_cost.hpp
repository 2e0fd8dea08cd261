#pragma once

#include <array>
#include <vector>

#include "model/stream/stream.hpp"
#include "platforms/platform.pb.h"
#include "values/kernel/batch.hpp"

namespace kpu::model {

/// Where a buffer of a kernel begins, and how many bytes from there.
struct KernelBufferPlace {
    uint64_t address = 0;  ///< in its level
    uint64_t bytes = 0;
};

/// The time that a kernel takes on a vector unit, statement by statement as it is executed. vector_unit.md has the
/// formula.
class KernelCost : public values::kernel::StepObserver {
  public:
    /// `places`: of every buffer of the code. Throws SimulationError when the kernel goes beyond `most` cycles.
    KernelCost(const kernel::Code& code, const proto::Engine& engine, std::vector<KernelBufferPlace> places,
               Cycles most);

    void accessed(kernel::ExprIndex site, uint32_t buffer, const uint32_t* elements, uint32_t count) override;
    void copy_started(uint32_t lane, uint32_t tag, const values::kernel::Copy& copy) override;
    void copy_awaited(uint32_t lane, uint32_t tag) override;
    void executed(uint32_t statement, uint32_t active) override;

    Cycles busy() const { return now_ - waited_; }
    Cycles waited() const { return waited_; }    ///< for copies
    uint64_t useful() const { return useful_; }  ///< lane-cycles
    /// Bytes of L1 words, or of copies, that a buffer gave and took.
    uint64_t bytes_read(uint32_t buffer) const { return read_[buffer]; }
    uint64_t bytes_written(uint32_t buffer) const { return written_[buffer]; }
    /// Operations of a class, one for each lane that executed it.
    uint64_t operations(kernel::CostClass cost) const { return operations_[static_cast<size_t>(cost)]; }

  private:
    /// What the expressions of a statement are made of.
    struct Content {
        std::array<uint32_t, kernel::cost_class_count> count{};
    };
    void add(Content& content, kernel::ExprIndex root) const;
    Cycles bank_cycles(const KernelBufferPlace& place, unsigned bytes, const uint32_t* elements,
                       uint32_t count, uint64_t& words);
    uint64_t cycles_of(std::string_view name) const;

    const kernel::Code& code_;
    const std::vector<KernelBufferPlace> places_;
    const Cycles most_;
    const uint64_t lanes_;
    const uint64_t width_, interleave_, banks_;  ///< of L1
    const uint64_t copy_bytes_, copy_descriptor_;
    std::array<uint64_t, kernel::cost_class_count> cycles_{};
    uint64_t statement_cycles_, barrier_cycles_, scalar_cycles_;
    std::vector<Content> contents_;
    Cycles now_ = 0, waited_ = 0, access_ = 0;
    uint64_t useful_ = 0;
    std::vector<uint64_t> read_, written_;
    std::array<uint64_t, kernel::cost_class_count> operations_{};
    std::vector<Cycles> channels_;                        ///< of the engine's DMA: free from then on
    std::vector<std::vector<Cycles>> arrival_;            ///< by tag and lane
    std::vector<std::pair<uint64_t, uint64_t>> touched_;  ///< bank and word
};

}  // namespace kpu::model
