#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kpu {

/// Rows of a short table by a name that they have, for readers that look up every word of a text: a hash of a few
/// characters, and one comparison.
template <typename Row>
class NameIndex {
  public:
    /// Takes the rows whose name is not empty; of several with one name the first counts. They have to stay where they are.
    template <typename Rows>
    NameIndex(const Rows& rows, std::string_view Row::*name) : name_(name) {
        size_t slots = 8;
        while (slots < 4 * static_cast<size_t>(rows.size())) slots *= 2;
        slots_.resize(slots);
        for (const Row& row : rows)
            if (!(row.*name).empty() && find(row.*name) == nullptr) slots_[slot_of(row.*name)] = &row;
    }

    const Row* find(std::string_view text) const { return text.empty() ? nullptr : slots_[slot_of(text)]; }

  private:
    /// Returns the slot that holds the row, or would hold it.
    size_t slot_of(std::string_view text) const {
        const auto at = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])); };
        size_t slot = text.size() + at(0) * 7 + at(text.size() / 2) * 61 + at(text.size() - 1) * 293;
        for (;; ++slot) {
            const Row* const row = slots_[slot & (slots_.size() - 1)];
            if (row == nullptr || row->*name_ == text) return slot & (slots_.size() - 1);
        }
    }

    std::string_view Row::*name_;
    std::vector<const Row*> slots_;  ///< a power of two, most of them empty
};

}  // namespace kpu
