#include "base/chain_clock.hpp"

#include <algorithm>

namespace kpu {

struct ChainClock::Node {
    explicit Node(uint32_t h) : height(h) {}
    mutable uint32_t uses = 0;
    uint32_t height;  ///< 0: a leaf
};

struct ChainClock::Leaf : Node {
    Leaf() : Node(0) {}
    std::array<uint32_t, 1 << leaf_bits> count{};
};

struct ChainClock::Inner : Node {
    explicit Inner(uint32_t h) : Node(h) {}
    std::array<Ref, 1 << fan_bits> part;
};

const ChainClock::Leaf& ChainClock::leaf(const Node& node) { return static_cast<const Leaf&>(node); }
const ChainClock::Inner& ChainClock::inner(const Node& node) { return static_cast<const Inner&>(node); }

void intrusive_ptr_add_ref(const ChainClock::Node* node) { ++node->uses; }

void intrusive_ptr_release(const ChainClock::Node* node) {
    if (--node->uses > 0) return;
    if (node->height == 0)
        delete static_cast<const ChainClock::Leaf*>(node);
    else
        delete static_cast<const ChainClock::Inner*>(node);
}

/// True if a tree of that height has a place for the chain.
bool ChainClock::fits(uint32_t chain, uint32_t height) {
    const uint32_t bits = leaf_bits + height * fan_bits;
    return bits >= 32 || chain >> bits == 0;
}

uint32_t ChainClock::at(uint32_t chain) const {
    const Node* node = root_.get();
    if (node == nullptr || !fits(chain, node->height)) return 0;
    while (node->height > 0) {
        const uint32_t shift = leaf_bits + (node->height - 1) * fan_bits;
        node = inner(*node).part[chain >> shift & ((1U << fan_bits) - 1)].get();
        if (node == nullptr) return 0;
    }
    return leaf(*node).count[chain & ((1U << leaf_bits) - 1)];
}

/// Returns the same tree with a root of this height.
ChainClock::Ref ChainClock::under(Ref root, uint32_t height) {
    while (root != nullptr && root->height < height) {
        auto* above = new Inner(root->height + 1);
        above->part[0] = std::move(root);
        root = above;
    }
    return root;
}

void ChainClock::raise(uint32_t chain, uint32_t count) {
    if (count == 0 || at(chain) >= count) return;
    uint32_t height = root_ == nullptr ? 0 : root_->height;
    while (!fits(chain, height)) ++height;
    root_ = with(under(std::move(root_), height).get(), height, chain, count);
}

ChainClock::Ref ChainClock::with(const Node* node, uint32_t height, uint32_t chain, uint32_t count) {
    if (height == 0) {
        auto* changed = new Leaf;
        if (node != nullptr) changed->count = leaf(*node).count;
        changed->count[chain & ((1U << leaf_bits) - 1)] = count;
        return changed;
    }
    auto* changed = new Inner(height);
    if (node != nullptr) changed->part = inner(*node).part;
    const uint32_t shift = leaf_bits + (height - 1) * fan_bits;
    Ref& part = changed->part[chain >> shift & ((1U << fan_bits) - 1)];
    part = with(part.get(), height - 1, chain, count);
    return changed;
}

void ChainClock::add(const ChainClock& other) {
    if (other.root_ == nullptr || root_ == other.root_) return;
    if (root_ == nullptr) {
        root_ = other.root_;
        return;
    }
    const uint32_t height = std::max(root_->height, other.root_->height);
    const Ref a = under(root_, height), b = under(other.root_, height);
    root_ = join(a.get(), b.get());
}

/// Takes a or b where they say it all.
ChainClock::Ref ChainClock::join(const Node* a, const Node* b) {
    if (a == b || b == nullptr) return a;
    if (a == nullptr) return b;
    bool as_a = true, as_b = true;
    if (a->height == 0) {
        const auto &x = leaf(*a).count, &y = leaf(*b).count;
        for (size_t i = 0; i < x.size(); ++i) {
            as_a = as_a && x[i] >= y[i];
            as_b = as_b && y[i] >= x[i];
        }
        if (as_a || as_b) return as_a ? a : b;
        auto* both = new Leaf;
        for (size_t i = 0; i < x.size(); ++i) both->count[i] = std::max(x[i], y[i]);
        return both;
    }
    std::array<Ref, 1 << fan_bits> part;
    for (size_t i = 0; i < part.size(); ++i) {
        const Ref &x = inner(*a).part[i], &y = inner(*b).part[i];
        part[i] = join(x.get(), y.get());
        as_a = as_a && part[i] == x;
        as_b = as_b && part[i] == y;
    }
    if (as_a || as_b) return as_a ? a : b;
    auto* both = new Inner(a->height);
    both->part = std::move(part);
    return both;
}

}  // namespace kpu
