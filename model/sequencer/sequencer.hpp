#pragma once

#include <tlm_utils/multi_passthrough_target_socket.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "model/task/task_command.hpp"

namespace kpu::model {

/// Calls from sequencers to the arbiter. It only collects: it acts in the next delta.
class ArbiterInterface : public virtual sc_core::sc_interface {
  public:
    virtual void task_completed(TaskCommand& command) = 0;
    virtual void issue_free(TaskCommand& command) = 0;
    virtual void product_wanted(const ProductRequest& request) = 0;
};

/// Wiring of a unit: the sequencer's command socket, and the unit's own.
struct CommandRoute {
    uint16_t unit = traces::no_unit;
    uint32_t socket = 0;     ///< socket of the sequencer
    uint32_t unit_port = 0;  ///< port of the unit
};

/// The sequencer of one engine: gives tasks to its engine's units, and to system DMAs; and products of kernels that
/// run on its vector units to its arrays. sequencer.md.
class Sequencer : public sc_core::sc_module, public tlm::tlm_bw_transport_if<CommandProtocol> {
  public:
    Sequencer(const sc_core::sc_module_name& name, uint32_t index, std::vector<CommandRoute> routes);

    const char* kind() const override { return "sequencer"; }

    sc_core::sc_vector<CommandInitiatorSocket> command;
    sc_core::sc_port<ArbiterInterface> arbiter;
    /// Product requests from every vector unit of the engine.
    tlm_utils::multi_passthrough_target_socket<Sequencer, command_bus_bits, CommandProtocol, 0,
                                               sc_core::SC_ZERO_OR_MORE_BOUND>
        products;

    /// An order for a sequencer: what it is to give to a unit.
    struct Order {
        execution::TaskInstance* task = nullptr;
        uint16_t unit = traces::no_unit, partner = traces::no_unit, first_unit = traces::no_unit;
        uint32_t partner_bytes_per_cycle = 0;
        std::shared_ptr<values::kernel::SharedLaunch> launch;
        const ProductRequest* product = nullptr;
    };
    /// Now. The command stays valid until release().
    TaskCommand& dispatch(const Order& order);
    void release(TaskCommand& command);

    tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                       sc_core::sc_time& delay) override;
    void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

  private:
    struct Entry {
        tlm::tlm_generic_payload payload;
        TaskCommand command;
        Entry() {
            payload.set_command(tlm::TLM_IGNORE_COMMAND);
            payload.set_extension(&command);
        }
        ~Entry() { payload.clear_extension(&command); }
    };
    tlm::tlm_sync_enum ask(int port, tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                           sc_core::sc_time& delay);
    void answer(const ProductRequest& request, tlm::tlm_phase phase);

    uint32_t index_;
    std::vector<CommandRoute> routes_;
    std::vector<std::unique_ptr<Entry>> entries_;
    std::vector<Entry*> spare_;
};

}  // namespace kpu::model
