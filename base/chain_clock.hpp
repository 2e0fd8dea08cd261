#pragma once

#include <array>
#include <boost/intrusive_ptr.hpp>
#include <cstdint>

namespace kpu {

/// Records the progress of each of a number of chains: a count per chain, 0 where nothing is known. It is a
/// tree whose parts are shared: a copy costs nothing, and clocks that grow out of each other take and are
/// joined in little more than what they differ in. Clocks that were copied from each other belong to one
/// thread.
class ChainClock {
  public:
    uint32_t at(uint32_t chain) const;
    /// Raises the chain's count to at least `count`.
    void raise(uint32_t chain, uint32_t count);
    /// Raises each chain to the larger of both counts.
    void add(const ChainClock& other);
    bool empty() const { return root_ == nullptr; }

  private:
    static constexpr uint32_t leaf_bits = 4, fan_bits = 4;
    struct Node;
    struct Leaf;
    struct Inner;
    using Ref = boost::intrusive_ptr<const Node>;  ///< null: nothing is known
    friend void intrusive_ptr_add_ref(const Node* node);
    friend void intrusive_ptr_release(const Node* node);

    static const Leaf& leaf(const Node& node);
    static const Inner& inner(const Node& node);
    static bool fits(uint32_t chain, uint32_t height);
    static Ref with(const Node* node, uint32_t height, uint32_t chain, uint32_t count);
    static Ref join(const Node* a, const Node* b);
    static Ref under(Ref root, uint32_t height);

    Ref root_;
};

}  // namespace kpu
