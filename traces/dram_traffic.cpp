#include "traces/dram_traffic.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/diagnostics.hpp"
#include "traces/intervals.hpp"

namespace kpu::traces {

void BankCounts::add(const BankUse& use) {
    if (use.kind == BankUse::Kind::activate) {
        ++activates;
        return;
    }
    ++(use.kind == BankUse::Kind::read ? reads : writes);
    ++(use.row == BankUse::Row::hit ? hits : use.row == BankUse::Row::miss ? misses : conflicts);
    turn_arounds += use.turned ? 1 : 0;
}

void BankCounts::add(const BankCounts& other) {
    reads += other.reads;
    writes += other.writes;
    hits += other.hits;
    misses += other.misses;
    conflicts += other.conflicts;
    activates += other.activates;
    turn_arounds += other.turn_arounds;
}

DramTraffic::DramTraffic(Picoseconds from, Picoseconds width_ps, std::vector<std::string> channels,
                         uint32_t banks, uint32_t burst_bytes)
    : from_(from),
      width_(width_ps),
      channels_(std::move(channels)),
      banks_(banks),
      burst_bytes_(burst_bytes) {}

size_t DramTraffic::add_stream(Stream stream) {
    streams_.push_back(std::move(stream));
    return streams_.size() - 1;
}

void DramTraffic::add(Picoseconds time, size_t channel, size_t bank, const BankUse& use, size_t stream) {
    while ((time - from_) / width_ + 1 > most_cells / row()) widen();
    const size_t bin = (time - from_) / width_;
    if (bin >= bins()) cells_.resize((bin + 1) * row());
    cells_[bin * row() + channel * banks_ + bank].add(use);
    streams_[stream].counts.add(use);
}

void DramTraffic::widen() {
    const size_t before = bins();
    for (size_t bin = 0; bin < before; ++bin) {
        for (size_t i = 0; i < row(); ++i) {
            const BankCounts counts = cells_[bin * row() + i];
            BankCounts& into = cells_[bin / 2 * row() + i];
            if (bin % 2 == 0) into = {};
            into.add(counts);
        }
    }
    cells_.resize((before + 1) / 2 * row());
    width_ *= 2;
}

BankCounts DramTraffic::total() const {
    BankCounts sum;
    for (const BankCounts& cell : cells_) sum.add(cell);
    return sum;
}

std::vector<DramTraffic::Stream> DramTraffic::streams() const {
    std::vector<Stream> found;
    for (const Stream& stream : streams_)
        if (stream.counts.any()) found.push_back(stream);
    std::stable_sort(found.begin(), found.end(),
                     [](const Stream& a, const Stream& b) { return a.counts.bursts() > b.counts.bursts(); });
    return found;
}

DramTraffic DramTraffic::in_bins(size_t most) const {
    DramTraffic wide = *this;
    while (wide.bins() > most) wide.widen();
    return wide;
}

namespace {

/// Streams by unit, task and operation, of whatever iteration.
class Streams {
  public:
    Streams(const RunInfo& info, const Events& events, DramTraffic& traffic)
        : info_(info), tasks_(info, events), traffic_(traffic) {}
    size_t of(const Event& event) {
        const auto [place, added] = by_task_.try_emplace({event.value, event.task, event.op}, 0);
        if (!added) return place->second;
        DramTraffic::Stream stream{info_.units[static_cast<size_t>(event.value)].name,
                                   tasks_.name(event.task),
                                   std::string(info_.op_name(event.op)),
                                   {}};
        const auto [known, fresh] = by_name_.try_emplace({stream.unit, stream.task, stream.operation}, 0);
        if (fresh) known->second = traffic_.add_stream(std::move(stream));
        return place->second = known->second;
    }

  private:
    const RunInfo& info_;
    TaskTable tasks_;
    DramTraffic& traffic_;
    std::map<std::tuple<int64_t, uint32_t, uint32_t>, size_t> by_task_;
    std::map<std::tuple<std::string, std::string, std::string>, size_t> by_name_;
};

}  // namespace

double traffic_rows(const RunInfo& info, const RecordCounts& counts) {
    double channels = 0;
    for (const UnitInfo& unit : info.units) channels += unit.kind == UnitKind::ddr ? 1 : 0;
    const double bins =
        std::ceil(static_cast<double>(info.to() - info.from()) / static_cast<double>(info.bin_ps()));
    const double cells = std::max(1.0, bins * channels * info.dram_banks);
    constexpr double uses_in_a_row = 16;  // consecutive bursts lie in one bank
    return cells * (1 - std::exp(-static_cast<double>(counts.of(EventKind::bank)) / (uses_in_a_row * cells)));
}

DramTraffic dram_traffic(const RunInfo& info, const Events& events) {
    if (info.dram_banks == 0) {
        if (info.accesses)
            throw UserError(
                "the DRAM of this run has no banks that could be shown. Fix: run it with --set "
                "ddr.fidelity=burst.");
        throw UserError(
            "the recording has no uses of DRAM banks. Fix: run again with --memory-trace beside --events, "
            "and with --set ddr.fidelity=burst.");
    }
    std::vector<std::string> channels;
    std::vector<size_t> channel_of(info.units.size(), 0);
    std::vector<bool> shown;
    for (size_t u = 0; u < info.units.size(); ++u) {
        shown.push_back(info.view.shows(info.units[u].name));
        if (info.units[u].kind != UnitKind::ddr) continue;
        channel_of[u] = channels.size();
        channels.push_back(info.units[u].name);
    }
    if (channels.empty()) throw UserError("the recording has no DRAM channels. Fix: record the run again.");
    // whole cycles of the core in a bin: its width is that of power and bandwidth
    DramTraffic traffic(info.from(), info.bin_ps(), channels, info.dram_banks, info.dram_burst_bytes);
    Streams streams(info, events, traffic);
    for (const Event& event : events) {
        if (event.kind != EventKind::bank || event.time_ps < info.from() || event.time_ps >= info.view.to)
            continue;
        if (!shown[event.unit] && !shown[static_cast<size_t>(event.value)]) continue;
        const auto use = BankUse::of_code(event.cause);
        if (!use) throw InternalError("a bank is used for nothing known");
        traffic.add(event.time_ps, channel_of[event.unit], event.reserved, *use, streams.of(event));
    }
    return traffic;
}

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

std::string traffic_refuses(const TraceView& view, const OptionValues& /*options*/) {
    if (!view.causes.empty()) return "DRAM commands have no cause. Fix: leave out --trace-cause.";
    return view.ops.empty() ? "" : "a bank's rows are of all operations. Fix: leave out --trace-op.";
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
    write,
    false,
    false,
    traffic_refuses};

}  // namespace kpu::traces
