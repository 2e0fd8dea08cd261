#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/dram/address_map.hpp"

namespace kpu::dram {

/// A burst that waits.
struct Entry {
    uint64_t arrival;  ///< at the controller
    uint64_t number;   ///< order of arrival
    uint64_t burst;    ///< address / burst size
    uint64_t tag;
    uint64_t refresh_before;      ///< Channel's sum of refresh times at arrival
    uint64_t turn_around_before;  ///< Channel's sum of turn-around times at arrival
    uint32_t row;
    uint16_t next, previous;
};

/// The waiting bursts of one direction, oldest first in a list per bank, in a pool of fixed size.
class RequestQueue {
  public:
    static constexpr uint16_t none = 0xffff;
    struct List {
        uint16_t head = none, tail = none;
        uint16_t hit = none;  ///< oldest burst to the open row
        uint32_t hits = 0;    ///< bursts to the open row
    };

    explicit RequestQueue(uint32_t capacity) : entries_(capacity) {
        free_.reserve(capacity);
        for (uint32_t i = capacity; i > 0; --i) free_.push_back(static_cast<uint16_t>(i - 1));
    }

    uint32_t size() const { return static_cast<uint32_t>(entries_.size() - free_.size()); }
    bool full() const { return free_.empty(); }
    bool empty() const { return free_.size() == entries_.size(); }
    const List& list(uint32_t bank) const { return lists_[bank]; }
    const Entry& entry(uint16_t index) const { return entries_[index]; }
    const Entry& head(uint32_t bank) const { return entries_[lists_[bank].head]; }

    /// Adds the youngest burst. `open_row`: that of the bank, or no_row.
    void push(uint32_t bank, uint32_t open_row, const Entry& entry) {
        const uint16_t index = free_.back();
        free_.pop_back();
        List& list = lists_[bank];
        Entry& added = entries_[index];
        added = entry;
        added.next = none;
        added.previous = list.tail;
        (list.tail == none ? list.head : entries_[list.tail].next) = index;
        list.tail = index;
        if (entry.row == open_row) {
            if (list.hits++ == 0) list.hit = index;
        }
    }

    /// Removes the oldest burst to the open row.
    void pop_hit(uint32_t bank) {
        List& list = lists_[bank];
        const uint16_t index = list.hit;
        const Entry& entry = entries_[index];
        (entry.previous == none ? list.head : entries_[entry.previous].next) = entry.next;
        (entry.next == none ? list.tail : entries_[entry.next].previous) = entry.previous;
        list.hit = --list.hits == 0 ? none : find(entry.next, entry.row);
        free_.push_back(index);
    }

    /// A row was opened, or all closed (`row` none has).
    void open(uint32_t bank, uint32_t row) {
        List& list = lists_[bank];
        list.hit = none;
        list.hits = 0;
        for (uint16_t i = list.head; i != none; i = entries_[i].next) {
            if (entries_[i].row == row && list.hits++ == 0) list.hit = i;
        }
    }
    void close(uint32_t bank) {
        lists_[bank].hit = none;
        lists_[bank].hits = 0;
    }

    /// Whether a burst of this bank waits for these bytes.
    bool holds(uint32_t bank, uint64_t burst) const {
        for (uint16_t i = lists_[bank].head; i != none; i = entries_[i].next) {
            if (entries_[i].burst == burst) return true;
        }
        return false;
    }

  private:
    uint16_t find(uint16_t from, uint32_t row) const {
        while (entries_[from].row != row) from = entries_[from].next;
        return from;
    }

    std::vector<Entry> entries_;
    std::vector<uint16_t> free_;
    std::array<List, max_banks> lists_{};
};

}  // namespace kpu::dram
