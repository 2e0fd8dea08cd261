#include "model/dram/energy.hpp"

namespace kpu::dram {

Energy energy_of(const Counters& counters, const platforms::DramEnergy& prices, double tck_ns) {
    const auto times = [](uint64_t count, double each) { return static_cast<double>(count) * each; };
    Energy energy;
    energy.activate = times(counters.activates, prices.activate_pj);
    energy.read = times(counters.reads, prices.read_pj - prices.read_io_pj);
    energy.write = times(counters.writes, prices.write_pj - prices.write_io_pj);
    energy.io = times(counters.reads, prices.read_io_pj) + times(counters.writes, prices.write_io_pj);
    energy.refresh = times(counters.refreshes, prices.refresh_pj);
    const auto in_state = [&](RankState state, double mw) {
        return times(counters.rank_times[static_cast<size_t>(state)], tck_ns * mw);
    };
    energy.background = in_state(RankState::active, prices.standby_mw) +
                        in_state(RankState::precharged, prices.precharged_mw) +
                        in_state(RankState::active_power_down, prices.active_power_down_mw) +
                        in_state(RankState::precharge_power_down, prices.precharge_power_down_mw) +
                        in_state(RankState::refreshing, prices.standby_mw) +
                        in_state(RankState::self_refresh, prices.self_refresh_mw);
    return energy;
}

}  // namespace kpu::dram
