#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "base/types.hpp"

namespace kpu::traces {

/// Finds which of the values of an interval held longest; of those that held as long, the one that came
/// first.
template <typename Value>
class Majority {
  public:
    void add(const Value& value, Picoseconds length) {
        for (auto& [known, time] : times_) {
            if (!(known == value)) continue;
            time += length;
            return;
        }
        times_.emplace_back(value, length);
    }
    bool empty() const { return times_.empty(); }
    /// Begins anew.
    Value take() {
        const auto most = std::max_element(times_.begin(), times_.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
        Value value = most->first;
        times_.clear();
        return value;
    }

  private:
    std::vector<std::pair<Value, Picoseconds>> times_;  ///< few
};

/// Thins stretches that follow each other: in each interval of `every` picoseconds the key that held longest, as the
/// value of its longest stretch. Passes stretches of equal values as one.
template <typename Value>
class Sampler {
  public:
    using Key = std::function<int64_t(const Value&)>;
    using Visit = std::function<void(const Value&, Picoseconds from, Picoseconds to)>;
    Sampler(Picoseconds every, Key key, Visit visit)
        : every_(every), key_(std::move(key)), visit_(std::move(visit)) {}

    void add(const Value& value, Picoseconds from, Picoseconds to) {
        while (from < to) {
            // what fills intervals is one part, however many they are
            const Picoseconds filled = parts_.empty() && from % every_ == 0 ? to / every_ * every_ : 0;
            const Picoseconds until = filled > from ? filled : std::min(to, from / every_ * every_ + every_);
            parts_.push_back({value, from, until});
            if (until % every_ == 0) close();
            from = until;
        }
    }
    /// Ends after the last one.
    void finish() {
        close();
        pass();
    }

  private:
    struct Part {
        Value value;
        Picoseconds from, to;
        Picoseconds length() const { return to - from; }
    };

    void close() {
        if (parts_.empty()) return;
        Majority<int64_t> keys;
        for (const Part& part : parts_) keys.add(key_(part.value), part.length());
        const int64_t key = keys.take();
        const Part* longest = nullptr;
        for (const Part& part : parts_) {
            if (key_(part.value) == key && (longest == nullptr || part.length() > longest->length()))
                longest = &part;
        }
        const Part whole{longest->value, parts_.front().from, parts_.back().to};
        if (!out_.empty() && out_.front().value == whole.value) {
            out_.front().to = whole.to;
        } else {
            pass();
            out_.push_back(whole);
        }
        parts_.clear();
    }
    void pass() {
        for (const Part& part : out_) visit_(part.value, part.from, part.to);
        out_.clear();
    }

    Picoseconds every_;
    Key key_;
    Visit visit_;
    std::vector<Part> parts_;  ///< parts of the open interval
    std::vector<Part> out_;    ///< at most one, which waits for what it may continue as
};

}  // namespace kpu::traces
