// Lines of a trace file, by its form.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "base/text.hpp"
#include "model/dram/trace.hpp"

namespace kpu::dram {
namespace {

/// Later times than any trace has: 2^62 clocks are a century.
constexpr double max_time = 4e18;

template <typename Number>
bool parse_whole(std::string_view text, Number& value, int base) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    return error == std::errc() && end == text.data() + text.size();
}

/// Cuts off the first word.
std::string_view take_word(std::string_view& text) {
    text = trimmed(text);
    const size_t blank = std::min(text.find_first_of(" \t"), text.size());
    const std::string_view word = text.substr(0, blank);
    text = trimmed(text.substr(blank));
    return word;
}

/// Returns "0x" and what follows it; nothing without it.
std::optional<std::string_view> hexadecimal(std::string_view text) {
    if (text.substr(0, 2) == "0x" || text.substr(0, 2) == "0X") return text.substr(2);
    return std::nullopt;
}

}  // namespace

uint64_t TraceFile::parse_address(std::string_view text, int base) const {
    uint64_t address = 0;
    const auto hex = hexadecimal(text);
    if (!parse_whole(hex.value_or(text), address, hex ? 16 : base))
        fail(fmt::format("`{}` is not an address", text), "give a hexadecimal byte address such as 0x1f40");
    return address;
}

uint64_t TraceFile::parse_bytes(std::string_view text) const {
    constexpr uint64_t most = uint64_t{1} << 40;
    uint64_t bytes = 0;
    if (!parse_whole(text, bytes, 10) || bytes == 0 || bytes > most)
        fail(fmt::format("`{}` is not a number of bytes", text), "give 1 or more");
    return bytes;
}

TraceFile::Line TraceFile::parse_csv(std::string_view text) const {
    std::array<std::string_view, 4> cells;
    size_t count = 0, from = 0;
    for (; count < 4 && from <= text.size(); ++count) {
        const size_t to = std::min(text.find(',', from), text.size());
        cells[count] = trimmed(text.substr(from, to - from));
        from = to + 1;
    }
    if (count < 4 || from <= text.size())
        fail(fmt::format("`{}` has not the four cells of a request", text.substr(0, 60)),
             "write `number,R|W,0xADDRESS,NANOSECONDS`");
    uint64_t number = 0;
    if (!parse_whole(cells[0], number, 10))
        fail(fmt::format("`{}` is not a request number", cells[0]), "number the requests from 0");
    Line line;
    if (cells[1] != "R" && cells[1] != "W")
        fail(fmt::format("`{}` is neither R nor W", cells[1]), "write R or W");
    line.is_write = cells[1] == "W";
    line.address = parse_address(cells[2]);
    double ns = 0;
    const double tck_ns = system_.channel.timing.tck_ns;
    const auto [end, error] = std::from_chars(cells[3].data(), cells[3].data() + cells[3].size(), ns);
    if (error != std::errc() || end != cells[3].data() + cells[3].size() || !(ns >= 0) ||
        ns / tck_ns > max_time)
        fail(fmt::format("`{}` is not a time", cells[3]), "give nanoseconds from 0");
    line.cycle = static_cast<uint64_t>(std::llround(ns / tck_ns));
    return line;
}

std::optional<TraceFile::Line> TraceFile::parse_run(std::string_view text) const {
    std::array<std::string_view, 7> cells;
    size_t from = 0;
    for (std::string_view& cell : cells) {
        const bool last = &cell == &cells.back();
        const size_t to = last ? text.size() : std::min(text.find(',', from), text.size());
        const bool needed = &cell < &cells[5];  // files that were cut have no unit and task
        if (from > text.size() && !needed) break;
        if (from > text.size())
            fail(fmt::format("`{}` has not the cells of an access", text.substr(0, 60)),
                 "write the memory trace again with `kpusim run --memory-trace`");
        cell = trimmed(text.substr(from, to - from));
        from = to + 1;
    }
    const auto& [cycle, access, level, address, bytes, unit, task] = cells;
    if (level != "dram") return std::nullopt;
    Line line;
    if (!parse_whole(cycle, line.cycle, 10))
        fail(fmt::format("`{}` is not a cycle", cycle), "count core cycles from 0");
    if (access != "read" && access != "write")
        fail(fmt::format("`{}` is neither read nor write", access), "write read or write");
    line.is_write = access == "write";
    line.address = parse_address(address);
    line.bytes = parse_bytes(bytes);
    line.unit = unit;
    line.task = !task.empty() && task.front() == '"' ? task.substr(1) : task;
    return line;
}

