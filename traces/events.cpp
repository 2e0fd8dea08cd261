#include "traces/events.hpp"

#include <algorithm>
#include <functional>
#include <queue>

namespace kpu::traces {

void sort_by_time(std::vector<Event>& events) {
    const auto earlier = [](const Event& a, const Event& b) { return a.time_ps < b.time_ps; };
    if (!std::is_sorted(events.begin(), events.end(), earlier))
        std::stable_sort(events.begin(), events.end(), earlier);
}

void EventRuns::add(const std::vector<Event>& events) {
    if (events.empty()) return;
    const uint64_t offset = file.size();
    file.append(events.data(), events.size() * sizeof(Event));
    runs.push_back({offset, events.size()});
    size += events.size();
}

/// Merges the runs, a block of records at a time.
class Events::Reader {
  public:
    explicit Reader(const EventRuns& disk) : disk_(disk) {
        const size_t buffer =
            std::clamp(all_buffers / std::max<size_t>(1, disk.runs.size()), least_buffer, block_size);
        for (const EventRuns::Run& run : disk.runs) {
            cursors_.push_back(
                {run.offset, run.count, std::vector<Event>(std::min<uint64_t>(buffer, run.count))});
            load(cursors_.size() - 1);
        }
        block_.reserve(block_size);
    }

    /// Returns the next records; none at the end.
    const std::vector<Event>& next() {
        block_.clear();
        while (!heads_.empty() && block_.size() < block_size) {
            const size_t run = heads_.top().second;
            heads_.pop();
            take(run);
        }
        return block_;
    }

  private:
    struct Cursor {
        uint64_t offset, left;  ///< part that is not loaded yet
        std::vector<Event> buffer;
        size_t at = 0, filled = 0;
    };
    using Head = std::pair<Picoseconds, size_t>;  ///< time of a run's next record

    void load(size_t run) {
        Cursor& cursor = cursors_[run];
        cursor.at = 0;
        cursor.filled = static_cast<size_t>(std::min<uint64_t>(cursor.left, cursor.buffer.size()));
        if (cursor.filled == 0) return;
        disk_.file.read(cursor.offset, cursor.buffer.data(), cursor.filled * sizeof(Event));
        cursor.offset += cursor.filled * sizeof(Event);
        cursor.left -= cursor.filled;
        heads_.emplace(cursor.buffer[0].time_ps, run);
    }

    /// The run's records as long as no other has the next one: the runs of a simulation hardly overlap.
    void take(size_t run) {
        Cursor& cursor = cursors_[run];
        while (cursor.at < cursor.filled && block_.size() < block_size) {
            const Event& event = cursor.buffer[cursor.at];
            if (!heads_.empty() && Head{event.time_ps, run} > heads_.top()) break;
            block_.push_back(event);
            ++cursor.at;
        }
        if (cursor.at < cursor.filled) {
            heads_.emplace(cursor.buffer[cursor.at].time_ps, run);
        } else {
            load(run);
        }
    }

    static constexpr size_t block_size = 8192, least_buffer = 256, all_buffers = 1 << 20;  // records

    const EventRuns& disk_;
    std::vector<Cursor> cursors_;
    std::priority_queue<Head, std::vector<Head>, std::greater<>> heads_;
    std::vector<Event> block_;
};

Events::Iterator::Iterator(const Events& events)
    : at_(events.memory_.data()), end_(at_ + events.memory_.size()) {
    if (!events.disk_) return;
    reader_ = std::make_unique<Reader>(*events.disk_);
    refill();
}

Events::Iterator::Iterator(Iterator&&) noexcept = default;
Events::Iterator::~Iterator() = default;

void Events::Iterator::refill() {
    const std::vector<Event>& block = reader_->next();
    at_ = block.data();
    end_ = at_ + block.size();
}

std::vector<Event> Events::to_vector() const {
    std::vector<Event> all;
    all.reserve(size());
    for (const Event& event : *this) all.push_back(event);
    return all;
}

}  // namespace kpu::traces
