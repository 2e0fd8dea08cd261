#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "model/memory/stream_protocol.hpp"
#include "model/unit/command_protocol.hpp"
#include "model/unit/error_slot.hpp"
#include "platforms/platform.pb.h"

namespace kpu::model {

/// What a unit knows of its place in the device.
struct UnitPlace {
    uint16_t unit = traces::no_unit;
    uint16_t engine = no_engine;
    Clock core{1};
    const BoundProgram* program = nullptr;
    const proto::Platform* platform = nullptr;
    const proto::Engine* engine_platform = nullptr;  ///< null for units of the device
    uint32_t command_ports = 1;
    ErrorSlot* errors = nullptr;
};

/// One task inside a unit: its formula, its streams, and how far they are. worker.md has the rules.
struct Job {
    struct Operand {
        std::unique_ptr<StreamTransaction> stream;
        Cycles due = 0;       ///< from the begin: the last byte is late after it
        Cycles earliest = 0;  ///< from the start: the last byte cannot have passed the unit's port before
        Cycles end = 0;       ///< cycle of the last byte; 0 while it is to come
    };
    tlm::tlm_generic_payload* payload = nullptr;
    TaskCommand* command = nullptr;
    bool overlap = false;                ///< the next task may enter before this one completes
    bool prefetch = false;               ///< ... and while the last operands of this one are on their way
    bool result_after_operands = false;  ///< no result leaves before the last operand is in
    Cycles lead = 0;                     ///< from the start until the first operand can be there
    Cycles entry_gap = 0;                ///< after another task's operands, before the first of this one
    Cycles occupancy = 0;                ///< from the begin: operands of no other task enter
    Cycles first_result = 0;             ///< from the begin, without stalls
    Cycles uneven = 0;                   ///< operands that the unit does not ask for evenly are so much later
    std::vector<Operand> operands;
    std::vector<std::unique_ptr<StreamTransaction>> results;

    Cycles begin = 0;  ///< the first operand enters
    size_t operands_open = 0, results_open = 0;
    bool results_posted = false;

    /// As new, but keeps the lists' memory.
    void clear() {
        Job fresh;
        fresh.operands.swap(operands);
        fresh.results.swap(results);
        fresh.operands.clear();
        fresh.results.clear();
        *this = std::move(fresh);
    }
};

/// A unit that executes tasks: takes commands, posts the task's streams, completes when its formula's time
/// has passed and its streams are done. Subclasses say what a task is made of.
class Worker : public sc_core::sc_module,
               public StreamClient,
               public tlm::tlm_fw_transport_if<CommandProtocol> {
  public:
    SC_HAS_PROCESS(Worker);
    Worker(const sc_core::sc_module_name& name, const UnitPlace& place);

    sc_core::sc_vector<CommandTargetSocket> command;
    StreamInitiator stream;

    tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                       sc_core::sc_time& delay) override;
    void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) override;
    unsigned transport_dbg(tlm::tlm_generic_payload&) override { return 0; }
    bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
    void stream_completed(StreamTransaction& transaction) override;

  protected:
    /// Fills in the formula (report.fill, steady, drain, work, peak_q16), flags and streams of
    /// job.command->task.
    virtual void plan(Job& job) = 0;

    const UnitPlace& place() const { return place_; }
    /// A stream of `job` with poster, task, operation and rate set; the memory side is `view`.
    std::unique_ptr<StreamTransaction> memory_stream(const Job& job, const values::RegionView& view,
                                                     bool read, uint32_t port_bytes_per_cycle);
    /// Makes `job` one memory-to-memory stream with the descriptor costs of `dma`.
    void plan_move(Job& job, const values::RegionView& source, const values::RegionView& destination,
                   const proto::Dma& dma, uint32_t port_bytes_per_cycle);

  private:
    void wake();
    void update();
    void wake_from(Cycles earliest);
    void advance(Job& job, Cycles now);
    void post(StreamTransaction& transaction, Job& job);
    void finish(Job& job, Cycles now);
    void hand_over(const Job& job);
    void begin_in_order();
    static bool streams_ended(const Job& job);
    Cycles stall(const Job& job) const;
    Cycles free_at(const Job& job) const { return job.begin + job.occupancy + stall(job) - job.lead; }
    Cycles work_end(const Job& job) const {
        return job.begin + report(job).fill + report(job).steady + stall(job);
    }
    Cycles formula_end(const Job& job) const { return work_end(job) + report(job).drain; }
    static TaskReport& report(const Job& job) { return job.command->report; }
    void answer(Job& job, tlm::tlm_phase phase);
    Cycles now_cycle() const { return place_.core.edges_before(sc_core::sc_time_stamp().value()); }
    std::unique_ptr<Job> take_job();
    std::unique_ptr<StreamTransaction> take_transaction();

    UnitPlace place_;
    std::vector<std::unique_ptr<Job>> jobs_;  ///< in order of start, and of completion
    Cycles entrance_free_ = 0;                ///< of completed jobs: no operand of theirs enters any more
    Cycles work_ended_ = 0;                   ///< of completed jobs: end of the last steady state
    std::vector<std::unique_ptr<StreamTransaction>> spare_;
    std::vector<std::unique_ptr<Job>> spare_jobs_;
    sc_core::sc_event wake_;
    Cycles due_ = never;  ///< when it comes
};

/// The cause that slowed a stream for the longest time; `fallback` when nothing did.
traces::Cause dominant_limiter(const StreamResult& result, traces::Cause fallback);

}  // namespace kpu::model
