#include "traces/component_activity.hpp"

#include <algorithm>

#include "traces/majority.hpp"

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

namespace {

/// Follows the states of all components, and passes a stretch when it ends.
class ClockWalk {
  public:
    ClockWalk(const RunInfo& info, const ClockVisit& visit)
        : activity_(info.prices, info.clock(), info.end_ps), every_(info.view.every), visit_(visit) {
        for (size_t c = 0; c < ComponentActivity::count; ++c) {
            samplers_.emplace_back(
                every_, [](const ClockState& state) { return static_cast<int64_t>(state); },
                [this, c](const ClockState& state, Picoseconds from, Picoseconds to) {
                    visit_(c, state, from, to);
                });
            open_[c] = {activity_.state(c), 0};
        }
    }

    void active(const Event& event) {
        pass_until(event.time_ps);
        activity_.active(event);
        last_ = event.time_ps;
    }
    void finish(Picoseconds end) {
        pass_until(end);
        for (size_t c = 0; c < open_.size(); ++c) {
            pass(c, end);
            if (every_ > 0) samplers_[c].finish();
        }
    }

  private:
    struct Open {
        ClockState state = ClockState::gated;
        Picoseconds since = 0;
    };
    /// Passes the changes before `time`.
    void pass_until(Picoseconds time) {
        if (activity_.changed() && last_ < time) settle(last_);
        while (activity_.next() < time) settle(activity_.next());
    }
    void settle(Picoseconds time) {
        activity_.advance(time);
        for (size_t c = 0; c < open_.size(); ++c) {
            if (activity_.state(c) == open_[c].state) continue;
            pass(c, time);
            open_[c] = {activity_.state(c), time};
        }
    }
    void pass(size_t c, Picoseconds to) {
        if (to == open_[c].since) return;
        if (every_ > 0) return samplers_[c].add(open_[c].state, open_[c].since, to);
        visit_(c, open_[c].state, open_[c].since, to);
    }

    ComponentActivity activity_;
    Picoseconds every_, last_ = 0;
    const ClockVisit& visit_;
    std::array<Open, ComponentActivity::count> open_;
    std::vector<Sampler<ClockState>> samplers_;
};

}  // namespace

void for_each_clock_state(const RunInfo& info, const Events& events, const ClockVisit& visit) {
    ClockWalk walk(info, visit);
    for (const Event& event : events) {
        if (event.time_ps >= info.end_ps) break;
        if (event.kind == EventKind::active) walk.active(event);
    }
    walk.finish(info.end_ps);
}

}  // namespace kpu::traces
