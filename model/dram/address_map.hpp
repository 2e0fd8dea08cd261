#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kpu::dram {

/// Counts of one channel, all powers of two. Banks are numbered rank, group, bank in group.
struct Geometry {
    uint32_t ranks = 1;
    uint32_t groups = 4;  ///< bank groups of a rank
    uint32_t banks_per_group = 4;
    uint32_t rows = 65536;
    uint32_t row_bytes = 8192;
    uint32_t burst_bytes = 64;

    uint32_t banks_per_rank() const { return groups * banks_per_group; }
    uint32_t banks() const { return ranks * banks_per_rank(); }
    uint64_t bytes() const { return uint64_t{banks()} * rows * row_bytes; }
};

/// Most banks of one channel, all ranks together.
constexpr uint32_t max_banks = 64;

/// Maps bits of a channel-local address to rank, bank group, bank, row and column.
class AddressMap {
  public:
    /// `order` lists fields of address / burst, lowest bits first: `bg col ba ra row`, or with widths where a
    /// field is split: `col:2 bg col:5 ba ra row`. A field without a width takes the bits of it that no other
    /// entry takes. Throws UserError when the entries do not cover each bit of the address exactly once.
    AddressMap(std::string_view order, const Geometry& geometry);

    struct Place {
        uint32_t bank;  ///< index among all banks of the channel
        uint32_t row;
    };
    /// Addresses above the capacity wrap around.
    Place place(uint64_t address) const {
        const uint64_t number = burst_of(address);
        // most maps have no more pieces than these: then there is no loop
        Place result{bank_pieces_[0].of(number) | bank_pieces_[1].of(number), row_pieces_[0].of(number)};
        for (uint32_t i = 2; i < bank_count_; ++i) result.bank |= bank_pieces_[i].of(number);
        for (uint32_t i = 1; i < row_count_; ++i) result.row |= row_pieces_[i].of(number);
        return result;
    }
    /// Place of a burst, by the fields of an address; `column` counts the bursts of a row.
    struct Fields {
        uint64_t rank = 0, group = 0, bank = 0, row = 0, column = 0;
    };
    /// Returns the address that has these fields: place() undone. What exceeds a field is cut off.
    uint64_t address(const Fields& fields) const;
    /// Returns the number of a burst: address / burst_bytes.
    uint64_t burst_of(uint64_t address) const { return address >> burst_bits_; }
    /// Returns the entries with their widths, lowest first: "bg:2 col:7 ba:2 row:16".
    const std::string& text() const { return text_; }

  private:
    static constexpr size_t max_pieces = 64;  ///< an address has no more bits
    /// Bits [from, ...) of a burst number that go to bits [to, ...) of a bank or row.
    struct Piece {
        uint32_t from = 0, to = 0;
        uint64_t mask = 0;
        uint32_t of(uint64_t number) const { return static_cast<uint32_t>(((number >> from) & mask) << to); }
    };
    uint32_t burst_bits_;
    uint32_t bank_count_ = 0, row_count_ = 0;
    std::array<Piece, max_pieces> bank_pieces_{}, row_pieces_{};
    struct Entry {
        uint8_t field;
        uint32_t width;
    };
    std::vector<Entry> entries_;  ///< lowest bits first
    std::string text_;
};

}  // namespace kpu::dram
