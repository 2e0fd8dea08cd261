#pragma once

#include <array>

#include "model/dram/address_map.hpp"
#include "model/dram/command.hpp"
#include "traces/bank_use.hpp"

namespace kpu::dram {

/// Tells of a channel's commands what its banks do for requests.
class BankObserver : public CommandObserver {
  public:
    explicit BankObserver(const Geometry& geometry) : geometry_(geometry) {}
    void on_command(const IssuedCommand& command) final;

  protected:
    /// Called for a read, a write or an activate.
    virtual void on_use(const traces::BankUse& use, const IssuedCommand& command) = 0;

  private:
    using Row = traces::BankUse::Row;
    struct Bank {
        bool closed_for_row = false;  ///< closed by a precharge for another row, not for a refresh
        Row next = Row::miss;         ///< row state of the next burst
    };
    void use(const IssuedCommand& command);

    Geometry geometry_;
    std::array<Bank, max_banks> banks_{};
    bool wrote_ = false, moved_ = false;  ///< the last burst; there was one
};

}  // namespace kpu::dram
