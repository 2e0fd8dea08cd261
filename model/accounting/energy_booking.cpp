#include "model/accounting/energy_booking.hpp"

#include <algorithm>

namespace kpu::model {

using traces::Component;

template <class Any>
void EnergyBooking::book(Any& action, uint64_t count, Cycles from, Cycles to, uint32_t op,
                         const traces::Burners& burners) {
    if (count == 0) return;
    if (!action.id) action.id = ledger_.prices().find(action.component, action.name);
    ledger_.book(*action.id, count, from, to, op, burners);
}

/// Lists a unit that does it all. The list lives until the next call; while nobody records it is empty.
const traces::Burners& EnergyBooking::all_of(uint16_t unit, uint64_t count) {
    one_.clear();
    if (places_ != nullptr) one_.emplace_back(unit, count);
    return one_;
}

namespace {

/// Returns how many of a planned action an execution took.
uint64_t count_of(const EnergyAction& action, const TaskPlan& plan, const TaskReport& report) {
    if (action.basis == EnergyAction::Basis::task) return action.count;
    const auto own =
        static_cast<uint64_t>(double(report.own_cycles) * double(plan.unit_cycles_q16) / 65536.0);
    const uint64_t all = own * plan.processing_elements, active = std::min(action.count, all);
    return action.basis == EnergyAction::Basis::active ? active : all - active;
}

}  // namespace

void EnergyBooking::completed(const TaskCommand& command) {
    const TaskReport& report = command.report;
    const TaskPlan& plan = *command.plan;
    const uint32_t op = command.task->task->op;
    const uint16_t sequencer = places_ != nullptr ? places_->sequencer(command.sequencer) : traces::no_unit;
    book(instr_, 1, report.start, report.start, op, all_of(sequencer, 1));
    for (const EnergyAction& action : plan.energy) {
        const uint64_t count = count_of(action, plan, report);
        book(action, count, report.start, report.end, op, all_of(command.unit, count));
    }
    for (const StreamUse& use : report.streams) stream(use, op, plan.moves(), command.unit);
}

void EnergyBooking::side(const StreamSide& side, uint64_t accesses, bool read, const StreamResult& result,
                         uint32_t op) {
    if (!side.is_memory || accesses == 0) return;
    if (side.level == Level::ddr) return dram(read ? dram_read_ : dram_write_, accesses, read, result, op);
    const bool l1 = side.level == Level::l1;
    Action& access = l1 ? (read ? l1_read_ : l1_write_) : (read ? l2_read_ : l2_write_);
    const uint16_t unit = places_ != nullptr ? places_->sram(side) : traces::no_unit;
    book(access, accesses, result.start, result.end, op, all_of(unit, accesses));
}

/// Books an access with its bursts; the activates come with them.
void EnergyBooking::dram(Action& access, uint64_t bursts, bool read, const StreamResult& result,
                         uint32_t op) {
    static const traces::Burners unknown;
    const traces::Burners& channels = places_ != nullptr ? places_->channels(bursts, read) : unknown;
    book(access, bursts, result.start, result.end, op, channels);
    book(phy_burst_, bursts, result.start, result.end, op, channels);
    book(activate_, result.dram_activates, result.start, result.end, op,
         places_ != nullptr ? EnergyPlaces::alike(result.dram_activates, channels) : unknown);
}

void EnergyBooking::links(const StreamRequest& request, const StreamResult& result, uint32_t op) {
    one_.clear();
    if (places_ != nullptr)
        for (const uint16_t link : places_->links(request)) one_.emplace_back(link, result.bytes);
    book(link_byte_, result.bytes * result.links, result.start, result.end, op, one_);
}

void EnergyBooking::stream(const StreamUse& use, uint32_t op, bool mover, uint16_t unit) {
    const StreamResult& result = *use.result;
    const StreamRequest& request = *use.request;
    side(request.source, result.source_accesses, true, result, op);
    side(request.destination, result.destination_accesses, false, result, op);
    links(request, result, op);
    if (!mover) return;
    book(descriptor_, 1, result.start, result.start, op, all_of(unit, 1));
    const uint64_t group = traces::dma_beat_group_bytes(request.burst_bytes);
    const uint64_t groups = (result.bytes + group - 1) / group;
    book(dma_burst_, groups, result.start, result.end, op, all_of(unit, groups));
}

void EnergyBooking::dram_background(const std::vector<std::pair<uint16_t, DramCounters>>& channels,
                                    Cycles end) {
    const auto add = [&](const char* action, auto count_of_channel) {
        uint64_t count = 0;
        traces::Burners burners;
        for (const auto& [unit, counters] : channels) {
            const uint64_t part = count_of_channel(counters);
            count += part;
            if (part > 0) burners.emplace_back(unit, part);
        }
        if (count == 0) return;
        const traces::ActionId id = ledger_.prices().find(Component::dram, action);
        ledger_.add(id, count, 0, end, traces::background_op, burners);
    };
    add("refresh", [](const DramCounters& channel) { return channel.refreshes; });
    add("activate",
        [](const DramCounters& channel) { return channel.activates - channel.charged_activates; });
    using dram::RankState;
    const auto add_state = [&](const char* action, RankState state, RankState with) {
        add(action, [&](const DramCounters& channel) {
            const uint64_t other = with == state ? 0 : channel.rank_times[static_cast<size_t>(with)];
            return channel.rank_times[static_cast<size_t>(state)] + other;
        });
    };
    add_state("state.active", RankState::active, RankState::refreshing);
    add_state("state.precharged", RankState::precharged, RankState::precharged);
    add_state("state.active_power_down", RankState::active_power_down, RankState::active_power_down);
    add_state("state.precharge_power_down", RankState::precharge_power_down, RankState::precharge_power_down);
    add_state("state.self_refresh", RankState::self_refresh, RankState::self_refresh);
}

}  // namespace kpu::model
