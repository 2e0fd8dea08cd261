#pragma once

#include <string>
#include <vector>

#include "traces/waveform.hpp"

namespace kpu::traces {

/// A signal of a waveform, as viewers name it.
struct ViewerSignal {
    std::string scope, name;  ///< e0_nmu0, state; power.array, state; power, total
    WaveformSink::Kind kind = WaveformSink::Kind::text;
    unsigned bits = 1;
    std::string path() const { return "kpusim." + scope + "." + name; }
    /// Returns the name without the mark of sampled ones.
    std::string plain_name() const;
};

/// Signals that are looked at together.
struct ViewerGroup {
    std::string title;
    bool open = true;
    std::vector<ViewerSignal> signals;
};

/// The operation that most of the run's cycles are charged to, from its first to its last one; none: an empty name.
struct CostliestOp {
    std::string name;
    Picoseconds from = 0, to = 0;
};

/// Layout of what a viewer is to show.
struct Layout {
    std::vector<ViewerGroup> groups;
    CostliestOp costliest;
    Picoseconds from = 0, to = 0;
};

/// Returns the device with its totals, each engine, what they share; power, bandwidths, clocks; power of each
/// unit.
Layout layout_of(const RunInfo& info, const Events& events);

/// Returns the texts of viewer_files().
std::string gtkwave_save_file(const Layout& layout, const std::string& causes_path);
std::string gtkwave_causes();
std::string surfer_commands(const Layout& layout);

}  // namespace kpu::traces
