#include "traces/event_log.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "base/diagnostics.hpp"

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
    constexpr size_t growth = 2 * sizeof(Event) / sizeof(Pulse);
    if (pulses_.full() && pulses_.bytes() * growth >= memory_) spill_pulses();
    pulses_.add({from, static_cast<uint32_t>(to - from), unit, cause});
}

std::vector<Event> EventLog::take_records() {
    std::vector<Event> events;
    events.reserve(records_.size() + (disk_ ? 0 : 2 * pulses_.size()));
    records_.take([&](const Event& event) { events.push_back(event); });
    return events;
}

void EventLog::take_pulses(std::vector<Event>& events) {
    pulses_.take([&](const Pulse& pulse) {
        events.push_back(state_record(pulse.unit, pulse.cause, pulse.from));
        events.push_back(state_record(pulse.unit, Cause::idle_no_work, pulse.from + pulse.length));
    });
}

void EventLog::spill(std::vector<Event> events) {
    if (failure_) return;
    try {
        if (!disk_) disk_ = std::make_shared<EventRuns>();
        sort_by_time(events);
        disk_->add(events);
    } catch (const UserError&) {
        failure_ = std::current_exception();
    }
}

void EventLog::spill_records() { spill(take_records()); }

void EventLog::spill_pulses() {
    std::vector<Event> events;
    take_pulses(events);
    if (events.empty()) return;
    spill(std::move(events));
    if (failure_) return;
    pulse_runs_.push_back(disk_->runs.back());
    disk_->runs.pop_back();
}

Events EventLog::take_sorted() {
    if (!disk_ && !failure_) {
        std::vector<Event> events = take_records();
        take_pulses(events);
        sort_by_time(events);
        return events;
    }
    spill_records();
    spill_pulses();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    disk_->runs.insert(disk_->runs.end(), pulse_runs_.begin(), pulse_runs_.end());
    pulse_runs_.clear();
    return Events(std::exchange(disk_, nullptr));
}

}  // namespace kpu::traces
