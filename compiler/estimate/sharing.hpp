#pragma once

#include <cstddef>
#include <vector>

namespace kpu::estimate {

/// A transfer on its way: what it takes of each resource, in cycles of the resource, and how far it has come.
struct Flow {
    double bytes = 0;
    double alone = 1;            ///< cycles that it takes at least
    double issue = 1;            ///< cycles in which its unit asks for all of it
    double window = 0;           ///< bytes that it may ask for and not have yet
    std::vector<double> demand;  ///< indexed by resource
    double closing = 0;          ///< the same, of rows that lie apart, beside another one with such rows
    /// Part of a flow that writes to DRAM: what it takes more of the pins while others read.
    double turning = 0;
    double begin = 0;  ///< when its unit begins to ask
    double left = 1;   ///< share that is still to come
    double rate = 0;   ///< share per cycle
    double ahead = 0;  ///< bytes that others asked for before it began, and do not have yet

    /// Returns the bytes that it has asked for and does not have: they wait where the way is narrow.
    double queued(double now) const;
};

/// DRAM's pins, of the resources.
constexpr size_t ddr_pins = 0;

/// Flows through resources that serve who asks first. A flow that begins finds the queue of the others before it;
/// then, as each asks for more when it gets some, all get the same bytes per cycle, but none more than it can take, nor a
/// resource more than it has: what one cannot use the others get.
class Sharing {
  public:
    explicit Sharing(size_t resources, size_t unqueued) : resources_(resources), unqueued_(unqueued) {}

    void add(Flow& flow, double now);
    /// Returns when the next one is through, or has come to the head of the queue; infinite: never.
    double next(double now) const;
    /// Moves all; result: those that are through, in the order in which they began.
    std::vector<Flow*> advance(double from, double to);

  private:
    void share();
    bool meet(const Flow& a, const Flow& b) const;
    double passing(const Flow& waiting) const;

    size_t resources_, unqueued_;  ///< unqueued_: a resource too wide for a queue
    std::vector<Flow*> flows_;
};

}  // namespace kpu::estimate
