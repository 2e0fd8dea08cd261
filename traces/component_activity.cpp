#include "traces/component_activity.hpp"

#include <algorithm>

namespace kpu::traces {

std::string_view name_of(ClockState state) {
    switch (state) {
        case ClockState::active:
            return "active";
        case ClockState::idle:
            return "idle";
        default:
            return "gated";
    }
}

ComponentActivity::ComponentActivity(const EnergyPrices& prices, const Clock& clock, Picoseconds end)
    : clock_(clock), gating_(prices.clock_gating), hysteresis_(prices.idle_to_gate_cycles), end_(end) {}

void ComponentActivity::active(const Event& event) {
    const Cycles until = clock_.edges_before(event.time_ps) + event.duration();
    if (event.unit >= count || until <= times_[event.unit].busy_until) return;
    times_[event.unit] = {until, clock_.edge(until), clock_.edge(until + hysteresis_)};
    changed_ = true;
}

void ComponentActivity::advance(Picoseconds time) {
    now_ = time;
    changed_ = false;
    find_next();
}

ClockState ComponentActivity::state(size_t component) const {
    const Times& times = times_[component];
    if (now_ < times.idle_from) return ClockState::active;
    return gating_ && now_ >= times.gated_from ? ClockState::gated : ClockState::idle;
}

void ComponentActivity::find_next() {
    next_ = ~Picoseconds{0};
    for (const Times& times : times_) {
        if (times.idle_from > now_) {
            next_ = std::min(next_, times.idle_from);
        } else if (gating_ && times.gated_from > now_) {
            next_ = std::min(next_, times.gated_from);
        }
    }
    if (next_ >= end_) next_ = ~Picoseconds{0};
}

}  // namespace kpu::traces
