#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/dram/address_map.hpp"

namespace kpu::dram {

/// A burst that waits.
struct Entry {
    uint64_t arrival = 0;             ///< at the controller
    uint64_t burst = 0;               ///< address / burst size
    uint64_t refresh_before = 0;      ///< Channel's sum of refresh times at arrival
    uint64_t turn_around_before = 0;  ///< Channel's sum of turn-around times at arrival
    uint32_t row = 0;
    uint32_t request = 0;  ///< whose burst it is; of a write, which is answered already, its source
};

/// The waiting bursts of one direction, numbered in order of arrival; those of a bank are linked, oldest
/// first. Numbers hold until the next push().
class RequestQueue {
  public:
    static constexpr uint64_t none = ~uint64_t{0};
    static constexpr uint32_t no_row = ~uint32_t{0};
    struct List {
        uint64_t head = none, tail = none;
        uint64_t hit = none;  ///< oldest burst to the open row
        uint32_t hits = 0;    ///< bursts to the open row
    };

    explicit RequestQueue(uint32_t capacity) : capacity_(capacity) {
        while (mask_ < 4 * uint64_t{capacity}) mask_ = 2 * mask_ + 1;
        ring_.resize(mask_ + 1);
    }

    uint32_t size() const { return size_; }
    bool full() const { return size_ >= capacity_; }
    bool empty() const { return size_ == 0; }
    const List& list(uint32_t bank) const { return lists_[bank]; }
    const Entry& entry(uint64_t number) const { return at(number).entry; }
    const Entry& head(uint32_t bank) const { return entry(lists_[bank].head); }
    const Entry& hit(uint32_t bank) const { return entry(lists_[bank].hit); }
    /// Returns the number of the oldest burst. There must be one.
    uint64_t oldest() const { return first_; }
    uint32_t bank_of(uint64_t number) const { return at(number).bank; }

    /// Adds the youngest burst. `open_row`: that of the bank, or no_row.
    void push(uint32_t bank, uint32_t open_row, const Entry& entry) {
        if (next_ - first_ > mask_) compact();
        const uint64_t number = next_++;
        Place* const ring = ring_.data();
        const uint64_t mask = mask_;
        ++size_;
        List& list = lists_[bank];
        const uint64_t last = list.tail;
        ring[number & mask] = {entry, none, last, bank, true};
        (last == none ? list.head : ring[last & mask].next) = number;
        list.tail = number;
        if (entry.row == open_row && list.hits++ == 0) list.hit = number;
    }

    /// Removes the oldest burst to the open row. What is left of the bank.
    const List& pop_hit(uint32_t bank) {
        Place* const ring = ring_.data();
        const uint64_t mask = mask_;
        List& list = lists_[bank];
        Place& popped = ring[list.hit & mask];
        const uint64_t next = popped.next, previous = popped.previous;
        popped.waits = false;
        (previous == none ? list.head : ring[previous & mask].next) = next;
        (next == none ? list.tail : ring[next & mask].previous) = previous;
        list.hit = --list.hits == 0 ? none : find(next, popped.entry.row);
        uint64_t first = first_;
        while (first != next_ && !ring[first & mask].waits) ++first;
        first_ = first;
        --size_;
        return list;
    }

    /// Notes that a row was opened.
    void open(uint32_t bank, uint32_t row) {
        List& list = lists_[bank];
        list.hit = none;
        list.hits = 0;
        const Place* const ring = ring_.data();
        const uint64_t mask = mask_;
        for (uint64_t i = list.head; i != none; i = ring[i & mask].next) {
            if (ring[i & mask].entry.row == row && list.hits++ == 0) list.hit = i;
        }
    }
    void close(uint32_t bank) {
        lists_[bank].hit = none;
        lists_[bank].hits = 0;
    }

    /// True if a burst of this bank waits for these bytes.
    bool holds(uint32_t bank, uint64_t burst) const {
        for (uint64_t i = lists_[bank].head; i != none; i = at(i).next) {
            if (at(i).entry.burst == burst) return true;
        }
        return false;
    }

  private:
    struct Place {
        Entry entry;
        uint64_t next = none, previous = none;  ///< neighbours in its bank
        uint32_t bank = 0;
        bool waits = false;
    };
    Place& at(uint64_t number) { return ring_[number & mask_]; }
    const Place& at(uint64_t number) const { return ring_[number & mask_]; }
    /// Renumbers the waiting bursts after so many went by an old one that the ring is full.
    void compact() {
        std::array<uint32_t, max_banks> open_rows;
        for (uint32_t bank = 0; bank < max_banks; ++bank)
            open_rows[bank] = lists_[bank].hit == none ? no_row : hit(bank).row;
        std::vector<Place> waiting;
        waiting.reserve(size_);
        for (uint64_t i = first_; i != next_; ++i)
            if (at(i).waits) waiting.push_back(at(i));
        lists_.fill({});
        first_ = next_ = size_ = 0;
        for (const Place& place : waiting) push(place.bank, open_rows[place.bank], place.entry);
    }
    uint64_t find(uint64_t from, uint32_t row) const {
        while (at(from).entry.row != row) from = at(from).next;
        return from;
    }

    uint32_t capacity_, size_ = 0;
    uint64_t first_ = 0, next_ = 0;  ///< numbers: of the oldest, of the next to come
    uint64_t mask_ = 63;
    std::vector<Place> ring_;  ///< places by number: all from first_ on
    std::array<List, max_banks> lists_{};
};

}  // namespace kpu::dram
