#include "runtime/debug/words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <sstream>

#include "base/diagnostics.hpp"

namespace kpu::runtime::debug {

namespace {

constexpr uint64_t most_bytes = 4096;  ///< that one verb shows or watches

}  // namespace

bool read_number(std::string_view text, uint64_t& value) {
    const bool hex = text.substr(0, 2) == "0x";
    if (hex) text.remove_prefix(2);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
    return error == std::errc() && end == text.data() + text.size();
}

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

uint64_t number_of(const std::string& text) {
    uint64_t value = 0;
    if (!read_number(text, value))
        throw UserError(
            fmt::format("`{}` is not a number of 64 bits. Fix: give one, like 12 or 0x0c.", text));
    return value;
}

uint64_t number_at(const std::vector<std::string>& words, size_t place) {
    return number_of(word_at(words, place));
}

std::string rest_of(const std::vector<std::string>& words, size_t skipped) {
    std::string rest = word_at(words, skipped);
    for (size_t i = skipped + 1; i < words.size(); ++i) rest += " " + words[i];
    const bool quoted = rest.size() > 2 && rest.front() == '"' && rest.back() == '"';
    return quoted ? rest.substr(1, rest.size() - 2) : rest;
}

bool read_place(const std::string& word, Place& place) {
    uint64_t engine = 0;
    if (word == "ddr" || word == "l2") {
        place = {word == "l2" ? Level::l2 : Level::ddr, 0};
        return true;
    }
    const bool l1 = word.size() > 4 && word.substr(0, 3) == "l1[" && word.back() == ']' &&
                    read_number(std::string_view(word).substr(3, word.size() - 4), engine) && engine < 65536;
    if (l1) place = {Level::l1, static_cast<unsigned>(engine)};
    return l1;
}

std::string place_text(const Place& place) {
    return place.level == Level::ddr  ? "ddr"
           : place.level == Level::l2 ? "l2"
                                      : fmt::format("l1[{}]", place.engine);
}

uint64_t count_at(const std::vector<std::string>& words, size_t place) {
    const uint64_t count = number_at(words, place);
    if (count == 0 || count > most_bytes)
        throw UserError(fmt::format("{} bytes. Fix: give 1 to {}.", count, most_bytes));
    return count;
}

std::string hex_text(const std::vector<uint8_t>& bytes) {
    return fmt::format("{:02x}", fmt::join(bytes, " "));
}

}  // namespace kpu::runtime::debug
