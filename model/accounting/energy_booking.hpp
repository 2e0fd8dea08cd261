#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/accounting/energy_places.hpp"
#include "model/memory/ddr.hpp"
#include "model/task/task_observer.hpp"
#include "traces/ledger.hpp"

namespace kpu::model {

/// Books the actions of completed tasks and of their streams, with the time that they took and their
/// operation.
class EnergyBooking : public TaskObserver {
  public:
    explicit EnergyBooking(traces::EnergyLedger& ledger) : ledger_(ledger) {}
    /// Makes records say which unit burns the energy, from now on.
    void attach(std::unique_ptr<EnergyPlaces> places) { places_ = std::move(places); }
    void completed(const TaskCommand& command) override;
    /// Books work of no operation over the whole run, by channel, each with its unit: refreshes, activates
    /// that are in no stream's result, time in power states.
    void dram_background(const std::vector<std::pair<uint16_t, DramCounters>>& channels, Cycles end);

  private:
    /// Found in the table when it occurs first: a table need not price what never happens.
    struct Action {
        traces::Component component;
        std::string name;
        std::optional<traces::ActionId> id{};
    };

    void stream(const StreamUse& use, uint32_t op, bool mover, uint16_t unit);
    void side(const StreamSide& side, uint64_t accesses, bool read, const StreamResult& result, uint32_t op);
    void dram(Action& access, uint64_t bursts, bool read, const StreamResult& result, uint32_t op);
    void links(const StreamRequest& request, const StreamResult& result, uint32_t op);
    template <class Any>
    void book(Any& action, uint64_t count, Cycles from, Cycles to, uint32_t op,
              const traces::Burners& burners);
    const traces::Burners& all_of(uint16_t unit, uint64_t count);

    traces::EnergyLedger& ledger_;
    std::unique_ptr<EnergyPlaces> places_;  ///< null: nobody records
    traces::Burners one_;                   ///< result of all_of(), kept for its memory
    Action instr_{traces::Component::ctrl, "instr"};
    Action l1_read_{traces::Component::l1, "read"}, l1_write_{traces::Component::l1, "write"};
    Action l2_read_{traces::Component::l2, "read"}, l2_write_{traces::Component::l2, "write"};
    Action dram_read_{traces::Component::dram, "read"}, dram_write_{traces::Component::dram, "write"};
    Action activate_{traces::Component::dram, "activate"}, phy_burst_{traces::Component::phy, "burst"};
    Action link_byte_{traces::Component::noc, "byte"};
    Action descriptor_{traces::Component::dma, "descriptor"}, dma_burst_{traces::Component::dma, "burst"};
};

}  // namespace kpu::model
