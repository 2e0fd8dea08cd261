#pragma once

#include <cstdint>
#include <optional>

namespace kpu::traces {

/// Use of a bank of a DRAM by a request: it serves a burst, or opens a row.
struct BankUse {
    enum class Kind : uint8_t { read, write, activate };
    enum class Row : uint8_t {
        hit,      ///< the row was open, and had served a burst
        miss,     ///< the bank was closed: at the start, or by a refresh
        conflict  ///< another row was closed for it
    };
    Kind kind = Kind::read;
    Row row = Row::hit;
    bool turned = false;  ///< the data bus carried the other direction before

    /// Returns all of it as one number, as event records have it.
    uint8_t code() const {
        return static_cast<uint8_t>(static_cast<unsigned>(kind) | static_cast<unsigned>(row) << 2 |
                                    (turned ? 16U : 0U));
    }
    /// Returns the use with this code; nothing for a number that is none.
    static std::optional<BankUse> of_code(uint8_t code) {
        const unsigned kind = code & 3U, row = code >> 2 & 3U;
        if (kind > 2 || row > 2 || code >= 32) return std::nullopt;
        return BankUse{static_cast<Kind>(kind), static_cast<Row>(row), (code & 16U) != 0};
    }
};

}  // namespace kpu::traces
