#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace kpu {

/// Values of runs of bytes: pieces that do not overlap, ordered by their first byte.
template <class Value>
class PieceMap {
  public:
    struct Piece {
        uint64_t end = 0;
        Value value;
    };
    using Map = std::map<uint64_t, Piece>;
    using Place = typename Map::iterator;

    Place begin() { return pieces_.begin(); }
    Place end() { return pieces_.end(); }
    size_t size() const { return pieces_.size(); }
    void clear() { pieces_.clear(); }
    /// Returns the first piece that begins at `at` or after it.
    Place at_or_behind(uint64_t at) { return pieces_.lower_bound(at); }
    Place erase(Place place) { return pieces_.erase(place); }
    /// Adds a piece where there is none; `hint` is the piece after it.
    Place add(Place hint, uint64_t first, uint64_t end, Value value) {
        return pieces_.emplace_hint(hint, first, Piece{end, std::move(value)});
    }

    /// Cuts the piece that spans `at`, and tells `copied` of its value. Returns the first piece that begins
    /// at `at` or after it. Runs of an operand come in rising order mostly, so the search begins at the last
    /// one: `near`.
    template <class Copied>
    Place split(uint64_t at, Place near, Copied copied) {
        const auto behind = [&](Place it) { return it == pieces_.end() || it->first >= at; };
        int steps = near == pieces_.begin() || !behind(std::prev(near)) ? near_steps : 0;
        auto next = near;
        for (; steps > 0 && !behind(next); --steps) ++next;
        if (steps == 0) next = pieces_.lower_bound(at);
        if (next == pieces_.begin()) return next;
        Piece& cut = std::prev(next)->second;
        if (cut.end <= at) return next;
        Piece rest = cut;
        copied(std::as_const(rest.value));
        cut.end = at;
        return pieces_.emplace_hint(next, at, std::move(rest));
    }

  private:
    static constexpr int near_steps = 8;  ///< pieces that are cheaper to walk over than to look up
    Map pieces_;
};

}  // namespace kpu
