#pragma once
// The words of a debugger's verbs.
#include <cstdint>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace kpu::runtime::debug {

std::vector<std::string> words_of(const std::string& line);
/// A number, decimal or 0x. Throws UserError where there is none.
uint64_t number_at(const std::vector<std::string>& words, size_t place);
const std::string& word_at(const std::vector<std::string>& words, size_t place);

/// VERB LEVEL ADDRESS BYTES.
struct Range {
    Level level = Level::ddr;
    unsigned engine = 0;
    uint64_t address = 0, bytes = 0;
};
Range range_of(const std::vector<std::string>& words);
/// "ddr", "l2", "l1[0]".
std::string place_text(Level level, unsigned engine);
std::string hex_text(const std::vector<uint8_t>& bytes);

}  // namespace kpu::runtime::debug
