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
    uint32_t turn;  ///< order of arrival in its own queue, whose numbers may lie far apart
    uint16_t bank;
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

    uint32_t size() const { return size_; }
    bool full() const { return free_.empty(); }
    bool empty() const { return size_ == 0; }
    const List& list(uint32_t bank) const { return lists_[bank]; }
    const Entry& entry(uint16_t index) const { return entries_[index]; }
    const Entry& head(uint32_t bank) const { return entries_[lists_[bank].head]; }
    const Entry& hit(uint32_t bank) const { return entries_[lists_[bank].hit]; }
    /// The oldest burst of all banks, when it is the next to the open row of its own; else null.
    const Entry* oldest_hit() const {
        if (size_ == 0) return nullptr;
        const uint16_t index = at_turn(first_turn_);
        const Entry& oldest = entries_[index];
        return lists_[oldest.bank].hit == index ? &oldest : nullptr;
    }
    /// Order of arrival of the oldest burst, and of the oldest to the open row.
    uint64_t head_number(uint32_t bank) const { return head_number_[bank]; }
    uint64_t hit_number(uint32_t bank) const { return hit_number_[bank]; }

    /// Adds the youngest burst. `open_row`: that of the bank, or no_row.
    void push(uint32_t bank, uint32_t open_row, const Entry& entry) {
        const uint16_t index = free_.back();
        free_.pop_back();
        ++size_;
        List& list = lists_[bank];
        Entry& added = entries_[index];
        added = entry;
        added.bank = static_cast<uint16_t>(bank);
        added.next = none;
        added.previous = list.tail;
        added.turn = next_turn_++;
        if (next_turn_ - first_turn_ > turns_.size()) grow_turns();
        at_turn(added.turn) = index;
        if (list.tail == none) {
            list.head = index;
            head_number_[bank] = entry.number;
        } else {
            entries_[list.tail].next = index;
        }
        list.tail = index;
        if (entry.row == open_row && list.hits++ == 0) set_hit(bank, index);
    }

    /// Removes the oldest burst to the open row.
    void pop_hit(uint32_t bank) {
        List& list = lists_[bank];
        const uint16_t index = list.hit;
        const Entry& entry = entries_[index];
        if (entry.previous == none) {
            list.head = entry.next;
            if (entry.next != none) head_number_[bank] = entries_[entry.next].number;
        } else {
            entries_[entry.previous].next = entry.next;
        }
        (entry.next == none ? list.tail : entries_[entry.next].previous) = entry.previous;
        if (--list.hits == 0)
            list.hit = none;
        else
            set_hit(bank, find(entry.next, entry.row));
        free_.push_back(index);
        --size_;
        at_turn(entry.turn) = none;
        while (first_turn_ != next_turn_ && at_turn(first_turn_) == none) ++first_turn_;
    }

    /// A row was opened.
    void open(uint32_t bank, uint32_t row) {
        List& list = lists_[bank];
        list.hit = none;
        list.hits = 0;
        for (uint16_t i = list.head; i != none; i = entries_[i].next) {
            if (entries_[i].row == row && list.hits++ == 0) set_hit(bank, i);
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
    void set_hit(uint32_t bank, uint16_t index) {
        lists_[bank].hit = index;
        hit_number_[bank] = entries_[index].number;
    }
    uint16_t& at_turn(uint32_t turn) { return turns_[turn & (turns_.size() - 1)]; }
    uint16_t at_turn(uint32_t turn) const { return turns_[turn & (turns_.size() - 1)]; }
    void grow_turns() {
        std::vector<uint16_t> larger(2 * turns_.size(), none);
        for (uint32_t t = first_turn_; t != next_turn_ - 1; ++t) larger[t & (larger.size() - 1)] = at_turn(t);
        turns_.swap(larger);
    }
    uint16_t find(uint16_t from, uint32_t row) const {
        while (entries_[from].row != row) from = entries_[from].next;
        return from;
    }

    std::vector<Entry> entries_;
    std::vector<uint16_t> free_;
    uint32_t size_ = 0;
    std::vector<uint16_t> turns_ = std::vector<uint16_t>(128, none);  ///< ring, a power of two: by turn
    uint32_t first_turn_ = 0, next_turn_ = 0;                         ///< of the oldest, of the next to come
    std::array<List, max_banks> lists_{};
    std::array<uint64_t, max_banks> head_number_{}, hit_number_{};
};

}  // namespace kpu::dram
