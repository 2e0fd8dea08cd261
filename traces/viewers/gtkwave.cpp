// Save files of GTKWave 3.3: a line of flags, then of a trace its file of texts, its colour, its name. Written as GTKWave
// writes them itself.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "traces/viewers/layout.hpp"

namespace kpu::traces {
namespace {

/// Flags of a trace.
enum Flag : unsigned {
    hex = 0x2,
    decimal = 0x4,
    right = 0x20,
    blank = 0x200,
    signed_value = 0x400,
    translated = 0x2000,
    analog_step = 0x8000,
    analog_stretch = 0x20000,
    fullscale = 0x80000,
    group_begin = 0x800000,
    group_end = 0x1000000,
    closed = 0x400000
};
/// Colours of traces: 0 as it is, 1 red to 7 violet.
enum Colour : unsigned { orange = 2, yellow = 3, green = 4 };

/// Returns the colour of a cause, by X11's names. What keeps a unit from its work stands out; what moves
/// bytes is red, what waits for others orange.
const char* colour_of(Cause cause) {
    const std::string_view group = group_of(cause);
    if (cause == Cause::busy_useful || cause == Cause::device_busy_compute) return "DarkGreen";
    if (group == "busy") return "OliveDrab";
    if (group == "idle") return "gray30";
    const std::string_view name = name_of(cause);
    if (name.rfind("operand_dram", 0) == 0 || name == "refresh" || name == "memory") return "FireBrick";
    if (name.rfind("operand", 0) == 0 || name == "dma_issue") return "chocolate4";
    return "DarkOrange3";
}

class SaveFile {
  public:
    explicit SaveFile(const std::string& causes_path) : causes_(causes_path) {}

    void head(const Layout& layout) {
        constexpr double pixels = 850, unit = 200;  // of the waves; what 2^zoom spans
        const double length = std::max(1.0, static_cast<double>(layout.to - layout.from));
        const CostliestOp& op = layout.costliest;
        text_ += fmt::format("[timestart] {}\n[size] 1500 950\n[pos] -1 -1\n*{:.6f} {}", layout.from,
                             -std::log2(length * unit / pixels), -1);
        const bool marked = !op.name.empty();
        constexpr int markers = 26;
        for (int i = 0; i < markers; ++i) {
            if (marked && i < 2) {
                text_ += fmt::format(" {}", i == 0 ? op.from : op.to);
            } else {
                text_ += " -1";
            }
        }
        text_ += "\n[sst_width] 150\n[signals_width] 260\n[sst_expanded] 0\n[sst_vpaned_height] 300\n";
        if (!marked) return;
        text_ +=
            fmt::format("@{:x}\n-A to B: {}, which most cycles are charged to\n", unsigned{blank}, op.name);
    }

    void group(const ViewerGroup& group) {
        const unsigned shut = group.open ? 0u : unsigned{closed};
        text_ += fmt::format("@{:x}\n-{}\n", group_begin | blank | shut, group.title);
        for (const ViewerSignal& signal : group.signals) add(signal);
        text_ += fmt::format("@{:x}\n-{}\n", group_end | blank | shut, group.title);
    }
    const std::string& text() const { return text_; }

  private:
    void add(const ViewerSignal& signal) {
        const std::string name = signal.plain_name();
        if (name == "state" && signal.scope.rfind("power.", 0) != 0)
            return;  // the cause shows it, in colours
        const std::string range = signal.bits > 1 ? fmt::format("[{}:0]", signal.bits - 1) : "";
        if (name == "cause") {
            text_ += fmt::format("@{:x}\n^1 {}\n+{{{} state}} {}{}\n", hex | right | translated, causes_,
                                 signal.scope, signal.path(), range);
        } else if (signal.kind == WaveformSink::Kind::real) {
            analog(signal);
        } else if (signal.kind == WaveformSink::Kind::bits) {
            named(decimal | right, orange, signal, range);
        } else {
            named(right, name == "op" ? unsigned{yellow} : 0u, signal, range);
        }
    }
    void analog(const ViewerSignal& signal) {
        named(signed_value | right | analog_step | fullscale, green, signal, "");
        text_ += fmt::format("@{:x}\n-\n-\n", unsigned{analog_stretch});
    }
    void named(unsigned flags, unsigned colour, const ViewerSignal& signal, const std::string& range) {
        text_ += fmt::format("@{:x}\n[color] {}\n+{{{} {}}} {}{}\n", flags, colour, signal.scope,
                             signal.plain_name(), signal.path(), range);
    }

    std::string causes_, text_;
};

}  // namespace

std::string gtkwave_save_file(const Layout& layout, const std::string& causes_path) {
    SaveFile file(std::filesystem::absolute(causes_path).string());
    file.head(layout);
    for (const ViewerGroup& group : layout.groups) file.group(group);
    return file.text();
}

std::string gtkwave_causes() {
    std::string text = "# Causes of states, by their numbers: texts and colours for GTKWave\n";
    for (int i = 0; i < cause_count; ++i) {
        const auto cause = static_cast<Cause>(i);
        text += fmt::format("{:02X} ?{}?{}\n", i, colour_of(cause), full_name_of(cause));
    }
    return text + "xx ?gray20?-\n";
}

}  // namespace kpu::traces
