// A small made-up run that the tests of the trace writers share.
#pragma once

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/text_output.hpp"
#include "tests/temp_folder.hpp"
#include "traces/event_log.hpp"
#include "traces/ledger.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces::test {

using kpu::test::TempFolder;

/// Prices are primes, so that a swapped entry shows.
inline EnergyPrices prime_prices() {
    EnergyPrices prices;
    prices.table = "primes";
    prices.corner = "nominal";
    prices.node_nm = 16;
    prices.vdd = 0.8;
    prices.temp_c = 85;
    prices.clock_gating = true;
    prices.idle_to_gate_cycles = 10;
    prices.actions = {
        {Component::array, "mac.i8", 2, "mac", "test"},    {Component::vector, "op.i8", 3, "element", "test"},
        {Component::l1, "read", 5, "byte", "test"},        {Component::l1, "write", 7, "byte", "test"},
        {Component::l2, "read", 11, "byte", "test"},       {Component::noc, "byte", 13, "byte", "test"},
        {Component::dma, "descriptor", 17, "cmd", "test"}, {Component::ctrl, "instr", 19, "instr", "test"},
        {Component::dram, "read", 23, "burst", "test"},    {Component::phy, "bit", 29, "bit", "test"}};
    prices.statics = {{Component::array, 31, 3}, {Component::l1, 37, 5}};
    prices.dram_background_mw = 41;
    prices.phy_static_mw = 43;
    return prices;
}

/// A ledger's calls, so that the same run can be booked anywhere.
struct Booking {
    ActionId action;
    uint64_t count;
    Cycles from, to;
    uint32_t op;
};
inline std::vector<Booking> random_bookings(unsigned seed, size_t count, Cycles end, uint32_t ops) {
    std::mt19937 random(seed);
    std::vector<Booking> bookings;
    for (size_t i = 0; i < count; ++i) {
        const Cycles from = random() % end;
        const Cycles to = random() % 4 == 0 ? from : from + random() % (end - from + 1);
        const uint32_t op = random() % 5 == 0 ? background_op : random() % ops;
        bookings.push_back({static_cast<ActionId>(random() % 10), random() % 1000, from, to, op});
    }
    return bookings;
}

inline Event cause_event(Picoseconds time, uint16_t unit, Cause cause, uint32_t task = no_task,
                         uint32_t op = 0, int64_t blame = blame_none) {
    Event event;
    event.time_ps = time;
    event.unit = unit;
    event.cause = static_cast<uint8_t>(cause);
    event.task = task;
    event.op = op;
    event.value = blame;
    return event;
}
inline Event counter_event(Picoseconds time, uint16_t unit, CounterId counter, int64_t value) {
    Event event;
    event.kind = EventKind::counter;
    event.time_ps = time;
    event.unit = unit;
    event.cause = static_cast<uint8_t>(counter);
    event.value = value;
    return event;
}
inline Event issue_event(Picoseconds time, uint32_t task, uint32_t statement, int64_t innermost = 0) {
    Event event;
    event.kind = EventKind::issue;
    event.time_ps = time;
    event.task = task;
    event.op = statement;
    event.value = innermost;
    return event;
}

/// 1 GHz, 5 us: an array and a DMA of one engine, a DDR channel, the device.
struct Sample {
    RunInfo info;
    std::vector<Event> events;
    StatSet stats;
    EnergyTotals totals;
};
inline Sample sample_run() {
    Sample sample;
    RunInfo& info = sample.info;
    info.program = "sample";
    info.platform = "test";
    info.mode = "values+timing";
    info.core_hz = 1'000'000'000;
    info.total_cycles = 5000;
    info.end_ps = 5'000'000;
    info.units = {{"e0_nmu0", UnitKind::nmu, 0, 0},
                  {"e0_dma0", UnitKind::dma, 0, 0},
                  {"ddr0", UnitKind::ddr, -1, 0},
                  {"device", UnitKind::device, -1, 0}};
    for (size_t u = 0; u < 3; ++u) info.units[u].area_mm2 = 1 + 0.5 * static_cast<double>(u);
    info.ops = {{"load", "transfer", 0, 0}, {"matmul, big", "gemm", 2000, 1e6}};
    info.statements = {{"", "a.nem", 1, 1, {}, ""},
                       {"t load", "a.nem", 3, 5, {"i", "j"}, "layer 1"},
                       {"g", "a.nem", 4, 5, {"i"}, ""}};
    info.prices = prime_prices();
    info.bin_ns = 1000;
    info.dram_burst_bytes = 64;
    EventLog log;
    EnergyLedger ledger(info.prices, info.clock(), info.ops.size(), &log);
    log.record(issue_event(0, 0, 1, 7));
    Event loop;
    loop.kind = EventKind::loop;
    loop.task = 0;
    loop.unit = 0;
    loop.value = 2;
    log.record(loop);
    log.record(issue_event(0, 1, 2, -3));
    log.record(cause_event(0, 1, Cause::stalled_dma_issue, 0, 0));
    log.record(cause_event(0, 0, Cause::stalled_operand_dram_latency, 1, 1, blame_task(0)));
    log.record(cause_event(0, 3, Cause::device_stalled_memory));
    log.record(counter_event(0, 1, CounterId::queue_depth, 1));
    log.record(counter_event(500'000, 2, CounterId::bytes, 0));
    log.record(cause_event(500'400, 2, Cause::busy_useful, 0, 0));
    log.record(cause_event(500'000, 1, Cause::busy_useful, 0, 0));
    log.record(counter_event(2'500'000, 2, CounterId::bytes, 32'000));
    log.record(cause_event(2'500'000, 2, Cause::idle_finished));
    log.record(cause_event(2'600'000, 1, Cause::idle_no_work));
    log.record(cause_event(2'600'000, 1, Cause::idle_finished));
    log.record(cause_event(2'600'000, 3, Cause::device_busy_compute));
    log.record(cause_event(2'600'000, 0, Cause::busy_fill_drain, 1, 1));
    log.record(cause_event(2'700'000, 0, Cause::busy_useful, 1, 1));
    log.record(cause_event(4'900'000, 0, Cause::busy_padding, 1, 1));
    ledger.active(Component::array, 2600, 5000);
    ledger.add(0, 1'000'000, 2600, 5000, 1);
    ledger.add(6, 1, 100, 100, 0);
    ledger.add(8, 500, 500, 2500, 0);
    ledger.add(7, 3, 4999, 5000, background_op);
    ledger.finish(5000, sample.stats);
    sample.totals = ledger.totals();
    sample.events = log.take_sorted().to_vector();
    return sample;
}

template <typename Write>
std::string text_of(Write write) {
    std::string text;
    Output output = Output::to_string(text);
    write(output);
    output.finish();
    return text;
}

/// Fields of a CSV line; quotes undone.
inline std::vector<std::string> csv_fields(const std::string& line) {
    std::vector<std::string> fields(1);
    bool quoted = false;
    for (const char c : line) {
        if (c == '"') {
            quoted = !quoted;
        } else if (c == ',' && !quoted) {
            fields.emplace_back();
        } else {
            fields.back() += c;
        }
    }
    return fields;
}
inline std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        lines.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return lines;
}

}  // namespace kpu::traces::test