TraceFile::Line TraceFile::parse_stl(std::string_view text) const {
    Line line;
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos)
        fail(fmt::format("`{}` has no colon", text.substr(0, 60)), "write `CYCLE: read|write 0xADDRESS`");
    const std::string_view clock = trimmed(text.substr(0, colon));
    if (!parse_whole(clock, line.cycle, 10))
        fail(fmt::format("`{}` is not a clock number", clock), "count cycles from 0");
    std::string_view rest = trimmed(text.substr(colon + 1));
    if (!rest.empty() && rest.front() == '(') {
        const size_t end = std::min(rest.find(')'), rest.size());
        if (end == rest.size())
            fail(fmt::format("`{}` has no closing parenthesis", rest.substr(0, 60)),
                 "write the length in bytes as `(64)`");
        line.bytes = parse_bytes(trimmed(rest.substr(1, end - 1)));
        rest = rest.substr(end + 1);
    }
    const std::string_view kind = take_word(rest);
    if (kind != "read" && kind != "write")
        fail(fmt::format("`{}` is neither read nor write", kind), "write `read` or `write` after the colon");
    line.is_write = kind == "write";
    line.address = parse_address(take_word(rest), 16);
    const auto digits = hexadecimal(rest);
    constexpr std::string_view hex_digits = "0123456789abcdefABCDEF";
    const bool data = digits && !digits->empty() && digits->find_first_not_of(hex_digits) == digits->npos;
    if (!rest.empty() && !data)
        fail(fmt::format("`{}` is neither an end of line nor data", rest.substr(0, 60)),
             "write data as hexadecimal digits, as in 0x00ff, or nothing after the address");
    return line;
}

TraceFile::Line TraceFile::parse_ramulator(std::string_view text) const {
    Line line;
    const std::string_view whole = text.substr(0, 60), kind = take_word(text);
    const bool vector = kind == "R" || kind == "W";
    if (!vector && kind != "LD" && kind != "ST")
        fail(fmt::format("`{}` is none of LD, ST, R and W", kind), "write `LD 0xADDRESS` or `R 0,0,0,0,0,0`");
    line.is_write = kind == "W" || kind == "ST";
    const std::string_view address = take_word(text);
    if (address.empty() || !text.empty())
        fail(fmt::format("`{}` has not the two words of a request", whole),
             "write `LD 0xADDRESS` or `R 0,0,0,0,0,0`");
    line.address = vector ? parse_vector(address) : parse_address(address);
    return line;
}

/// Returns the address of what lies at one number for each level of the memory.
uint64_t TraceFile::parse_vector(std::string_view text) const {
    struct Number {
        std::string_view name;
        uint64_t most, value;
    };
    const Geometry& geometry = system_.channel.geometry;
    std::vector<Number> numbers{{"channel", system_.channels, 0}, {"rank", geometry.ranks, 0}};
    if (geometry.groups > 1) numbers.push_back({"bank group", geometry.groups, 0});
    numbers.push_back({"bank", geometry.banks_per_group, 0});
    numbers.push_back({"row", geometry.rows, 0});
    numbers.push_back({"column", geometry.row_bytes / geometry.burst_bytes, 0});
    size_t count = 0;
    for (size_t from = 0; from <= text.size(); ++count) {
        const size_t to = std::min(text.find(',', from), text.size());
        const std::string_view cell = text.substr(from, to - from);
        from = to + 1;
        if (count >= numbers.size()) continue;
        Number& number = numbers[count];
        if (!parse_whole(cell, number.value, 10) || number.value >= number.most)
            fail(fmt::format("`{}` is not a valid {} of the memory", cell, number.name),
                 fmt::format("give 0 to {}, or another --device, --channels or --ranks", number.most - 1));
    }
    if (count != numbers.size()) {
        std::string names;
        for (const Number& number : numbers)
            names += fmt::format("{}{}", names.empty() ? "" : ", ", number.name);
        fail(fmt::format("`{}` has {} numbers, an address of this device {}", text.substr(0, 60), count,
                         numbers.size()),
             fmt::format("give {}", names));
    }
    const auto of = [&](std::string_view name) {
        for (const Number& number : numbers)
            if (number.name == name) return number.value;
        return uint64_t{0};
    };
    const uint64_t local =
        system_.channel.map.address({of("rank"), of("bank group"), of("bank"), of("row"), of("column")});
    const uint64_t block = system_.channel_interleave_bytes;
    if (system_.channels == 1) return local;
    return (local / block * system_.channels + of("channel")) * block + local % block;
}

}  // namespace kpu::dram
