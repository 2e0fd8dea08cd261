#include "base/number_set.hpp"

#include <algorithm>

namespace kpu {
namespace {

constexpr uint64_t all_bits = ~uint64_t{0};

/// Returns the bits of [first, last) in the word that begins at `base`.
uint64_t bits_between(uint64_t base, uint64_t first, uint64_t last) {
    const uint64_t from = std::max(first, base) - base, to = std::min(last, base + 64);
    if (from >= 64 || to <= base || to - base <= from) return 0;
    const uint64_t below = to - base == 64 ? all_bits : (uint64_t{1} << (to - base)) - 1;
    return below & all_bits << from;
}

}  // namespace

uint32_t NumberSet::span(int level) {
    uint32_t numbers = leaf;
    for (; level < levels; ++level) numbers *= fan;
    return numbers;
}

const NumberSet::Node NumberSet::full_node;

const NumberSet::Node* NumberSet::part_of(const Node* node, uint32_t i) {
    return node == nullptr || node == &full_node ? node : node->part[i].get();
}

uint64_t NumberSet::word_of(const Node* node, uint32_t i) {
    if (node == nullptr) return 0;
    return node == &full_node ? all_bits : node->words[i];
}

/// Takes a or b where they say the same, and nothing or all where that is so.
NumberSet::Ref NumberSet::made_of(Node&& node, int level, const Node* a, const Node* b) {
    for (const Node* known : {a, b, static_cast<const Node*>(nullptr), &full_node}) {
        uint32_t same = 0;
        if (level == levels)
            while (same < fan && node.words[same] == word_of(known, same)) ++same;
        else
            while (same < fan && node.part[same] == part_of(known, same)) ++same;
        if (same == fan) return known;
    }
    return new Node(std::move(node));
}

void NumberSet::insert(uint32_t n) { root_ = with(root_.get(), 0, n); }

NumberSet::Ref NumberSet::with(const Node* node, int level, uint32_t n) {
    if (node == &full_node) return node;
    Node changed;
    if (node != nullptr) {  // but not its count
        changed.part = node->part;
        changed.words = node->words;
    }
    if (level == levels) {
        changed.words[n / 64] |= uint64_t{1} << n % 64;
    } else {
        const uint32_t numbers = span(level + 1);
        Ref& part = changed.part[n / numbers];
        part = with(part.get(), level + 1, n % numbers);
    }
    return made_of(std::move(changed), level, node, nullptr);
}

bool NumberSet::contains(uint32_t n) const {
    const Node* node = root_.get();
    uint32_t numbers = leaf * fan * fan * fan;
    for (int level = 0; level < levels; ++level, numbers /= fan) {
        if (node == nullptr || node == &full_node) return node != nullptr;
        node = node->part[n / numbers].get();
        n %= numbers;
    }
    return (word_of(node, n / 64) >> n % 64 & 1) != 0;
}

bool NumberSet::has_all(const Node* node, int level, uint32_t base, uint32_t first, uint32_t last) {
    const uint32_t numbers = span(level);
    if (first >= last || last <= base || first >= base + numbers || node == &full_node) return true;
    if (node == nullptr) return false;
    for (uint32_t i = 0; i < fan; ++i) {
        if (level < levels) {
            const uint32_t inner = span(level + 1);
            if (!has_all(node->part[i].get(), level + 1, base + i * inner, first, last)) return false;
        } else if (const uint64_t wanted = bits_between(base + i * 64, first, last)) {
            if ((node->words[i] & wanted) != wanted) return false;
        }
    }
    return true;
}

void NumberSet::add(const NumberSet& other, uint32_t first, uint32_t last) {
    if (first >= last) return;
    root_ = unite(root_.get(), other.root_.get(), 0, 0, first, last);
}

NumberSet::Ref NumberSet::unite(const Node* a, const Node* b, int level) {
    if (a == b || b == nullptr || a == &full_node) return a;
    if (a == nullptr || b == &full_node) return b;
    Node both;
    for (uint32_t i = 0; i < fan; ++i) {
        if (level == levels)
            both.words[i] = a->words[i] | b->words[i];
        else
            both.part[i] = unite(a->part[i].get(), b->part[i].get(), level + 1);
    }
    return made_of(std::move(both), level, a, b);
}

NumberSet::Ref NumberSet::unite(const Node* a, const Node* b, int level, uint32_t base, uint32_t first,
                                uint32_t last) {
    const uint32_t numbers = span(level);
    if (last <= base || first >= base + numbers || a == &full_node) return a;
    if (first <= base && last >= base + numbers) return unite(a, b, level);
    Node both;
    for (uint32_t i = 0; i < fan; ++i) {
        if (level == levels) {
            both.words[i] = word_of(a, i) | (word_of(b, i) & bits_between(base + i * 64, first, last));
        } else {
            both.part[i] =
                unite(part_of(a, i), part_of(b, i), level + 1, base + i * span(level + 1), first, last);
        }
    }
    return made_of(std::move(both), level, a, nullptr);
}

NumberSet::Ref NumberSet::without(const Node* a, const Node* b, int level) {
    if (a == nullptr || b == nullptr) return a;
    if (a == b || b == &full_node) return {};
    Node rest;
    for (uint32_t i = 0; i < fan; ++i) {
        if (level == levels)
            rest.words[i] = word_of(a, i) & ~word_of(b, i);
        else
            rest.part[i] = without(part_of(a, i), part_of(b, i), level + 1);
    }
    return made_of(std::move(rest), level, a, nullptr);
}

}  // namespace kpu
