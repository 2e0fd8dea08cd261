#pragma once

#include <array>
#include <boost/intrusive_ptr.hpp>
#include <cstdint>

namespace kpu {

/// A set of numbers below 2^21. A tree whose parts are shared: a copy costs nothing, and sets that grow out of
/// each other, or that have most of the numbers, take and are combined in little more than what they differ in.
/// Sets that were copied from each other belong to one thread.
class NumberSet {
  public:
    static constexpr uint32_t end = uint32_t{1} << 21;

    void insert(uint32_t n);
    bool contains(uint32_t n) const;
    /// True if all numbers of [first, last) are in the set.
    bool contains_all(uint32_t first, uint32_t last) const { return has_all(root_.get(), 0, 0, first, last); }
    bool empty() const { return root_ == nullptr; }
    /// Adds the numbers of `other` that lie in [first, last).
    void add(const NumberSet& other, uint32_t first = 0, uint32_t last = end);
    void remove(const NumberSet& other) { root_ = without(root_.get(), other.root_.get(), 0); }

  private:
    static constexpr int levels = 4;       ///< levels of inner nodes
    static constexpr uint32_t fan = 8;     ///< parts of an inner node, words of a leaf
    static constexpr uint32_t leaf = 512;  ///< numbers
    struct Node;
    using Ref = boost::intrusive_ptr<const Node>;  ///< null: none of the numbers
    struct Node {
        std::array<Ref, fan> part;          ///< parts of an inner node
        std::array<uint64_t, fan> words{};  ///< bits of a leaf
        /// References; those of full_node, which threads share, are not counted.
        mutable uint32_t uses = 0;

        void take() const {
            if (this != &full_node) ++uses;
        }
        void drop() const {
            if (this != &full_node && --uses == 0) delete this;
        }
        friend void intrusive_ptr_add_ref(const Node* node) { node->take(); }
        friend void intrusive_ptr_release(const Node* node) { node->drop(); }
    };
    static const Node full_node;  ///< all of the numbers, on any level

    static uint32_t span(int level);
    static const Node* part_of(const Node* node, uint32_t i);
    static uint64_t word_of(const Node* node, uint32_t i);
    static Ref made_of(Node&& node, int level, const Node* a, const Node* b);
    static Ref with(const Node* node, int level, uint32_t n);
    static Ref unite(const Node* a, const Node* b, int level);
    static Ref unite(const Node* a, const Node* b, int level, uint32_t base, uint32_t first, uint32_t last);
    static Ref without(const Node* a, const Node* b, int level);
    static bool has_all(const Node* node, int level, uint32_t base, uint32_t first, uint32_t last);

    Ref root_;
};

}  // namespace kpu
