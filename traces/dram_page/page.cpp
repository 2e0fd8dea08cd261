// The uses of DRAM banks as one page: page.html with the data in it.
#include "traces/dram_page/page.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/embedded_file.hpp"
#include "base/html_page.hpp"
#include "base/json.hpp"
#include "traces/formats.hpp"

namespace kpu {
extern const EmbeddedFile dram_page[];
}  // namespace kpu

namespace kpu::traces {
namespace {

using nlohmann::json;

/// Limits of columns and streams: more columns cannot be told apart on a screen.
constexpr size_t most_bins = 400, most_streams = 300;

json counts_of(const BankCounts& c) {
    return {c.reads, c.writes, c.hits, c.misses, c.conflicts, c.activates, c.turn_arounds};
}

/// [bin, channel, bank, counts...] of every cell with anything in it.
json cells_of(const DramTraffic& traffic) {
    json cells = json::array();
    for (size_t bin = 0; bin < traffic.bins(); ++bin) {
        for (size_t channel = 0; channel < traffic.channels().size(); ++channel) {
            for (size_t bank = 0; bank < traffic.banks(); ++bank) {
                const BankCounts& counts = traffic.at(bin, channel, bank);
                if (!counts.any()) continue;
                json cell{bin, channel, bank};
                for (json& number : counts_of(counts)) cell.push_back(std::move(number));
                cells.push_back(std::move(cell));
            }
        }
    }
    return cells;
}

uint64_t page_size(const RunInfo& info, const RecordCounts& counts) {
    constexpr double page = 16'000, cell = 22;
    return static_cast<uint64_t>(page + cell * traffic_rows(info, counts));
}

void write_page(const RunInfo& info, const Events& events, const OptionValues& /*options*/, Output& output) {
    const DramTraffic traffic = dram_traffic(info, events);
    output.write(dram_page_of(
        traffic, fmt::format("{} on {}", info.program, info.platform),
        fmt::format("{} core cycles at {} MHz", info.total_cycles, static_cast<double>(info.core_hz) / 1e6)));
}

}  // namespace

std::string dram_page_of(const DramTraffic& traffic, const std::string& what, const std::string& how) {
    const DramTraffic shown = traffic.in_bins(most_bins);
    json data{{"what", what},
              {"how", how},
              {"from_ns", static_cast<double>(shown.from()) / 1000},
              {"bin_ns", static_cast<double>(shown.width()) / 1000},
              {"bins", shown.bins()},
              {"channels", shown.channels()},
              {"banks", shown.banks()},
              {"burst_bytes", shown.burst_bytes()},
              {"total", counts_of(shown.total())},
              {"cells", cells_of(shown)},
              {"streams", json::array()}};
    const auto streams = shown.streams();
    for (size_t i = 0; i < std::min(streams.size(), most_streams); ++i) {
        json row{streams[i].unit, streams[i].task, streams[i].operation};
        for (json& number : counts_of(streams[i].counts)) row.push_back(std::move(number));
        data["streams"].push_back(std::move(row));
    }
    data["streams_left_out"] = streams.size() - data["streams"].size();
    return html_page(dram_page[0].text, json_text(data));
}

extern const Format dram_page_format;
const Format dram_page_format{"dram-page",
                              "HTML",
                              "page: heat map of DRAM banks over time, who asked (ddr.fidelity=burst)",
                              {},
                              true,
                              page_size,
                              write_page,
                              false,
                              false,
                              traffic_refuses};

}  // namespace kpu::traces
