#include "traces/writers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <tuple>

#include "base/diagnostics.hpp"
#include "base/read_file.hpp"
#include "sample.hpp"
#include "traces/intervals.hpp"

namespace kpu::traces {
namespace {

using test::csv_fields;
using test::lines_of;
using test::sample_run;
using test::text_of;

std::vector<std::vector<std::string>> rows_of(const std::string& csv, const std::string& header) {
    const auto lines = lines_of(csv);
    std::vector<std::vector<std::string>> rows;
    size_t first = 0;
    while (first < lines.size() && lines[first][0] == '#') ++first;
    EXPECT_EQ(lines.at(first), header);
    const size_t columns = csv_fields(header).size();
    for (size_t i = first + 1; i < lines.size(); ++i) {
        rows.push_back(csv_fields(lines[i]));
        EXPECT_EQ(rows.back().size(), columns) << lines[i];
    }
    return rows;
}

constexpr const char* stall_header =
    "unit,start_ps,end_ps,cycles,cause,task,iteration,operation,blamed,profile";

// Records of long runs lie on disk: intervals are those of the same records in memory.
TEST(intervals, are_the_same_from_disk) {
    RunInfo info = sample_run().info;
    constexpr size_t count = 3'000'000;  // more than are kept at once, of one unit too
    std::vector<Event> events;
    for (size_t i = 0; i < count; ++i) {
        Event event;
        event.kind = EventKind::cause;
        event.time_ps = i * 1000;
        event.unit = static_cast<uint16_t>(i % 2 == 0 ? 1 : i / 2 % info.units.size());
        event.cause = static_cast<uint8_t>(i / 2 % 20);
        event.task = static_cast<uint32_t>(i);
        events.push_back(event);
    }
    info.end_ps = count * 1000;
    auto disk = std::make_shared<EventRuns>();
    disk->add(events);
    using Row = std::tuple<uint16_t, Picoseconds, Picoseconds, Cause, uint32_t>;
    std::vector<Row> expected, found;
    for (uint16_t unit = 0; unit < info.units.size(); ++unit) {
        Row open{unit, 0, 0, Cause::idle_no_work, no_task};
        const auto close = [&](Picoseconds at) {
            std::get<2>(open) = at;
            if (at > std::get<1>(open)) expected.push_back(open);
        };
        for (const Event& event : events) {
            if (event.unit != unit) continue;
            close(event.time_ps);
            open = {unit, event.time_ps, 0, static_cast<Cause>(event.cause), event.task};
        }
        close(info.end_ps);
    }
    for_each_interval(info, Events(disk), [&found](const StateInterval& row) {
        found.push_back({row.unit, row.start, row.end, row.cause, row.task});
    });
    EXPECT_TRUE(found == expected);
}

// The stall trace names task, iteration, operation and what is blamed; of two causes at one time the last one
// counts.
TEST(StallsCsv, RowsSayWhatHappened) {
    const auto sample = sample_run();
    const auto lines = lines_of(text_of([&](Output& o) { write_stalls_csv(sample.info, sample.events, o); }));
    const std::vector<std::string> expected{
        stall_header,
        "e0_nmu0,0,2600000,2600,stalled.operand_dram_latency,g,i=-3,\"matmul, big\",t load[i=2 j=7],",
        "e0_nmu0,2600000,2700000,100,busy.fill_drain,g,i=-3,\"matmul, big\",,",
        "e0_nmu0,2700000,4900000,2200,busy.useful,g,i=-3,\"matmul, big\",,",
        "e0_nmu0,4900000,5000000,100,busy.padding,g,i=-3,\"matmul, big\",,",
        "e0_dma0,0,500000,500,stalled.dma_issue,t load,i=2 j=7,load,,layer 1",
        "e0_dma0,500000,2600000,2100,busy.useful,t load,i=2 j=7,load,,layer 1",
        "e0_dma0,2600000,5000000,2400,idle.finished,,,,,",
        "ddr0,0,500400,501,idle.no_work,,,,,",
        "ddr0,500400,2500000,1999,busy.useful,t load,i=2 j=7,load,,layer 1",
        "ddr0,2500000,5000000,2500,idle.finished,,,,,",
        "device,0,2600000,2600,stalled.memory,,,,,",
        "device,2600000,5000000,2400,busy.compute,,,,,"};
    EXPECT_EQ(lines, expected);
}

// Rows of a unit follow each other without gap from 0 to the end and their cycles sum to cycles.total,
// whatever the clock domain in which the causes change.
TEST(StallsCsv, CyclesOfEveryUnitSumToTheTotal) {
    std::mt19937_64 random(3);
    for (const uint64_t hz : {1'000'000'000u, 933'000'000u, 7u}) {
        RunInfo info;
        info.core_hz = hz;
        info.end_ps = hz == 7 ? 3'000'000'000'001u : 1'234'567;
        info.total_cycles = info.clock().edges_before(info.end_ps);
        info.units = {
            {"a", UnitKind::nmu, 0, 0}, {"b", UnitKind::ddr, -1, 0}, {"never", UnitKind::link, -1, 0}};
        EventLog log;
        for (int i = 0; i < 2000; ++i) {
            log.record(test::cause_event(random() % (info.end_ps + info.end_ps / 10), random() % 2,
                                         static_cast<Cause>(random() % unit_cause_count)));
        }
        const auto events = log.take_sorted();
        std::map<std::string, std::pair<uint64_t, uint64_t>> sums;  // unit -> (end so far, cycles)
        for (const auto& row :
             rows_of(text_of([&](Output& o) { write_stalls_csv(info, events, o); }), stall_header)) {
            auto& [end, cycles] = sums[row[0]];
            EXPECT_EQ(std::stoull(row[1]), end);
            EXPECT_LT(std::stoull(row[1]), std::stoull(row[2]));
            end = std::stoull(row[2]);
            cycles += std::stoull(row[3]);
        }
        ASSERT_EQ(sums.size(), 3u);
        for (const auto& [unit, sum] : sums) {
            EXPECT_EQ(sum.first, info.end_ps) << unit;
            EXPECT_EQ(sum.second, info.total_cycles) << unit;
        }
    }
}

constexpr const char* power_header =
    "time_ns,dt_ns,array_w,vector_w,l1_w,l2_w,noc_w,dma_w,ctrl_w,dram_dyn_w,dram_bg_w,phy_w,static_w,total_w,"
    "op";

// At any bin width, W times dt sums to the energy of the run, the columns of a row to its total, and dt to
// the time.
TEST(PowerCsv, IntegratesToTheEnergyOfTheRun) {
    auto sample = sample_run();
    const double total = sample.totals.total();
    for (const double bin_ns : {10.0, 1000.0, 730.0, 7300.0, 1e9}) {
        sample.info.bin_ns = bin_ns;
        double energy = 0, time = 0;
        for (const auto& row :
             rows_of(text_of([&](Output& o) { write_power_csv(sample.info, sample.events, {}, o); }),
                     power_header)) {
            EXPECT_DOUBLE_EQ(std::stod(row[0]), time);
            double sum = 0;
            for (size_t column = 2; column <= 12; ++column) sum += std::stod(row[column]);
            const double watts = std::stod(row[13]), dt = std::stod(row[1]);
            EXPECT_NEAR(sum, watts, 1e-9 * watts);
            energy += watts * dt * 1000;
            time += dt;
        }
        EXPECT_NEAR(energy, total, 1e-9 * total) << bin_ns;
        EXPECT_DOUBLE_EQ(time, 5000);
    }
}

// The header is the first line, with units; rows carry the operation that used most dynamic energy.
TEST(PowerCsv, HeaderAndOperations) {
    const auto sample = sample_run();
    const std::string text = text_of([&](Output& o) { write_power_csv(sample.info, sample.events, {}, o); });
    EXPECT_EQ(lines_of(text)[0], power_header);
    const auto rows = rows_of(text, power_header);
    ASSERT_EQ(rows.size(), 5u);
    EXPECT_EQ(rows[0].back(), "load");
    EXPECT_EQ(rows[2].back(), "matmul, big");
    // 2 pJ x 10^6 over 2400 ns, of which the bin [3, 4) us holds 1000 ns: 0.8333 W
    EXPECT_NEAR(std::stod(rows[3][2]), 2e6 / 2400 / 1000, 1e-12);
    // background 41 mW, PHY 43 mW in every bin
    for (const auto& row : rows) {
        EXPECT_NEAR(std::stod(row[10]), 0.041, 1e-12);
        EXPECT_NEAR(std::stod(row[11]), 0.043, 1e-12);
    }
}

// The summary of energies multiplies out, and its shares sum to one.
TEST(EnergyCsv, MultipliesOut) {
    EnergyLedger ledger(test::prime_prices(), Clock(1'000'000'000), 1, nullptr);
    ledger.add(0, 10, 0, 10, 0);
    ledger.add(3, 20, 0, 10, 0);
    StatSet stats;
    ledger.finish(100, stats);
    double shares = 0;
    for (const auto& row : rows_of(text_of([&](Output& o) { write_energy_csv(ledger.summary(), o); }),
                                   "component,action,per,count,energy_per_action_pj,energy_pj,share")) {
        EXPECT_NEAR(std::stod(row[3]) * std::stod(row[4]), std::stod(row[5]), 1e-9 * std::stod(row[5]));
        shares += std::stod(row[6]);
    }
    EXPECT_NEAR(shares, 1, 1e-12);
}

// ops.csv has one column per cause and leaves ratios empty where there is no estimate.
TEST(OpsCsv, ColumnsAndRatios) {
    OpRow row;
    row.id = "conv,1";
    row.type = "conv2d";
    row.span_cycles = 300;
    row.charged_cycles = 200;
    row.causes[static_cast<size_t>(Cause::busy_useful)] = 150;
    row.causes[static_cast<size_t>(Cause::stalled_refresh)] = 7;
    row.macs = 1000;
    row.utilization = 0.5;
    row.energy_pj = 30;
    row.estimated_cycles = 100;
    OpRow background;
    background.id = background_name;
    const auto lines = lines_of(text_of([&](Output& o) { write_ops_csv({row, background}, o); }));
    ASSERT_EQ(lines.size(), 3u);
    const auto header = csv_fields(lines[0]), first = csv_fields(lines[1]), second = csv_fields(lines[2]);
    ASSERT_EQ(header.size(), first.size());
    ASSERT_EQ(header.size(), second.size());
    std::map<std::string, std::string> cells, empty;
    for (size_t i = 0; i < header.size(); ++i) {
        cells[header[i]] = first[i];
        empty[header[i]] = second[i];
    }
    EXPECT_EQ(cells.size(), header.size());
    EXPECT_EQ(cells["op"], "conv,1");
    EXPECT_EQ(cells["busy.useful"], "150");
    EXPECT_EQ(cells["stalled.refresh"], "7");
    EXPECT_EQ(cells["idle.finished"], "0");
    EXPECT_EQ(cells["cycles_over_estimate"], "2.0");
    EXPECT_EQ(cells["energy_over_estimate"], "");
    EXPECT_EQ(empty["op"], "__background");
    EXPECT_EQ(empty["cycles_over_estimate"], "");
    EXPECT_EQ(cells.count("busy.compute"), 0u);
}

// A file appears under its name only when it is complete; a path that cannot be written is an error with the
// path.
TEST(Output, AppearsOnlyWhenFinished) {
    const test::TempFolder folder;
    const std::string path = folder.file("x.csv");
    {
        Output output = Output::to_file(path);
        output.write("half");
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder.file("")));
    write_file(path, "whole");
    EXPECT_EQ(read_file(path), "whole");
    EXPECT_THROW(write_file("/nonexistent/x", "y"), UserError);
    EXPECT_THROW(read_file(folder.file("")), UserError);
}

}  // namespace
}  // namespace kpu::traces
