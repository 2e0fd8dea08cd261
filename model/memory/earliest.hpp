#pragma once

#include <algorithm>
#include <vector>

#include "model/stream/stream.hpp"

namespace kpu::model {

/// The earliest of many times that change one at a time: a tree of minima. Of equal times the one at the
/// lowest place is first.
class Earliest {
  public:
    /// Assigns new times for `count` places: time_of(place).
    template <typename TimeOf>
    void assign(size_t count, TimeOf time_of) {
        leaves_ = 2;
        while (leaves_ < count) leaves_ *= 2;
        if (tree_.size() < 2 * leaves_) tree_.resize(2 * leaves_);
        for (size_t place = 0; place < leaves_; ++place)
            tree_[leaves_ + place] = place < count ? time_of(place) : never;
        for (size_t node = leaves_ - 1; node > 0; --node)
            tree_[node] = std::min(tree_[2 * node], tree_[2 * node + 1]);
    }
    void set(size_t place, Cycles time) {
        Cycles* const tree = tree_.data();
        size_t node = leaves_ + place;
        tree[node] = time;
        do {
            time = std::min(time, tree[node ^ 1]);
            node /= 2;
            tree[node] = time;
        } while (node > 1);
    }
    Cycles time() const { return tree_[1]; }

    struct First {
        size_t place;
        Cycles until;  ///< never of the others has a time before this
    };
    First first() const {
        const Cycles* const tree = tree_.data();
        const Cycles least = tree[1];
        size_t node = 1;
        Cycles until = never;
        do {
            node *= 2;
            const Cycles left = tree[node], right = tree[node + 1];
            const bool go_right = left != least;
            until = std::min(until, go_right ? left : right);
            node += go_right ? 1 : 0;
        } while (node < leaves_);
        return {node - leaves_, until};
    }

  private:
    size_t leaves_ = 2;  ///< a power of two
    std::vector<Cycles> tree_ = {never, never, never, never};
};

}  // namespace kpu::model
