#pragma once

#include <array>
#include <functional>
#include <string_view>

#include "traces/events.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// State of a component's clock.
enum class ClockState : uint8_t {
    active,  ///< the component does something
    idle,    ///< the clock runs for nothing: for idle_to_gate_cycles, or without clock gating
    gated
};
std::string_view name_of(ClockState state);

/// States of the components over time, from active records in order of time. The time in active and idle together is
/// when ComponentStates has the component ON. Keeps one time of each component, however long the run.
class ComponentActivity {
  public:
    /// Components with a clock of ours: all but dram and phy.
    static constexpr size_t count = static_cast<size_t>(Component::dram);

    ComponentActivity(const EnergyPrices& prices, const Clock& clock, Picoseconds end);
    void active(const Event& event);
    /// Advances to `time`, which must not be before the last one; state() then answers for it.
    void advance(Picoseconds time);
    ClockState state(size_t component) const;
    /// Returns when a state changes without a record, after the time of advance(); the greatest time if none
    /// does.
    Picoseconds next() const { return next_; }
    /// Records came after the last advance().
    bool changed() const { return changed_; }

  private:
    struct Times {
        Cycles busy_until = 0;
        Picoseconds idle_from = 0, gated_from = 0;
    };
    void find_next();

    Clock clock_;
    bool gating_;
    Cycles hysteresis_;
    Picoseconds end_, now_ = 0, next_ = ~Picoseconds{0};
    bool changed_ = false;
    std::array<Times, count> times_{};
};

/// Calls visit(component, state, from, to) for every stretch of every component, each in order of time, from 0 to
/// info.end_ps; with info.view.every for what held longest in intervals so long.
using ClockVisit = std::function<void(size_t component, ClockState, Picoseconds from, Picoseconds to)>;
void for_each_clock_state(const RunInfo& info, const Events& events, const ClockVisit& visit);

}  // namespace kpu::traces
