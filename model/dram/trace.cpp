#include "model/dram/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
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
constexpr std::string_view run_header = "cycle,access,level,address,bytes";

}  // namespace

const std::vector<std::string>& trace_form_names() {
    static const std::vector<std::string> names{"auto", "csv", "stl", "rstl", "ramulator", "run"};
    return names;
}

TraceForm trace_form_of(std::string_view name) {
    const auto& names = trace_form_names();
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) throw InternalError(fmt::format("no trace form `{}`", name));
    return static_cast<TraceForm>(found - names.begin());
}

TraceFile::TraceFile(const std::string& path, const ReplayConfig& system, TraceOptions options)
    : name_(path == "-" ? "<stdin>" : path),
      system_(system),
      options_(options),
      file_(path == "-" ? stdin : std::fopen(path.c_str(), "rb")),
      form_(options.form) {
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
        // whoever catches a signal wants no more: the trace ends after its last whole line
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
        if (line.empty()) continue;
        if (line.front() == '#') {
            read_comment(line);
            continue;
        }
        if (form_ == TraceForm::unknown) find_form(line);
        const std::optional<Line> parsed = parse(line);
        if (!parsed) continue;
        begin(*parsed);
        return next_burst();
    }
    return std::nullopt;
}

/// Traces of our own runs say in a comment which clock their cycles are of.
void TraceFile::read_comment(std::string_view line) {
    constexpr std::string_view name = "# clock_mhz:";
    if (options_.clock_mhz || !starts_with(line, name)) return;
    const std::string_view text = trimmed(line.substr(name.size()));
    double mhz = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mhz);
    if (error != std::errc() || end != text.data() + text.size() || !(mhz > 0) || mhz > 1e9)
        fail(fmt::format("`{}` is not a clock", text), "write MHz above 0, as in `# clock_mhz: 1000`");
    options_.clock_mhz = mhz;
}

void TraceFile::find_form(std::string_view text) {
    const size_t mark = text.find_first_of(",: ");
    const std::string_view first = text.substr(0, mark);
    if (starts_with(text, run_header)) {
        form_ = TraceForm::run;
    } else if (first == "LD" || first == "ST" || first == "R" || first == "W") {
        form_ = TraceForm::ramulator;
    } else if (mark != std::string_view::npos && text[mark] == ',') {
        form_ = TraceForm::csv;
    } else if (text.find(':') != std::string_view::npos) {
        form_ = ends_with(name_, ".rstl") ? TraceForm::rstl : TraceForm::stl;
    } else {
        fail(fmt::format("`{}` is not a request", text.substr(0, 60)),
             "write `number,R|W,0xADDRESS,NANOSECONDS`, `CYCLE: read|write 0xADDRESS` or `LD|ST 0xADDRESS`, "
             "or "
             "give a memory trace of a run");
    }
}

std::optional<TraceFile::Line> TraceFile::parse(std::string_view text) const {
    switch (form_) {
        case TraceForm::run:
            if (starts_with(text, run_header)) return std::nullopt;
            return parse_run(text);
        case TraceForm::csv:
            return parse_csv(text);
        case TraceForm::ramulator:
            return parse_ramulator(text);
        default:
            return parse_stl(text);
    }
}

/// Clocks of the DRAM at a cycle of the trace.
uint64_t TraceFile::clocks_of(uint64_t cycles) const {
    const double tck_ns = system_.channel.timing.tck_ns;
    double cycle_ns = form_ == TraceForm::run ? 1 : tck_ns;
    if (options_.clock_mhz) cycle_ns = 1000 / *options_.clock_mhz;
    if (form_ == TraceForm::csv || cycle_ns == tck_ns) return cycles;
    const double clocks = static_cast<double>(cycles) * cycle_ns / tck_ns;
    if (clocks > max_time) fail(fmt::format("`{}` is not a cycle", cycles), "give an earlier one");
    return static_cast<uint64_t>(std::llround(clocks));
}

/// Takes a line as the access whose bursts come next.
void TraceFile::begin(const Line& line) {
    const bool relative = form_ == TraceForm::rstl;
    if (static_cast<double>(line.cycle) + (relative ? static_cast<double>(cycle_) : 0) > max_time)
        fail(fmt::format("`{}` is not a cycle", line.cycle), "count cycles from 0");
    if (!relative && line.cycle < cycle_) {
        fail(fmt::format("time {} lies before {} of the request above it", line.cycle, cycle_),
             "sort the trace by time, or name the file .rstl if times count from the line before");
    }
    const uint64_t before = clocks_of(cycle_);
    cycle_ = relative ? cycle_ + line.cycle : line.cycle;
    // differences of sums: the rounding of each would add up
    access_.time = clocks_of(cycle_) - (relative ? before : 0);
    access_.relative = relative;
    access_.address = line.address;
    access_.is_write = line.is_write;
    access_.line = line_;
    if (form_ == TraceForm::run) access_.source = source_of(line);
    bytes_left_ = line.bytes;
}

/// The iterations of a task are one.
uint32_t TraceFile::source_of(const Line& line) {
    const std::string_view task = line.task.substr(0, line.task.find('['));
    if (const Source& last = sources_[access_.source]; last.unit == line.unit && last.task == task)
        return access_.source;
    const auto [place, added] = known_sources_.try_emplace({std::string(line.unit), std::string(task)},
                                                           static_cast<uint32_t>(sources_.size()));
    if (added && known_sources_.size() == 1) place->second = 0;  // in place of the one without a name
    if (added && place->second > 0) sources_.emplace_back();
    if (added) sources_[place->second] = {std::string(line.unit), std::string(task)};
    return place->second;
}

TraceRequest TraceFile::next_burst() {
    const TraceRequest burst = access_;
    const uint64_t size = system_.channel.geometry.burst_bytes, step = size - access_.address % size;
    access_.address += step;
    if (access_.relative) access_.time = 0;
    bytes_left_ -= std::min(bytes_left_, step);
    return burst;
}

}  // namespace kpu::dram
