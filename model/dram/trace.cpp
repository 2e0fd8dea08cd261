#include "model/dram/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/diagnostics.hpp"
#include "base/text.hpp"

namespace kpu::dram {
namespace {

constexpr size_t chunk_bytes = 1 << 16;
constexpr size_t max_line_bytes = 4096;
/// Later times than any trace has: 2^62 clocks are a century.
constexpr double max_time = 4e18;

template <typename Number>
bool parse_whole(std::string_view text, Number& value, int base) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

TraceFile::TraceFile(const std::string& path, double tck_ns, RunTraceOptions options)
    : name_(path == "-" ? "<stdin>" : path),
      tck_ns_(tck_ns),
      file_(path == "-" ? stdin : std::fopen(path.c_str(), "rb")),
      options_(options) {
    if (!file_)
        throw UserError(
            fmt::format("cannot read trace `{}`: {}. Fix: check the path.", path, std::strerror(errno)));
}

void TraceFile::fail(const std::string& what, const std::string& fix) const {
    Diagnostics diagnostics;
    diagnostics.error({name_, static_cast<uint32_t>(std::min<uint64_t>(line_, UINT32_MAX)), 1},
                      fmt::format("{}. Fix: {}.", what, fix));
    throw UserError(std::move(diagnostics));
}

bool TraceFile::fill() {
    if (ended_) return false;
    buffer_.erase(0, position_);
    position_ = 0;
    const size_t held = buffer_.size();
    buffer_.resize(held + chunk_bytes);
    errno = 0;
    const size_t got = std::fread(buffer_.data() + held, 1, chunk_bytes, file_.get());
    buffer_.resize(held + got);
    if (got < chunk_bytes) {
        const bool signalled = std::ferror(file_.get()) != 0 && errno == EINTR;
        if (std::ferror(file_.get()) != 0 && !signalled)
            fail(fmt::format("cannot read the trace: {}", std::strerror(errno)),
                 "check that it is a readable file");
        ended_ = true;
        // whoever catches a signal wants no more: the trace ends behind its last whole line
        if (signalled) buffer_.resize(buffer_.rfind('\n') + 1);
    }
    return got > 0;
}

bool TraceFile::read_line(std::string_view& line) {
    size_t end = buffer_.find('\n', position_);
    while (end == std::string::npos) {
        if (buffer_.size() - position_ > max_line_bytes) {
            ++line_;
            fail(fmt::format("line longer than {} bytes", max_line_bytes),
                 "give a text trace, a request per line");
        }
        if (!fill()) break;
        end = buffer_.find('\n', position_);
    }
    if (position_ == buffer_.size()) return false;
    end = std::min(end, buffer_.size());
    line = std::string_view(buffer_).substr(position_, end - position_);
    position_ = std::min(end + 1, buffer_.size());
    ++line_;
    return true;
}

std::optional<TraceRequest> TraceFile::next() {
    if (bytes_left_ > 0) return next_burst();
    std::string_view line;
    while (read_line(line)) {
        line = trimmed(line);
        if (line.empty() || line.front() == '#') continue;
        const std::optional<TraceRequest> parsed = parse(line);
        if (!parsed) continue;
        TraceRequest request = *parsed;
        request.line = line_;
        if (request.time < last_time_) {
            fail(fmt::format("time {} nCK lies before {} nCK of the request above it", request.time,
                             last_time_),
                 "sort the trace by time");
        }
        last_time_ = request.time;
        if (form_ != Form::run) return request;
        access_ = request;
        return next_burst();
    }
    return std::nullopt;
}

TraceRequest TraceFile::next_burst() {
    const TraceRequest burst = access_;
    const uint64_t step = options_.burst_bytes - access_.address % options_.burst_bytes;
    access_.address += step;
    bytes_left_ -= std::min(bytes_left_, step);
    return burst;
}

std::optional<TraceRequest> TraceFile::parse(std::string_view text) {
    if (form_ == Form::unknown && starts_with(text, "cycle,access,level,address,bytes")) {
        form_ = Form::run;
        return std::nullopt;
    }
    if (form_ == Form::run) return parse_run(text);
    if (form_ == Form::unknown) {
        const size_t mark = text.find_first_of(",:");
        if (mark == std::string_view::npos) {
            fail(
                fmt::format("`{}` is no request", text.substr(0, 60)),
                "write `number,R|W,0xADDRESS,NANOSECONDS` or `CLOCK: read|write 0xADDRESS`, or give a memory "
                "trace of a run");
        }
        form_ = text[mark] == ',' ? Form::csv : Form::stl;
    }
    return form_ == Form::csv ? parse_csv(text) : parse_stl(text);
}

uint64_t TraceFile::parse_address(std::string_view text) const {
    uint64_t address = 0;
    const bool hex = text.substr(0, 2) == "0x" || text.substr(0, 2) == "0X";
    if (!parse_whole(hex ? text.substr(2) : text, address, hex ? 16 : 10))
        fail(fmt::format("`{}` is not an address", text), "give a hexadecimal byte address such as 0x1f40");
    return address;
}

TraceRequest TraceFile::parse_csv(std::string_view text) const {
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
    TraceRequest request;
    if (cells[1] != "R" && cells[1] != "W")
        fail(fmt::format("`{}` is neither R nor W", cells[1]), "write R or W");
    request.is_write = cells[1] == "W";
    request.address = parse_address(cells[2]);
    double ns = 0;
    const auto [end, error] = std::from_chars(cells[3].data(), cells[3].data() + cells[3].size(), ns);
    if (error != std::errc() || end != cells[3].data() + cells[3].size() || !(ns >= 0) ||
        ns / tck_ns_ > max_time)
        fail(fmt::format("`{}` is not a time", cells[3]), "give nanoseconds from 0");
    request.time = static_cast<uint64_t>(std::llround(ns / tck_ns_));
    return request;
}

std::optional<TraceRequest> TraceFile::parse_run(std::string_view text) {
    std::array<std::string_view, 5> cells;  // unit and task behind them do not matter here
    size_t from = 0;
    for (std::string_view& cell : cells) {
        const size_t to = std::min(text.find(',', from), text.size());
        if (from > text.size())
            fail(fmt::format("`{}` has not the cells of an access", text.substr(0, 60)),
                 "write the memory trace again with `kpusim run --memory-trace`");
        cell = trimmed(text.substr(from, to - from));
        from = to + 1;
    }
    const auto& [cycle, access, level, address, bytes] = cells;
    if (level != "dram") return std::nullopt;
    TraceRequest request;
    uint64_t cycles = 0;
    if (!parse_whole(cycle, cycles, 10) || double(cycles) * options_.core_ns / tck_ns_ > max_time)
        fail(fmt::format("`{}` is not a cycle", cycle), "count core cycles from 0");
    request.time = static_cast<uint64_t>(std::llround(double(cycles) * options_.core_ns / tck_ns_));
    if (access != "read" && access != "write")
        fail(fmt::format("`{}` is neither read nor write", access), "write read or write");
    request.is_write = access == "write";
    request.address = parse_address(address);
    constexpr uint64_t most = uint64_t{1} << 40;
    if (!parse_whole(bytes, bytes_left_, 10) || bytes_left_ == 0 || bytes_left_ > most)
        fail(fmt::format("`{}` is no number of bytes", bytes), "give 1 or more");
    return request;
}

TraceRequest TraceFile::parse_stl(std::string_view text) const {
    TraceRequest request;
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos)
        fail(fmt::format("`{}` has no colon", text.substr(0, 60)), "write `CLOCK: read|write 0xADDRESS`");
    const std::string_view clock = trimmed(text.substr(0, colon));
    if (!parse_whole(clock, request.time, 10) || static_cast<double>(request.time) > max_time)
        fail(fmt::format("`{}` is not a clock number", clock), "count the clocks of the DRAM from 0");
    const std::string_view rest = trimmed(text.substr(colon + 1));
    const size_t blank = std::min(rest.find_first_of(" \t"), rest.size());
    const std::string_view kind = rest.substr(0, blank);
    if (kind != "read" && kind != "write")
        fail(fmt::format("`{}` is neither read nor write", kind), "write `read` or `write` after the colon");
    request.is_write = kind == "write";
    request.address = parse_address(trimmed(rest.substr(blank)));
    return request;
}

}  // namespace kpu::dram
