#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/scratch_file.hpp"
#include "traces/event.hpp"

namespace kpu::traces {

/// Records on disk, as runs that are each in order of time.
struct EventRuns {
    struct Run {
        uint64_t offset;  ///< bytes
        uint64_t count;   ///< records
    };
    ScratchFile file;
    std::vector<Run> runs;  ///< runs; of records of equal time, those of the earlier run come first
    size_t size = 0;        ///< records of all

    /// `events` in order of time.
    void add(const std::vector<Event>& events);
};

/// Puts records in order of time; those of equal time stay as they are.
void sort_by_time(std::vector<Event>& events);

/// The records of a run in order of time, to be read from the first to the last, as often as wanted: in memory, or,
/// when there are many, merged from disk while they are read, in some MiB of memory.
class Events {
  public:
    class Reader;
    /// Iterator of a range-based for. A reference that it gives is good until the next step.
    class Iterator {
      public:
        explicit Iterator(const Events& events);
        Iterator(Iterator&&) noexcept;
        ~Iterator();
        const Event& operator*() const { return *at_; }
        Iterator& operator++() {
            if (++at_ == end_ && reader_ != nullptr) refill();
            return *this;
        }
        bool operator!=(std::nullptr_t) const { return at_ != end_; }

      private:
        void refill();
        const Event* at_;
        const Event* end_;
        std::unique_ptr<Reader> reader_;  ///< none: all lie in memory
    };

    Events() = default;
    /// They must be in order.
    Events(std::vector<Event> events) : memory_(std::move(events)) {}  // NOLINT(google-explicit-constructor)
    explicit Events(std::shared_ptr<const EventRuns> disk) : disk_(std::move(disk)) {}

    size_t size() const { return disk_ ? disk_->size : memory_.size(); }
    bool empty() const { return size() == 0; }
    Iterator begin() const { return Iterator(*this); }
    std::nullptr_t end() const { return nullptr; }

    /// Returns all of them in one piece of memory, where they lie so; else null.
    const Event* data() const { return disk_ ? nullptr : memory_.data(); }
    /// Returns a copy in memory.
    std::vector<Event> to_vector() const;

  private:
    std::vector<Event> memory_;
    std::shared_ptr<const EventRuns> disk_;
};

}  // namespace kpu::traces
