#include "traces/event_log.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <new>
#include <type_traits>

namespace kpu::traces {

namespace {

constexpr size_t first_bytes = 32 << 10;
constexpr size_t huge_page_bytes = 2 << 20;

}  // namespace

/// Chunks double up to a huge page: the first touch of small pages would cost as much as the records.
template <typename T>
void EventLog::Chunks<T>::grow() {
    static_assert(std::is_trivially_copyable_v<T> && huge_page_bytes % sizeof(T) == 0);
    const size_t bytes =
        chunks_.empty() ? first_bytes : std::min(huge_page_bytes, 2 * chunks_.back().capacity * sizeof(T));
    const bool huge = bytes == huge_page_bytes;
    void* const memory = huge ? std::aligned_alloc(huge_page_bytes, bytes) : std::malloc(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    if (huge) madvise(memory, bytes, MADV_HUGEPAGE);  // a hint: it may be refused
    next_ = static_cast<T*>(memory);
    end_ = next_ + bytes / sizeof(T);
    chunks_.push_back({std::unique_ptr<T, Free>(next_), bytes / sizeof(T)});
}

/// Hands out every item, and its memory back chunk by chunk.
template <typename T>
template <typename Function>
void EventLog::Chunks<T>::take(Function each) {
    for (Chunk& chunk : chunks_) {
        const T* const first = chunk.items.get();
        const T* const last = &chunk == &chunks_.back() ? next_ : first + chunk.capacity;
        std::for_each(first, last, each);
        chunk.items.reset();
    }
    chunks_.clear();
    next_ = end_ = nullptr;
}

void EventLog::pulse(uint16_t unit, Cause cause, Picoseconds from, Picoseconds to) {
    if (to - from > std::numeric_limits<uint32_t>::max()) return EventSink::pulse(unit, cause, from, to);
    pulses_.add({from, static_cast<uint32_t>(to - from), unit, cause});
}

std::vector<Event> EventLog::take_sorted() {
    std::vector<Event> events;
    events.reserve(size());
    records_.take([&](const Event& event) { events.push_back(event); });
    pulses_.take([&](const Pulse& pulse) {
        events.push_back(state_record(pulse.unit, pulse.cause, pulse.from));
        events.push_back(state_record(pulse.unit, Cause::idle_no_work, pulse.from + pulse.length));
    });
    const auto earlier = [](const Event& a, const Event& b) { return a.time_ps < b.time_ps; };
    if (!std::is_sorted(events.begin(), events.end(), earlier)) {
        std::stable_sort(events.begin(), events.end(), earlier);
    }
    return events;
}

}  // namespace kpu::traces
