#pragma once

#include <optional>
#include <string>

#include "model/memory/ddr.hpp"
#include "model/task/task_observer.hpp"
#include "traces/ledger.hpp"

namespace kpu::model {

/// Books the actions of completed tasks and of their streams, with the time that they took and their
/// operation.
class EnergyBooking : public TaskObserver {
  public:
    explicit EnergyBooking(traces::EnergyLedger& ledger) : ledger_(ledger) {}
    void completed(const TaskCommand& command) override;
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

    void stream(const StreamUse& use, uint32_t op, bool mover);
    void side(const StreamSide& side, uint64_t accesses, bool read, const StreamResult& result, uint32_t op);
    template <class Any>
    void book(Any& action, uint64_t count, Cycles from, Cycles to, uint32_t op);

    traces::EnergyLedger& ledger_;
    Action instr_{traces::Component::ctrl, "instr"};
    Action l1_read_{traces::Component::l1, "read"}, l1_write_{traces::Component::l1, "write"};
    Action l2_read_{traces::Component::l2, "read"}, l2_write_{traces::Component::l2, "write"};
    Action dram_read_{traces::Component::dram, "read"}, dram_write_{traces::Component::dram, "write"};
    Action activate_{traces::Component::dram, "activate"}, phy_burst_{traces::Component::phy, "burst"};
    Action link_byte_{traces::Component::noc, "byte"};
    Action descriptor_{traces::Component::dma, "descriptor"}, dma_burst_{traces::Component::dma, "burst"};
};

}  // namespace kpu::model
