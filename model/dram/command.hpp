#pragma once

#include <cstdint>

namespace kpu::dram {

enum class Command : uint8_t {
    activate,
    precharge,
    precharge_all,  ///< all banks of a rank
    read,
    write,
    refresh,  ///< all banks of a rank
    enter_power_down,
    exit_power_down,
    enter_self_refresh,
    exit_self_refresh,
    precharge_same,  ///< one bank of every group of a rank; `bank` is that of the first group
    refresh_same
};

/// A command as it goes to the device.
struct IssuedCommand {
    uint64_t time;  ///< nCK
    Command command;
    uint32_t rank;
    uint32_t
        /// Index among all banks of the channel; activate, precharge, read, write and refresh of one bank of
        /// every group only.
        bank;
    uint32_t row;         ///< activate only
    uint32_t source = 0;  ///< source of the request that it is for; activate, read and write only
};

/// Sees every command of a channel, in the order in which they are decided: times ascend, but the exit from a
/// sleep state may lie after later commands of other ranks.
class CommandObserver {
  public:
    virtual ~CommandObserver() = default;
    virtual void on_command(const IssuedCommand& command) = 0;
};

}  // namespace kpu::dram
