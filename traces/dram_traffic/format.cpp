// The uses of DRAM banks as tables.
#include "traces/dram_traffic/traffic.hpp"
#include "traces/formats.hpp"

namespace kpu::traces {
namespace {

constexpr std::string_view count_names =
    "reads,writes,row_hits,row_misses,row_conflicts,activates,turn_arounds";

void print_counts(const BankCounts& c, Output& output) {
    output.print("{},{},{},{},{},{},{}\n", c.reads, c.writes, c.hits, c.misses, c.conflicts, c.activates,
                 c.turn_arounds);
}

uint64_t size_of(const RunInfo& info, const RecordCounts& counts) {
    constexpr double head = 90, row = 34;
    return static_cast<uint64_t>(head + row * traffic_rows(info, counts));
}

void write(const RunInfo& info, const Events& events, const OptionValues& options, Output& output) {
    const DramTraffic traffic = dram_traffic(info, events);
    if (options.text("dram-traffic-by") == "stream") return write_traffic_by_stream(traffic, output);
    write_traffic_by_bank(traffic, output);
}

}  // namespace

void write_traffic_by_bank(const DramTraffic& traffic, Output& output) {
    output.print("time_ns,dt_ns,channel,bank,{}\n", count_names);
    const double ns = 1000, width = static_cast<double>(traffic.width()) / ns;
    for (size_t bin = 0; bin < traffic.bins(); ++bin) {
        const double time = static_cast<double>(traffic.from() + bin * traffic.width()) / ns;
        for (size_t channel = 0; channel < traffic.channels().size(); ++channel) {
            for (size_t bank = 0; bank < traffic.banks(); ++bank) {
                const BankCounts& counts = traffic.at(bin, channel, bank);
                if (!counts.any()) continue;
                output.print("{},{},{},{},", time, width, traffic.channels()[channel], bank);
                print_counts(counts, output);
            }
        }
    }
}

void write_traffic_by_stream(const DramTraffic& traffic, Output& output) {
    output.print("unit,task,operation,{}\n", count_names);
    for (const DramTraffic::Stream& stream : traffic.streams()) {
        output.print("{},{},{},", csv_field(stream.unit), csv_field(stream.task),
                     csv_field(stream.operation));
        print_counts(stream.counts, output);
    }
}

extern const Format dram_traffic_format;
const Format dram_traffic_format{
    "dram-traffic",
    "CSV",
    "what each DRAM bank did over time: bursts, row hits, turn-arounds (ddr.fidelity=burst)",
    {{"dram-traffic-by",
      "bank: over time; stream: for each unit and task that asked",
      ValueKind::choice,
      "bank",
      {"bank", "stream"}}},
    true,
    size_of,
    write};

}  // namespace kpu::traces
