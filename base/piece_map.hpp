#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace kpu {

/// What is known of runs of bytes: pieces that do not overlap, by their first byte.
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
    /// The first piece that begins at `at` or behind it.
    Place at_or_behind(uint64_t at) { return pieces_.lower_bound(at); }
    Place erase(Place place) { return pieces_.erase(place); }
    /// Where no piece is; `hint` is the piece behind it.
    Place add(Place hint, uint64_t first, uint64_t end, Value value) {
        return pieces_.emplace_hint(hint, first, Piece{end, std::move(value)});
    }

    /// No piece goes on over `at`: `copied` is told of the value of a piece that is cut. Result: the first piece that
    /// begins there or behind. Runs of an operand come in rising order mostly, so it is looked for from where the last
    /// one was: `near`.
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
