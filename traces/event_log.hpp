#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

#include "traces/event.hpp"

namespace kpu::traces {

/// Keeps every record of a run in memory: 32 bytes each, 16 for the two of a pulse.
class EventLog final : public EventSink {
  public:
    void record(const Event& event) override { records_.add(event); }
    void pulse(uint16_t unit, Cause cause, Picoseconds from, Picoseconds to) override;
    size_t size() const { return records_.size() + 2 * pulses_.size(); }
    /// The records in order of (time, arrival), pulses behind the others; empties the log. Every writer wants
    /// them so.
    std::vector<Event> take_sorted();

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
        size_t size() const {
            size_t size = 0;
            for (const Chunk& chunk : chunks_) size += chunk.capacity;
            return size - static_cast<size_t>(end_ - next_);
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

    Chunks<Event> records_;
    Chunks<Pulse> pulses_;
};

}  // namespace kpu::traces
