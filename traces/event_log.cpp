#include "traces/event_log.hpp"

#include <algorithm>

namespace kpu::traces {

void EventLog::grow() {
    chunks_.push_back(std::make_unique<Event[]>(chunk_events));
    used_ = 0;
}

std::vector<Event> EventLog::take_sorted() {
    std::vector<Event> events;
    events.reserve(size());
    for (size_t i = 0; i < chunks_.size(); ++i) {
        const size_t count = i + 1 == chunks_.size() ? used_ : chunk_events;
        events.insert(events.end(), chunks_[i].get(), chunks_[i].get() + count);
        chunks_[i].reset();
    }
    chunks_.clear();
    used_ = chunk_events;
    const auto earlier = [](const Event& a, const Event& b) { return a.time_ps < b.time_ps; };
    if (!std::is_sorted(events.begin(), events.end(), earlier)) {
        std::stable_sort(events.begin(), events.end(), earlier);
    }
    return events;
}

}  // namespace kpu::traces
