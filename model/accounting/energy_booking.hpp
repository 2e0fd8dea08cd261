#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isa/bound_program.hpp"
#include "isa/opcodes.hpp"
#include "model/accounting/task_report.hpp"
#include "model/memory/ddr.hpp"
#include "model/unit/command_protocol.hpp"
#include "traces/ledger.hpp"

namespace kpu::model {

/// Books the actions of completed tasks and of their streams, with the time that they took and their
/// operation.
class EnergyBooking {
  public:
    explicit EnergyBooking(traces::EnergyLedger& ledger);
    void completed(const TaskCommand& command);
    /// Work of no operation over the whole run, summed over the channels: refreshes, activates that are in no
    /// stream's result, time in power states.
    void dram_background(const DramCounters& all, Cycles end);

  private:
    /// Found in the table when it occurs first: a table need not price what never happens.
    struct Action {
        traces::Component component;
        std::string name;
        std::optional<traces::ActionId> id{};
    };

    void array_work(const TaskCommand& command);
    void vector_work(const TaskCommand& command);
    void stream(const StreamUse& use, uint32_t op, bool mover);
    void side(const StreamSide& side, uint64_t accesses, bool read, const StreamResult& result, uint32_t op);
    void book(Action& action, uint64_t count, Cycles from, Cycles to, uint32_t op);

    traces::EnergyLedger& ledger_;
    std::vector<Action> macs_;                       ///< by type
    std::map<std::string_view, Action> vector_ops_;  ///< by energy_action
    Action instr_{traces::Component::ctrl, "instr"};
    Action shift_{traces::Component::array, "pe.shift"}, idle_{traces::Component::array, "pe.idle"};
    Action l1_read_{traces::Component::l1, "read"}, l1_write_{traces::Component::l1, "write"};
    Action l2_read_{traces::Component::l2, "read"}, l2_write_{traces::Component::l2, "write"};
    Action dram_read_{traces::Component::dram, "read"}, dram_write_{traces::Component::dram, "write"};
    Action activate_{traces::Component::dram, "activate"}, phy_burst_{traces::Component::phy, "burst"};
    Action link_byte_{traces::Component::noc, "byte"};
    Action descriptor_{traces::Component::dma, "descriptor"}, dma_burst_{traces::Component::dma, "burst"};
};

}  // namespace kpu::model
