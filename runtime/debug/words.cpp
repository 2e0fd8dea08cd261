#include "runtime/debug/words.hpp"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

#include "base/diagnostics.hpp"

namespace kpu::runtime::debug {

namespace {

constexpr uint64_t most_bytes = 4096;  ///< that one verb shows or watches

bool read_number(std::string_view text, uint64_t& value) {
    const bool hex = text.substr(0, 2) == "0x";
    if (hex) text.remove_prefix(2);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
    return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::vector<std::string> words_of(const std::string& line) {
    std::istringstream stream(line.substr(0, line.find('#')));
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
}

const std::string& word_at(const std::vector<std::string>& words, size_t place) {
    if (place < words.size()) return words[place];
    throw UserError(fmt::format("`{}` ends too early. Fix: help shows what follows.", fmt::join(words, " ")));
}

uint64_t number_at(const std::vector<std::string>& words, size_t place) {
    uint64_t value = 0;
    if (!read_number(word_at(words, place), value))
        throw UserError(
            fmt::format("`{}` is no number of 64 bits. Fix: give one, like 12 or 0x0c.", words[place]));
    return value;
}

Range range_of(const std::vector<std::string>& words) {
    Range range;
    const std::string& place = word_at(words, 1);
    uint64_t engine = 0;
    if (place == "l2") {
        range.level = Level::l2;
    } else if (place.size() > 4 && place.substr(0, 3) == "l1[" && place.back() == ']' &&
               read_number(std::string_view(place).substr(3, place.size() - 4), engine) && engine < 65536) {
        range.level = Level::l1;
        range.engine = static_cast<unsigned>(engine);
    } else if (place != "ddr") {
        throw UserError(fmt::format("`{}` is no memory. Fix: write ddr, l2 or l1[0].", place));
    }
    range.address = number_at(words, 2);
    range.bytes = number_at(words, 3);
    if (range.bytes == 0 || range.bytes > most_bytes)
        throw UserError(fmt::format("{} bytes. Fix: give 1 to {}.", range.bytes, most_bytes));
    return range;
}

std::string place_text(Level level, unsigned engine) {
    return level == Level::ddr ? "ddr" : level == Level::l2 ? "l2" : fmt::format("l1[{}]", engine);
}

std::string hex_text(const std::vector<uint8_t>& bytes) {
    return fmt::format("{:02x}", fmt::join(bytes, " "));
}

}  // namespace kpu::runtime::debug
