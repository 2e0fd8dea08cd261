#include "model/dram/address_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "base/diagnostics.hpp"
#include "base/text.hpp"

namespace kpu::dram {
namespace {

enum Field { column, group, bank, rank, row, field_count };
constexpr std::string_view field_names[] = {"col", "bg", "ba", "ra", "row"};
constexpr std::string_view field_meanings[] = {"column", "bank group", "bank", "rank", "row"};
constexpr std::string_view example = "`bg col ba ra row`, or with widths `col:2 bg col:5 ba ra row`";

uint32_t log2_of(uint64_t value) {
    uint32_t bits = 0;
    while ((uint64_t{2} << bits) <= value) ++bits;
    return bits;
}

struct Given {
    Field field;
    std::optional<uint32_t> width;
};

[[noreturn]] void fail(std::string_view order, const std::string& why, const std::string& fix) {
    throw UserError(fmt::format("address mapping `{}`: {}. Fix: {}.", order, why, fix));
}

Given parse_entry(std::string_view order, std::string_view text) {
    const size_t colon = std::min(text.find(':'), text.size());
    const std::string_view name = text.substr(0, colon);
    const auto* found = std::find(std::begin(field_names), std::end(field_names), name);
    if (found == std::end(field_names)) {
        fail(order, fmt::format("`{}` is not a field", name),
             fmt::format("did you mean `{}`? Fields are col, bg, ba, ra and row, lowest bits first, as in {}",
                         nearest_name(name, {std::begin(field_names), std::end(field_names)}), example));
    }
    Given entry{static_cast<Field>(found - std::begin(field_names)), std::nullopt};
    if (colon < text.size()) {
        uint32_t width = 0;
        const std::string_view digits = text.substr(colon + 1);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), width);
        if (error != std::errc() || end != digits.data() + digits.size() || width == 0 || width > 40) {
            fail(order, fmt::format("`{}` is not a number of bits", digits),
                 "give a width from 1 to 40 after the colon");
        }
        entry.width = width;
    }
    return entry;
}

std::vector<Given> parse(std::string_view order) {
    std::vector<Given> entries;
    for (size_t from = 0; from < order.size();) {
        const size_t to = std::min(order.find_first_of(" ,", from), order.size());
        if (to > from) entries.push_back(parse_entry(order, order.substr(from, to - from)));
        from = to + 1;
    }
    if (entries.empty()) fail(order, "it is empty", fmt::format("write {}", example));
    return entries;
}

/// Gives each entry its width; the widths of a field must add up to its bits.
void resolve(std::string_view order, std::vector<Given>& entries,
             const std::array<uint32_t, field_count>& bits) {
    for (uint32_t f = 0; f < field_count; ++f) {
        uint32_t taken = 0;
        Given* open = nullptr;
        for (Given& entry : entries) {
            if (entry.field != f) continue;
            if (entry.width) {
                taken += *entry.width;
            } else if (open != nullptr) {
                fail(order, fmt::format("`{}` stands twice without a width", field_names[f]),
                     "give one of them its number of bits, as in `col:2`");
            } else {
                open = &entry;
            }
        }
        if (open != nullptr && taken <= bits[f]) {
            open->width = bits[f] - taken;
            taken = bits[f];
        }
        if (taken != bits[f]) {
            fail(order,
                 fmt::format("it has {} bits of the {} (`{}`), but the device has {}", taken,
                             field_meanings[f], field_names[f], bits[f]),
                 fmt::format("let the widths of `{}` add up to {}", field_names[f], bits[f]));
        }
    }
}

}  // namespace

AddressMap::AddressMap(std::string_view order, const Geometry& geometry)
    : burst_bits_(log2_of(geometry.burst_bytes)) {
    const std::array<uint32_t, field_count> bits{log2_of(geometry.row_bytes / geometry.burst_bytes),
                                                 log2_of(geometry.groups), log2_of(geometry.banks_per_group),
                                                 log2_of(geometry.ranks), log2_of(geometry.rows)};
    std::vector<Given> entries = parse(order);
    resolve(order, entries, bits);
    // where the next bits of each field go: bank = rank, group, bank in group
    std::array<uint32_t, field_count> next{0, bits[bank], 0, bits[bank] + bits[group], 0};
    uint32_t from = 0;
    for (const Given& entry : entries) {
        if (*entry.width == 0) continue;
        const Piece piece{from, next[entry.field], (uint64_t{1} << *entry.width) - 1};
        if (entry.field == row) row_pieces_[row_count_++] = piece;
        if (entry.field == group || entry.field == bank || entry.field == rank)
            bank_pieces_[bank_count_++] = piece;
        entries_.push_back({static_cast<uint8_t>(entry.field), *entry.width});
        next[entry.field] += *entry.width;
        from += *entry.width;
        text_ += fmt::format("{}{}:{}", text_.empty() ? "" : " ", field_names[entry.field], *entry.width);
    }
}

uint64_t AddressMap::address(const Fields& fields) const {
    std::array<uint64_t, field_count> left{fields.column, fields.group, fields.bank, fields.rank, fields.row};
    uint64_t number = 0;
    uint32_t to = 0;
    for (const Entry& entry : entries_) {
        uint64_t& value = left[entry.field];
        number |= (value & ((uint64_t{1} << entry.width) - 1)) << to;
        value >>= entry.width;
        to += entry.width;
    }
    return number << burst_bits_;
}

}  // namespace kpu::dram
