#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "traces/event.hpp"

namespace kpu::traces {

/// Keeps every record of a run in memory, 32 bytes each.
class EventLog final : public EventSink {
  public:
    void record(const Event& event) override {
        if (used_ == chunk_events) grow();
        chunks_.back()[used_++] = event;
    }
    size_t size() const { return chunks_.empty() ? 0 : (chunks_.size() - 1) * chunk_events + used_; }
    /// The records in order of (time, arrival); empties the log. Every writer wants them so.
    std::vector<Event> take_sorted();

  private:
    static constexpr size_t chunk_events = 1 << 15;
    void grow();
    std::vector<std::unique_ptr<Event[]>> chunks_;
    size_t used_ = chunk_events;
};

}  // namespace kpu::traces
