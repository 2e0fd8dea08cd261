#include "traces/formats.hpp"
#include "traces/fst/fst_file.hpp"

namespace kpu::traces {
namespace {

constexpr const char* no_fst =
    "this kpusim was built without the library that writes it. Fix: write vcd; or install the package "
    "verilator, which "
    "brings fstapi, then configure and build kpusim again.";

uint64_t fst_size(const RunInfo& info, const RecordCounts& counts) {
    constexpr uint64_t head = 1500, unit = 120, state = 2, counter = 1;
    return head + info.units.size() * unit + counts.of(EventKind::cause) * state +
           counts.of(EventKind::counter) * counter;
}

}  // namespace

extern const Format fst_format;
const Format fst_format{"fst",
                        "FST",
                        "the waveforms of --vcd in a small file for GTKWave and Surfer",
                        {},
                        false,
                        fst_size,
                        [](const RunInfo& info, const Events& events, const OptionValues& /*options*/,
                           Output& output) { write_fst(info, events, output); },
                        false,
                        true,
                        [](const TraceView& /*view*/, const OptionValues& /*options*/) -> std::string {
                            return has_fst() ? "" : no_fst;
                        }};

}  // namespace kpu::traces
