#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/option.hpp"
#include "base/text_output.hpp"
#include "traces/events.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// Numbers of records of each kind that a recording has in its view.
struct RecordCounts {
    std::array<uint64_t, event_kind_count> by_kind{};
    uint64_t of(EventKind kind) const { return by_kind[static_cast<size_t>(kind)]; }
};
RecordCounts count_records(const RunInfo& info, const Events& events);

/// A kind of trace: a file for people or their tools, made of a recording.
///
/// A new one is a source `<name>.cpp` or a folder `<name>/` here that defines `const Format <name>_format`,
/// and one line in formats.txt. The command makes its options out of the rows, Python its names and keyword
/// arguments; docs/adding_a_trace.md shows one.
struct Format {
    std::string_view name;       ///< `--vcd` of run and export, write_trace("vcd", ...) in Python
    std::string_view file_kind;  ///< CSV, VCD, protobuf, text
    std::string_view meaning;    ///< one line
    std::vector<OptionRow> options;
    bool needs_accesses = false;  ///< requests to memories must have been recorded
    /// Bytes of the file, to about a factor of two: records times the mean length of what is written for one.
    uint64_t (*size)(const RunInfo& info, const RecordCounts& counts);
    /// Shows what info.view says. A pure function: the same bytes during a run and from an event file.
    void (*write)(const RunInfo& info, const Events& events, const OptionValues& options, Output& output);
    bool needs_energy = false;  ///< the device must have an energy model
    bool is_waveform = false;   ///< viewers of waveforms open it
    /// Says why it cannot show that, and what can; empty: it does. None: it shows every view.
    std::string (*refuses)(const TraceView& view, const OptionValues& options) = nullptr;
};

/// Returns the lines of formats.txt.
const std::vector<const Format*>& formats();
/// Throws UserError that names the nearest one.
const Format& find_format(std::string_view name);

/// The part of a run that is asked for, as it is written.
struct ViewText {
    std::string window;                           ///< A:B in core cycles, either may be left out; empty: all
    std::vector<std::string> units, causes, ops;  ///< patterns
    std::string every;                            ///< a time: 1us; empty: every state
};
/// Checks what is right or wrong whatever the run is: all but the window. Throws UserError.
TraceView check_view(const ViewText& text);
/// The recording shows that part, and bins are as wide as `every`. Throws UserError, also when the window is not in the run,
/// and when no unit, cause or operation has such a name.
void show_view(RunInfo& info, const ViewText& text);
/// Throws UserError when the format cannot show that, or this build cannot write it.
void check_format(const Format& format, const TraceView& view, const OptionValues& options);

}  // namespace kpu::traces
