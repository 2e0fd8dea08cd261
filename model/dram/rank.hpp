#pragma once

#include <array>
#include <cstdint>

#include "model/dram/config.hpp"

namespace kpu::dram {

/// Power states of a rank.
enum class RankState : uint8_t {
    active,             ///< a row is open
    precharged,         ///< all rows are closed
    active_power_down,  ///< clock off, a row is open
    precharge_power_down,
    refreshing,
    self_refresh
};
constexpr size_t rank_state_count = 6;
using RankTimes = std::array<uint64_t, rank_state_count>;  ///< clocks in each state

/// Reason for which a rank's commands are held back.
enum class Drain : uint8_t { nothing, refresh, self_refresh };

/// Refresh of banks that are refreshed together.
struct SetRefresh {
    /// Begin of the refresh that is being prepared or done: its commands are held from here.
    uint64_t begin = 0;
    uint64_t end = 0;  ///< end of the last one
    uint64_t sum = 0;  ///< all times from begin to end, and waking up
};

struct Rank {
    RankState state = RankState::precharged;
    Drain drain = Drain::nothing;
    uint32_t waiting = 0;  ///< bursts
    uint32_t open_banks = 0;
    uint64_t state_since = 0;
    uint64_t idle_since = 0;                               ///< end of the last work
    uint64_t refresh_due = 0;                              ///< next one
    uint32_t refresh_set = 0;                              ///< the banks that it is for (same_bank.cpp)
    std::array<SetRefresh, max_refresh_sets> refreshes{};  ///< indexed by set
    std::array<uint64_t, 4> activates{};                   ///< the last four, + 1
    uint32_t next_activate = 0;
    uint64_t activate_after = 0;             ///< tRRD_S and tFAW
    uint64_t precharge_after = 0;            ///< tPPD
    std::array<uint64_t, 2> column_after{};  ///< next read, next write: what holds for all groups
    RankTimes times{};

    bool asleep() const {
        return state == RankState::active_power_down || state == RankState::precharge_power_down ||
               state == RankState::self_refresh;
    }
    /// Books the time in the state until now. A refresh ends by itself.
    void enter(RankState next, uint64_t time) {
        const uint64_t refreshed = refreshes[0].end;  // in this state all banks are refreshed
        if (state == RankState::refreshing && time > refreshed) {
            book(refreshed);
            state = RankState::precharged;
        }
        book(time);
        state = next;
    }

  private:
    void book(uint64_t time) {
        if (time <= state_since) return;
        times[static_cast<size_t>(state)] += time - state_since;
        state_since = time;
    }
};

}  // namespace kpu::dram
