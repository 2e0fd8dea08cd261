#pragma once
// The words of a debugger's verbs.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace kpu::runtime::debug {

/// Splits a line into words, without what follows a `#`.
std::vector<std::string> words_of(const std::string& line);
/// Throws UserError where the verb ends before.
const std::string& word_at(const std::vector<std::string>& words, size_t place);
/// Reads 12 or 0x0c.
bool read_number(std::string_view text, uint64_t& value);
uint64_t number_of(const std::string& text);  ///< throws UserError
uint64_t number_at(const std::vector<std::string>& words, size_t place);
/// Returns what follows the first `skipped` words, without quotes around it.
std::string rest_of(const std::vector<std::string>& words, size_t skipped);

/// A memory of the device.
struct Place {
    Level level = Level::ddr;
    unsigned engine = 0;
};
/// Reads "ddr", "l2", "l1[0]". False: it is none.
bool read_place(const std::string& word, Place& place);
std::string place_text(const Place& place);
/// Returns the bytes that one verb shows or watches, as many as there. Throws UserError for none and for too
/// many.
uint64_t count_at(const std::vector<std::string>& words, size_t place);
std::string hex_text(const std::vector<uint8_t>& bytes);

}  // namespace kpu::runtime::debug
