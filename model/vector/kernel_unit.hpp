#pragma once

#include <memory>
#include <vector>

#include "model/unit/formula_unit.hpp"
#include "model/vector/kernel_cost.hpp"

namespace kpu::model {

/// Executes launches of kernels statement by statement, beside tasks with a formula. A launch has the unit for
/// itself. vector_unit.md.
class KernelUnit : public FormulaUnit, public tlm::tlm_bw_transport_if<CommandProtocol> {
  public:
    KernelUnit(const sc_core::sc_module_name& name, const UnitPlace& place);
    ~KernelUnit() override;

    CommandInitiatorSocket product;  ///< products of tiles, to the engine's sequencer
    CommandInitiatorSocket* product_socket() override { return &product; }
    tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                       sc_core::sc_time& delay) override;
    void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
    void stream_completed(StreamTransaction& transaction) override;

  protected:
    void start(TaskCommand& command) override;
    void wake() override;
    void drained() override;

  private:
    struct Run;  ///< one launch

    void begin();
    void go_on();
    bool waits_for_time(Cycles now, Cycles& horizon);
    bool is_held(Cycles now);
    void execute();
    void work_from(Cycles now);
    void stop_work();
    bool multiplies(Cycles now);
    void ask_for(Product& wanted, Cycles now);
    void stall(Cycles now, traces::Cause cause);
    void drain(Cycles now);
    void complete(Cycles now);
    void book();

    bool copies_arrived() const;
    void post_traffic(bool all);
    void post_words(uint32_t buffer, bool read, uint64_t bytes);
    void queue_copies();
    void post_copies();
    PlannedStream descriptor_of(const KernelCopy& copy) const;
    StreamSide side_of(uint32_t buffer, uint64_t byte, uint64_t bytes) const;
    StreamSide side_of(uint32_t buffer, const Footprint& pattern) const;
    std::vector<KernelBufferPlace> places_of(const TaskCommand& command) const;
    uint64_t workgroup_begin(const TaskCommand& command) const;
    Cycles horizon() const;
    std::string in_task(const std::exception& error) const;

    ProductRequest request_;  ///< one at a time
    tlm::tlm_generic_payload request_payload_;
    std::unique_ptr<Run> run_;  ///< the last one, which its report refers to
};

}  // namespace kpu::model
