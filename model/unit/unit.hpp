#pragma once

#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "model/memory/stream_protocol.hpp"
#include "model/task/task_command.hpp"
#include "model/unit/error_slot.hpp"
#include "platforms/platform.pb.h"

namespace kpu::model {

/// Place of a unit in the device.
struct UnitPlace {
    uint16_t unit = traces::no_unit;
    uint16_t engine = no_engine;
    Clock core{1};
    const BoundProgram* program = nullptr;
    const proto::Platform* platform = nullptr;
    const proto::Engine* engine_platform = nullptr;  ///< null for units of the device
    uint32_t command_ports = 1;
    const Cycles* step_end = nullptr;  ///< the run stops at this cycle, or goes on from there in another step
    bool hazards = false;              ///< look for races inside kernels
    ErrorSlot* errors = nullptr;
};

/// Base of every unit that executes tasks: a command port, on which sequencers give it tasks, and a memory
/// port, on which it posts streams and through which it reaches the bytes.
class Unit : public sc_core::sc_module,
             public StreamClient,
             public tlm::tlm_fw_transport_if<CommandProtocol> {
  public:
    SC_HAS_PROCESS(Unit);
    Unit(const sc_core::sc_module_name& name, const UnitPlace& place);

    sc_core::sc_vector<CommandTargetSocket> command;
    StreamInitiator stream;

    /// Returns the socket on which it asks its engine's sequencer for products; null: it never does.
    virtual CommandInitiatorSocket* product_socket() { return nullptr; }

    tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                       sc_core::sc_time& delay) override;
    void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) override;
    unsigned transport_dbg(tlm::tlm_generic_payload&) override { return 0; }
    bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }

  protected:
    /// Starts a task that was given to the unit at this edge. It sets command.plan, and answers later, never
    /// from here.
    virtual void start(TaskCommand& command) = 0;
    /// Called in a cycle that the unit asked for with wake_at().
    virtual void wake() = 0;

    /// Answers that the next task may enter. Once for a task, if at all.
    void answer_free(TaskCommand& command);
    /// Answers that all results are visible: the command is the sequencer's again.
    void answer_complete(TaskCommand& command);

    /// Posts a planned stream of the command's task, at this iteration's addresses; stream_completed() follows.
    /// `pace_cycles`: instead of the planned ones, unless `never`. The report lists the stream; the caller owns
    /// it, and gives it back with recycle() when a later task starts: until then the report refers to it.
    std::unique_ptr<StreamTransaction> post(const PlannedStream& planned, TaskCommand& command, void* context,
                                            Cycles pace_cycles = never);
    /// Notes that a posted stream has completed: the report refers to its result.
    static void note_completed(TaskCommand& command, const StreamTransaction& transaction);
    void recycle(std::unique_ptr<StreamTransaction> transaction) { spare_.push_back(std::move(transaction)); }

    /// Returns a stream with poster, operation and rate set, that reads or writes the operand; its address is
    /// the operand's.
    PlannedStream memory_stream(const BoundTask& task, OperandRef operand, bool read,
                                uint32_t port_bytes_per_cycle) const;
    /// Returns the same for any part of a memory.
    PlannedStream port_stream(uint32_t op, const StreamSide& memory, bool read,
                              uint32_t port_bytes_per_cycle) const;
    /// Bursts, descriptor and row costs of a DMA.
    static void use_dma(StreamRequest& request, const proto::Dma& dma);
    /// Plans the task as one memory-to-memory stream with the descriptor costs of `dma`.
    void plan_move(const BoundTask& task, const proto::Dma& dma, uint32_t port_bytes_per_cycle,
                   TaskPlan& plan) const;
    uint64_t l1_latency(bool read) const;
    const BoundRegion& region_of(const BoundTask& task, OperandRef operand) const;
    /// Returns all of the operand's region.
    StreamSide region_side(const BoundTask& task, OperandRef operand) const;

    const UnitPlace& place() const { return place_; }
    Cycles now_cycle() const { return place_.core.edges_before(sc_core::sc_time_stamp().value()); }
    /// Calls wake() at `cycle`, instead of what was asked for before; `never`: not at all.
    void wake_at(Cycles cycle);

  private:
    void woken();
    void reach(const std::vector<values::RegionView>& operands);
    void answer(TaskCommand& command, tlm::tlm_phase phase);
    std::unique_ptr<StreamTransaction> take_transaction();

    UnitPlace place_;
    values::MemoryMap memory_;  ///< as reached through the memory socket so far
    std::vector<bool> reached_;
    std::vector<std::unique_ptr<StreamTransaction>> spare_;
    sc_core::sc_event wake_;
    Cycles due_ = never;  ///< when it comes
};

/// A stream side's address is that of an operand.
inline OperandRef input(size_t index) { return {OperandRef::List::inputs, static_cast<uint16_t>(index)}; }
inline OperandRef output(size_t index) { return {OperandRef::List::outputs, static_cast<uint16_t>(index)}; }

/// Returns the cause that slowed a stream for the longest time; `fallback` when nothing did.
traces::Cause dominant_limiter(const StreamResult& result, traces::Cause fallback);

}  // namespace kpu::model
