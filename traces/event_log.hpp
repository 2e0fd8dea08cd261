#pragma once

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

#include "traces/events.hpp"

namespace kpu::traces {

/// Keeps every record of a run: 32 bytes each, 16 for the two of a pulse. In memory, and when that is used up, on disk.
class EventLog final : public EventSink {
  public:
    static constexpr size_t usual_memory = 64 << 20;
    /// `memory`: bytes of records that are kept before they go to disk; to put these in order takes twice as much.
    explicit EventLog(size_t memory = usual_memory) : memory_(memory) {}

    /// Never throws: a model that calls it in the middle of a step could not go on. What the disk does not take
    /// is lost, and take_sorted() says so.
    void record(const Event& event) override {
        if (records_.full() && records_.bytes() >= memory_) spill_records();
        records_.add(event);
    }
    void pulse(uint16_t unit, Cause cause, Picoseconds from, Picoseconds to) override;
    size_t size() const { return (disk_ ? disk_->size : 0) + records_.size() + 2 * pulses_.size(); }
    /// Returns the records in order of (time, arrival), pulses after the others; empties the log. Every
    /// writer wants them so. Throws UserError when the disk did not take them.
    Events take_sorted();

  private:
    struct Pulse {
        Picoseconds from;
        uint32_t length;
        uint16_t unit;
        Cause cause;
    };
    static_assert(sizeof(Pulse) == 16);

    /// A list that grows without moving, in memory that is touched only as far as it is filled.
    template <typename T>
    class Chunks {
      public:
        void add(const T& item) {
            if (next_ == end_) grow();
            *next_++ = item;
        }
        size_t size() const { return bytes() / sizeof(T) - static_cast<size_t>(end_ - next_); }
        bool full() const { return next_ == end_; }  ///< the next item takes a new chunk
        size_t bytes() const {                       ///< size of all chunks
            size_t items = 0;
            for (const Chunk& chunk : chunks_) items += chunk.capacity;
            return items * sizeof(T);
        }
        template <typename Function>
        void take(Function each);

      private:
        struct Free {
            void operator()(T* items) const { std::free(items); }
        };
        struct Chunk {
            std::unique_ptr<T, Free> items;
            size_t capacity;
        };
        void grow();

        std::vector<Chunk> chunks_;  ///< all full but the last
        T* next_ = nullptr;
        T* end_ = nullptr;
    };

    std::vector<Event> take_records();
    void take_pulses(std::vector<Event>& events);
    void spill_records();
    void spill_pulses();
    void spill(std::vector<Event> events);  ///< nothing after a failure

    size_t memory_;
    Chunks<Event> records_;
    Chunks<Pulse> pulses_;
    std::exception_ptr failure_;
    std::shared_ptr<EventRuns> disk_;         ///< none as long as memory suffices
    std::vector<EventRuns::Run> pulse_runs_;  ///< runs of pulses, which stand after all others
};

}  // namespace kpu::traces
