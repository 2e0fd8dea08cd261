#include "compiler/estimate/sharing.hpp"

#include <algorithm>
#include <limits>

namespace kpu::estimate {
namespace {

void share_evenly(std::vector<Flow*> open, size_t resources) {
    std::vector<double> used(resources, 0), asked(resources, 0);
    const auto reads = [](const Flow* flow) { return flow->demand[ddr_pins] > 0 && flow->turning == 0; };
    const auto closes = [](const Flow* flow) { return flow->closing > 0; };
    const auto writes = [](const Flow* flow) { return flow->turning > 0; };
    // all move as many bytes: the bus turns for as many writes as there are reads to turn to
    const auto readers = double(std::count_if(open.begin(), open.end(), reads));
    const auto writers = double(std::count_if(open.begin(), open.end(), writes));
    const double turns = writers > 0 ? std::min(1.0, readers / writers) : 0;
    const bool closed = std::count_if(open.begin(), open.end(), closes) > 1;
    const auto demand = [turns, closed](const Flow* flow, size_t r) {
        if (r != ddr_pins) return flow->demand[r];
        return flow->demand[r] + turns * flow->turning + (closed ? flow->closing : 0);
    };
    for (const Flow* flow : open) {
        for (size_t r = 0; r < resources; ++r) asked[r] += demand(flow, r) / flow->bytes;
    }
    while (!open.empty()) {
        // bytes per cycle at which the next resource is full, or the next flow as fast as it can be
        double level = std::numeric_limits<double>::infinity();
        for (size_t r = 0; r < resources; ++r) {
            if (asked[r] > 0) level = std::min(level, std::max(0.0, 1 - used[r]) / asked[r]);
        }
        for (const Flow* flow : open) level = std::min(level, flow->bytes / flow->alone);
        constexpr double near = 1 + 1e-9;
        const auto stops = [&](const Flow* flow) {
            if (flow->bytes / flow->alone <= level * near) return true;
            for (size_t r = 0; r < resources; ++r) {
                if (demand(flow, r) > 0 && (1 - used[r]) <= level * asked[r] * near) return true;
            }
            return false;
        };
        const auto rest =
            std::stable_partition(open.begin(), open.end(), [&](const Flow* flow) { return !stops(flow); });
        for (auto it = rest; it != open.end(); ++it) (*it)->rate = level / (*it)->bytes;
        for (auto it = rest; it != open.end(); ++it) {
            for (size_t r = 0; r < resources; ++r) {
                asked[r] -= demand(*it, r) / (*it)->bytes;
                used[r] += demand(*it, r) * (*it)->rate;
            }
        }
        if (rest == open.end()) break;  // cannot be: the lowest level stops somebody
        open.erase(rest, open.end());
    }
}

/// Cycles that count as none: far above the rounding of any time, far below what anybody sees.
constexpr double instant = 1e-4;

}  // namespace

double Flow::queued(double now) const {
    const double moved = (1 - left) * bytes;
    const double asked = std::min({bytes, moved + window, bytes * (now - begin) / issue});
    return std::max(0.0, asked - moved);
}

bool Sharing::meet(const Flow& a, const Flow& b) const {
    for (size_t r = 0; r < resources_; ++r) {
        if (r != unqueued_ && a.demand[r] > 0 && b.demand[r] > 0) return true;
    }
    return false;
}

void Sharing::add(Flow& flow, double now) {
    flow.begin = now;
    flow.ahead = 0;
    for (const Flow* other : flows_) {
        if (meet(flow, *other)) flow.ahead += other->queued(now);
    }
    flows_.push_back(&flow);
    share();
}

/// Returns the bytes per cycle of what stands before a flow.
double Sharing::passing(const Flow& waiting) const {
    double sum = 0;
    for (const Flow* other : flows_) {
        if (other != &waiting && meet(waiting, *other)) sum += other->rate * other->bytes;
    }
    return sum;
}

void Sharing::share() {
    for (bool again = true; again;) {
        std::vector<Flow*> moving;
        for (Flow* flow : flows_) {
            flow->rate = 0;
            if (flow->ahead <= 0) moving.push_back(flow);
        }
        share_evenly(std::move(moving), resources_);
        again = false;
        for (Flow* flow : flows_) {
            if (flow->ahead <= 0 || passing(*flow) > 0) continue;
            flow->ahead = 0;  // nobody stands before it
            again = true;
            break;
        }
    }
}

double Sharing::next(double now) const {
    double next = std::numeric_limits<double>::infinity();
    for (const Flow* flow : flows_)
        next =
            std::min(next, now + (flow->ahead > 0 ? flow->ahead / passing(*flow) : flow->left / flow->rate));
    return next;
}

std::vector<Flow*> Sharing::advance(double from, double to) {
    std::vector<Flow*> through, at_head;
    for (Flow* flow : flows_) {
        if (flow->ahead <= 0) continue;
        const double passes = passing(*flow);
        flow->ahead -= (to - from) * passes;
        if (flow->ahead <= passes * instant) at_head.push_back(flow);
    }
    for (Flow* flow : at_head) flow->ahead = 0;
    for (Flow* flow : flows_) {
        if (flow->rate <= 0) continue;
        flow->left -= (to - from) * flow->rate;
        if (flow->left <= flow->rate * instant) through.push_back(flow);
    }
    for (const Flow* flow : through) flows_.erase(std::find(flows_.begin(), flows_.end(), flow));
    if (!at_head.empty() || !through.empty()) share();
    return through;
}

}  // namespace kpu::estimate
