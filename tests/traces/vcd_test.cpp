#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <sstream>

#include "base/read_file.hpp"
#include "sample.hpp"
#include "traces/intervals.hpp"
#include "traces/writers.hpp"

namespace kpu::traces {
namespace {

using test::sample_run;
using test::text_of;

/// A reader of value change dumps that knows nothing of the writer: full name -> (time -> value).
struct Dump {
    std::map<std::string, std::map<uint64_t, std::string>> signals;
    std::map<std::string, std::string> types;
    std::string timescale;
    uint64_t end = 0;
    std::string at(const std::string& name, uint64_t time) const {
        auto it = signals.at(name).upper_bound(time);
        return std::prev(it)->second;
    }
};

Dump parse_vcd(const std::string& text) {
    Dump dump;
    std::istringstream in(text);
    std::map<std::string, std::string> names;
    std::vector<std::string> scopes;
    std::string word;
    const auto rest = [&] {
        std::vector<std::string> words;
        while (in >> word && word != "$end") words.push_back(word);
        return words;
    };
    bool header = true;
    while (header && in >> word) {
        const std::string section = word;
        const auto words = rest();
        if (section == "$scope") scopes.push_back(words.at(1));
        if (section == "$upscope") scopes.pop_back();
        if (section == "$timescale") dump.timescale = words.at(0) + words.at(1);
        if (section == "$enddefinitions") header = false;
        if (section != "$var") continue;
        std::string name;
        for (const std::string& scope : scopes) name += scope + ".";
        name += words.at(3);
        EXPECT_TRUE(names.emplace(words.at(2), name).second) << "identifier used twice: " << words.at(2);
        EXPECT_TRUE(dump.types.emplace(name, words.at(0)).second) << "signal declared twice: " << name;
    }
    EXPECT_TRUE(scopes.empty());
    bool timed = false;
    while (in >> word) {
        if (word == "$dumpvars" || word == "$end") continue;
        if (word[0] == '#') {
            const uint64_t time = std::stoull(word.substr(1));
            EXPECT_TRUE(!timed || time > dump.end) << "time does not advance";
            timed = true;
            dump.end = time;
            continue;
        }
        std::string code;
        in >> code;
        const std::string& name = names.at(code);
        EXPECT_EQ(word[0], dump.types.at(name) == "string" ? 's' : dump.types.at(name) == "real" ? 'r' : 'b');
        dump.signals[name][dump.end] = word.substr(1);
    }
    return dump;
}

Dump dump_of(const RunInfo& info, const Events& events) {
    return parse_vcd(text_of([&](Output& o) { write_vcd(info, events, o); }));
}

// The dump is in picoseconds, ends with the run, and every signal has a value from time 0 on.
TEST(Vcd, Shape) {
    const auto sample = sample_run();
    const Dump dump = dump_of(sample.info, sample.events);
    EXPECT_EQ(dump.timescale, "1ps");
    EXPECT_EQ(dump.end, sample.info.end_ps);
    EXPECT_EQ(dump.signals.size(), dump.types.size());
    for (const auto& [name, values] : dump.signals) EXPECT_EQ(values.begin()->first, 0u) << name;
    EXPECT_EQ(dump.types.at("kpusim.e0_nmu0.state"), "string");
    EXPECT_EQ(dump.types.at("kpusim.power.dram"), "real");
    EXPECT_EQ(dump.types.count("kpusim.device.task"), 0u);
    EXPECT_EQ(dump.types.count("kpusim.e0_nmu0.queue_depth"), 0u);
}

// The state signal of every unit equals the intervals of the stall trace at each of their starts, and changes
// nowhere else; cause numbers say the same.
TEST(Vcd, StatesAreTheIntervals) {
    const auto sample = sample_run();
    const Dump dump = dump_of(sample.info, sample.events);
    std::map<std::string, size_t> intervals;
    for_each_interval(sample.info, sample.events, [&](const StateInterval& row) {
        const std::string unit = "kpusim." + sample.info.units[row.unit].name;
        EXPECT_EQ(dump.at(unit + ".state", row.start), full_name_of(row.cause));
        EXPECT_EQ(std::stoi(dump.at(unit + ".cause", row.start), nullptr, 2), static_cast<int>(row.cause));
        ++intervals[unit];
    });
    for (const auto& [unit, count] : intervals)
        EXPECT_EQ(dump.signals.at(unit + ".state").size(), count) << unit;
    EXPECT_EQ(dump.at("kpusim.e0_nmu0.task", 0), "g");
    EXPECT_EQ(dump.at("kpusim.e0_dma0.task", 600'000), "t_load@layer_1");
    EXPECT_EQ(dump.at("kpusim.e0_dma0.task", 2'600'000), "-");
    EXPECT_EQ(dump.at("kpusim.e0_dma0.queue_depth", 0), "1");
}

// 32000 bytes from 0.5 to 2.5 us are 16 GB/s; per bin of 1 us that is half in the first and third bin.
TEST(Vcd, BandwidthIsTheMeanOfEachBin) {
    const auto sample = sample_run();
    const Dump dump = dump_of(sample.info, sample.events);
    const auto gbps = [&](uint64_t time) { return std::stod(dump.at("kpusim.ddr0.bandwidth_gbps", time)); };
    EXPECT_NEAR(gbps(0), 8, 1e-9);
    EXPECT_NEAR(gbps(1'000'000), 16, 1e-9);
    EXPECT_NEAR(gbps(2'999'999), 8, 1e-9);
    EXPECT_NEAR(gbps(3'000'000), 0, 1e-9);
}

// 500 DRAM bursts of 64 bytes in the same time are the same bandwidth, all of it read.
TEST(Vcd, DramBandwidthComesFromItsBursts) {
    auto sample = sample_run();
    const Dump dump = dump_of(sample.info, sample.events);
    EXPECT_NEAR(std::stod(dump.at("kpusim.dram.read_gbps", 0)), 8, 1e-9);
    EXPECT_NEAR(std::stod(dump.at("kpusim.dram.read_gbps", 1'000'000)), 16, 1e-9);
    EXPECT_NEAR(std::stod(dump.at("kpusim.dram.read_gbps", 4'000'000)), 0, 1e-9);
    EXPECT_NEAR(std::stod(dump.at("kpusim.dram.write_gbps", 1'000'000)), 0, 1e-9);
    sample.info.dram_burst_bytes = 0;
    EXPECT_EQ(dump_of(sample.info, sample.events).types.count("kpusim.dram.read_gbps"), 0u);
}

// Power signals hold the mean of the bin that starts there; total times width sums to the energy of the run,
// and the other signals to the total.
TEST(Vcd, PowerIntegratesToTheEnergy) {
    auto sample = sample_run();
    sample.info.bin_ns = 730;  // partial last bin
    const Dump dump = dump_of(sample.info, sample.events);
    double energy = 0;
    for (uint64_t start = 0; start < sample.info.end_ps; start += 730'000) {
        const auto width = static_cast<double>(std::min<uint64_t>(730'000, sample.info.end_ps - start));
        const double total = std::stod(dump.at("kpusim.power.total", start));
        double sum = std::stod(dump.at("kpusim.power.static", start));
        for (int c = 0; c < component_count; ++c) {
            sum +=
                std::stod(dump.at("kpusim.power." + std::string(name_of(static_cast<Component>(c))), start));
        }
        EXPECT_NEAR(sum, total, 1e-9 * total);
        energy += total * width;
    }
    EXPECT_NEAR(energy, sample.totals.total(), 1e-9 * sample.totals.total());
}

// Many units, signals and changes: identifiers stay distinct and states equal the intervals.
TEST(Vcd, ManyUnits) {
    std::mt19937_64 random(5);
    RunInfo info;
    info.core_hz = 1'000'000'000;
    info.end_ps = 10'000'000;
    info.prices = test::prime_prices();
    for (int i = 0; i < 300; ++i) info.units.push_back({fmt::format("u{}", i), UnitKind::dma, 0, i});
    EventLog log;
    for (int i = 0; i < 20'000; ++i) {
        log.record(test::cause_event(random() % info.end_ps, random() % 300,
                                     static_cast<Cause>(random() % unit_cause_count)));
    }
    const auto events = log.take_sorted();
    const Dump dump = dump_of(info, events);
    for_each_interval(info, events, [&](const StateInterval& row) {
        ASSERT_EQ(dump.at("kpusim." + info.units[row.unit].name + ".state", row.start),
                  full_name_of(row.cause));
    });
}

// A run without time or events gives a valid dump.
TEST(Vcd, EmptyRun) {
    RunInfo info;
    info.units = {{"device", UnitKind::device, -1, 0}};
    const Dump dump = dump_of(info, {});
    EXPECT_EQ(dump.end, 0u);
    EXPECT_EQ(dump.at("kpusim.device.state", 0), "idle.no_work");
    EXPECT_EQ(dump.at("kpusim.power.total", 0), "0");
}

// GTKWave's own converter accepts the dump, and gives back the same states.
TEST(Vcd, AcceptedByVcd2fst) {
    if (std::system("command -v vcd2fst >/dev/null && command -v fst2vcd >/dev/null") != 0) {
        GTEST_SKIP() << "vcd2fst of the gtkwave package is not installed";
    }
    const auto sample = sample_run();
    const test::TempFolder folder;
    Output output = Output::to_file(folder.file("a.vcd"));
    write_vcd(sample.info, sample.events, output);
    output.finish();
    const std::string command =
        "cd '" + folder.file("") + "' && vcd2fst a.vcd a.fst >/dev/null && fst2vcd a.fst > b.vcd";
    ASSERT_EQ(std::system(command.c_str()), 0);
    const std::string text = read_file(folder.file("b.vcd"));
    for (const char* signal :
         {" state $end", " cause $end", " task $end", " bandwidth_gbps $end", " total $end"}) {
        EXPECT_THAT(text, testing::HasSubstr(signal));
    }
    for (const char* state :
         {"sbusy.useful", "sstalled.operand_dram_latency", "sidle.finished", "st_load@layer_1", "r16 "}) {
        EXPECT_THAT(text, testing::HasSubstr(state));
    }
}

}  // namespace
}  // namespace kpu::traces
