#include "compiler/graph/read_data.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "compiler/graph/data.hpp"

namespace kpu::graph {
namespace {

/// Bytes that constants may have whose elements are not in the text one by one: all of one number, or made up.
constexpr uint64_t most_made_bytes = uint64_t{1} << 28;
constexpr double most_integer = 4294967295.0;

int hex(char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; }

}  // namespace

Data ConstantReader::read(Line& line, ElemType elem, const Dims& shape, bool& made_up) {
    const auto count = static_cast<uint64_t>(shape.product());
    const size_t place = line.place();
    const bool elsewhere = line.take("at");
    if (elsewhere && !file_.empty()) return from_file(line, place, data_bytes(elem, count));
    if (elsewhere) line.integer(0, INT64_MAX);
    if (elsewhere || line.take("...")) {
        made_up = true;
        return made(line, place, elem, count);
    }
    if (line.take("splat")) return repeated(line, place, elements(line, place, elem, 1, ""), count);
    line.expect("[");
    if (count > 0) return elements(line, place, elem, count, "]");
    line.expect("]");
    return make_data({});
}

Data ConstantReader::from_file(Line& line, size_t place, uint64_t size) {
    const auto begin = static_cast<uint64_t>(line.integer(0, INT64_MAX));
    if (begin > file_.size() || size > file_.size() - begin)
        line.fail_at(place, "the file of constants ends before", "write a place in it");
    const auto* from = reinterpret_cast<const uint8_t*>(file_.data()) + begin;
    return make_data({from, from + size});
}

Data ConstantReader::elements(Line& line, size_t place, ElemType elem, uint64_t count, std::string_view end) {
    const uint64_t size = data_bytes(elem, count);
    Data data;
    if (line.take_start("0x")) {
        const std::string digits = line.name();
        if (digits.size() != 2 * size || digits.find_first_not_of("0123456789abcdef") != std::string::npos)
            line.fail_at(place, fmt::format("{} bytes are needed", size),
                         "write two of 0 to 9, a to f for each");
        std::vector<uint8_t> bytes(size);
        for (uint64_t i = 0; i < size; ++i)
            bytes[i] = static_cast<uint8_t>(hex(digits[2 * i]) * 16 + hex(digits[2 * i + 1]));
        data = make_data(std::move(bytes));
    } else {
        data = make_numbers(elem, numbers(line, place, elem, count, end));
    }
    if (!end.empty()) line.expect(end);
    return data;
}

std::vector<double> ConstantReader::numbers(Line& line, size_t place, ElemType elem, uint64_t count,
                                            std::string_view end) {
    std::vector<double> numbers;
    do {
        const size_t at = line.place();
        const double number = line.real();
        const bool whole = std::trunc(number) == number && std::fabs(number) <= most_integer;
        if (is_float(elem) ? std::isnan(number) : !whole)
            line.fail_at(at, fmt::format("this is not a valid {}", name_of(elem)),
                         "write its bytes, as 0x00ff");
        numbers.push_back(number);
    } while (!end.empty() && numbers.size() < count && line.take(","));
    if (numbers.size() != count)
        line.fail_at(place, fmt::format("{} numbers are needed, and there are {}", count, numbers.size()),
                     "write [1,2], splat 1, at PLACE, or ...");
    return numbers;
}

void ConstantReader::count_made(Line& line, size_t place, uint64_t bytes) {
    if (bytes > most_made_bytes - made_bytes_)
        line.fail_at(place, "constants whose elements are not in the text are too large",
                     "give their bytes in a file beside it");
    made_bytes_ += bytes;
}

Data ConstantReader::repeated(Line& line, size_t place, const Data& one, uint64_t count) {
    count_made(line, place, one.size * count);
    std::vector<uint8_t> bytes(one.size * count);
    for (uint64_t i = 0; i < count; ++i) std::memcpy(bytes.data() + i * one.size, one.bytes, one.size);
    return make_data(std::move(bytes));
}

/// Returns the numbers that no pass computes away: neither all alike, nor 0 or 1.
Data ConstantReader::made(Line& line, size_t place, ElemType elem, uint64_t count) {
    count_made(line, place, count * sizeof(double));
    std::vector<double> numbers(count);
    for (uint64_t i = 0; i < count; ++i) {
        const auto step = static_cast<double>(i * 37 % 61 + 2);
        numbers[i] = is_float(elem) ? step / 64 : std::fmod(step, 6) + 2;
    }
    return make_numbers(elem, numbers);
}

}  // namespace kpu::graph
