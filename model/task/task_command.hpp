#pragma once

#include <cstdint>
#include <memory>
#include <systemc>
#include <tlm>

#include "execution/controller.hpp"
#include "model/task/product.hpp"
#include "model/task/task_plan.hpp"
#include "model/task/task_report.hpp"

namespace kpu::values::kernel {
struct SharedLaunch;
}

namespace kpu::model {

/// The protocol of commands from sequencers to units: own traits, because the command is a mandatory
/// extension.
///
///     sequencer -> BEGIN_REQ   start(task); returns TLM_ACCEPTED
///     unit      -> END_REQ     issue_free: the next task may enter
///     unit      -> BEGIN_RESP  complete: all results are visible; returns TLM_COMPLETED
///
/// A unit that does not overlap tasks sends BEGIN_RESP only, which ends both phases. The time argument is
/// always zero; phases change at edges of the core clock.
struct CommandProtocol {
    using tlm_payload_type = tlm::tlm_generic_payload;
    using tlm_phase_type = tlm::tlm_phase;
};

constexpr unsigned command_bus_bits = 32;
using CommandInitiatorSocket = tlm::tlm_initiator_socket<command_bus_bits, CommandProtocol>;
using CommandTargetSocket = tlm::tlm_target_socket<command_bus_bits, CommandProtocol>;

/// The mandatory extension: one task given to one unit. The sequencer owns it until BEGIN_RESP.
struct TaskCommand : tlm::tlm_extension<TaskCommand> {
    tlm::tlm_generic_payload* payload = nullptr;  ///< that carries it
    execution::TaskInstance* task = nullptr;
    uint32_t serial = 0;
    uint16_t unit = traces::no_unit;     ///< that executes it
    uint16_t partner = traces::no_unit;  ///< second unit that it occupies: DMA of a DDR <-> L1 transfer
    uint32_t partner_bytes_per_cycle = 0;
    uint32_t port = 0;  ///< command socket of the unit that the answers go to
    uint32_t sequencer = 0;
    bool freed = false;  ///< END_REQ was sent
    /// Request of the kernel that is the task: all that the unit has to do of it. Null: the task itself.
    const ProductRequest* product = nullptr;
    /// A launch of a kernel, which may have several units: each has a command of its own.
    std::shared_ptr<values::kernel::SharedLaunch> launch;
    uint16_t first_unit = traces::no_unit;  ///< that got the task
    bool last = true;                       ///< no other unit has it any more
    bool first() const { return unit == first_unit; }
    // filled in by the unit
    const TaskPlan* plan = nullptr;            ///< from BEGIN_REQ on
    std::shared_ptr<const TaskPlan> own_plan;  ///< keeps it, for a task that runs once
    values::MemoryMap* memory = nullptr;  ///< memory that its socket reaches: the task's bytes go this way
    TaskReport report;

    tlm::tlm_extension_base* clone() const override { return new TaskCommand(*this); }
    void copy_from(const tlm::tlm_extension_base& other) override {
        *this = static_cast<const TaskCommand&>(other);
    }
};

}  // namespace kpu::model
