#include "tests/dram/accuracy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tests/csv.hpp"
#include "tests/dram/fidelity.hpp"
#include "tests/dram/support.hpp"

namespace kpu::dram {
namespace {

/// One reference row: what a simulator says and what we say.
struct Sample {
    std::string simulator, device, mapping, pattern;
    uint64_t bursts = 0;
    double cycles = 0, activates = 0;  ///< error in %
    std::optional<double> latency;     ///< error in %; patterns with reads only
    uint64_t our_cycles = 0;
};

double error(double ours, double theirs) { return 100 * (ours / theirs - 1); }

class Replays {
  public:
    const ReplayResult& of(const std::string& device, const std::string& mapping, const std::string& pattern,
                           uint64_t bursts, uint32_t outstanding) {
        const auto key = fmt::format("{} {} {} {} {}", device, mapping, pattern, bursts, outstanding);
        auto found = results_.find(key);
        if (found == results_.end()) {
            ReplayConfig config{config_of(device, mapping_of(mapping))};
            config.max_outstanding = outstanding;
            found = results_.emplace(key, replay_pattern(config, device, pattern, bursts)).first;
        }
        return found->second;
    }

  private:
    std::map<std::string, ReplayResult> results_;
};

std::vector<Sample> reference_samples(Replays& replays) {
    std::vector<Sample> samples;
    for (const Row& row : read_csv(reference_file("results_reference.csv"))) {
        if (row.at("sim") == "DRAMSys-FrFcfsBankwise") continue;  // other queues: not in the envelope either
        Sample s;
        s.simulator = row.at("sim");
        s.device = row.at("device");
        s.mapping = row.at("mapping");
        s.pattern = row.at("pattern");
        s.bursts = std::stoull(row.at("bursts"));
        const ReplayResult& ours = replays.of(s.device, s.mapping, s.pattern, s.bursts, 32);
        s.our_cycles = ours.cycles;
        s.cycles = error(static_cast<double>(ours.cycles), std::stod(row.at("dram_cycles")));
        s.activates = error(static_cast<double>(ours.counters.activates), std::stod(row.at("n_act")));
        if (!row.at("avg_rd_lat_cyc").empty())
            s.latency = error(ours.read_latency.average, std::stod(row.at("avg_rd_lat_cyc")));
        samples.push_back(s);
    }
    return samples;
}

/// Returns "median p90 max" of absolute errors as table cells.
std::string spread(std::vector<double> errors) {
    for (double& e : errors) e = std::abs(e);
    std::sort(errors.begin(), errors.end());
    if (errors.empty()) return "- | - | -";
    const size_t n = errors.size();
    const double median = n % 2 == 1 ? errors[n / 2] : (errors[n / 2 - 1] + errors[n / 2]) / 2;
    const double p90 = errors[(n * 9 + 9) / 10 - 1];
    return fmt::format("{:.2f} | {:.2f} | {:.2f}", median, p90, errors.back());
}

template <typename Key>
std::string summary(const std::vector<Sample>& samples, const std::string& heading, Key key) {
    std::vector<std::string> keys;
    for (const Sample& s : samples) {
        if (std::find(keys.begin(), keys.end(), key(s)) == keys.end()) keys.push_back(key(s));
    }
    std::string text = "| " + heading +
                       " | rows | cycles: median | p90 | max | read latency: median | p90 | max | "
                       "activates: median | p90 | max |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
    for (const std::string& k : keys) {
        std::vector<double> cycles, latency, activates;
        for (const Sample& s : samples) {
            if (key(s) != k) continue;
            cycles.push_back(s.cycles);
            if (s.latency) latency.push_back(*s.latency);
            if (s.pattern != "two_rd") activates.push_back(s.activates);
        }
        text += fmt::format("| {} | {} | {} | {} | {} |\n", k, cycles.size(), spread(cycles), spread(latency),
                            spread(activates));
    }
    return text + "\n";
}

std::string table_of_rows(const std::vector<Sample>& samples) {
    const std::vector<std::string> simulators{"DRAMsim3", "ramulator2", "DRAMSys"};
    std::string text =
        "| device | mapping | pattern | bursts | our cycles | vs DRAMsim3 | vs Ramulator 2 | vs DRAMSys |\n"
        "|---|---|---|---|---|---|---|---|\n";
    std::vector<std::string> done;
    for (const Sample& first : samples) {
        const auto same = [&first](const Sample& s) {
            return s.device == first.device && s.mapping == first.mapping && s.pattern == first.pattern &&
                   s.bursts == first.bursts;
        };
        const std::string row = fmt::format("| {} | {} | {} | {} | {} |", first.device, first.mapping,
                                            first.pattern, first.bursts, first.our_cycles);
        if (std::find(done.begin(), done.end(), row) != done.end()) continue;
        done.push_back(row);
        text += row;
        for (const std::string& simulator : simulators) {
            const auto found = std::find_if(samples.begin(), samples.end(), [&](const Sample& s) {
                return same(s) && s.simulator == simulator;
            });
            text += found == samples.end() ? " - |" : fmt::format(" {:+.2f} |", found->cycles);
        }
        text += "\n";
    }
    return text + "\n";
}

std::string sweep(Replays& replays) {
    std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> errors;
    for (const Row& row : read_csv(reference_file("outstanding_sweep.csv"))) {
        const auto outstanding = static_cast<uint32_t>(std::stoul(row.at("max_outstanding_reads")));
        const ReplayResult& ours = replays.of(row.at("device"), row.at("mapping"), row.at("pattern"),
                                              std::stoull(row.at("bursts")), outstanding);
        auto& [cycles, latency] = errors[row.at("sim")];
        cycles.push_back(error(static_cast<double>(ours.cycles), std::stod(row.at("dram_cycles"))));
        latency.push_back(error(ours.read_latency.average, std::stod(row.at("avg_rd_lat_cyc"))));
    }
    std::string text =
        "| simulator | rows | cycles: median | p90 | max | read latency: median | p90 | max |\n"
        "|---|---|---|---|---|---|---|---|\n";
    for (const auto& [simulator, both] : errors) {
        text += fmt::format("| {} | {} | {} | {} |\n", simulator, both.first.size(), spread(both.first),
                            spread(both.second));
    }
    return text + "\n";
}

/// Returns how far the simulators lie from each other on a pattern: the most that any error above can mean.
std::string disagreement() {
    std::map<std::string, double> most;
    for (const Row& row : read_csv(reference_file("envelope.csv"))) {
        double& spread_of = most[row.at("pattern")];
        spread_of = std::max(spread_of, std::stod(row.at("spread_pct")));
    }
    std::string text = "| pattern | largest difference between simulators, % |\n|---|---|\n";
    for (const auto& [pattern, percent] : most) text += fmt::format("| {} | {:.2f} |\n", pattern, percent);
    return text + "\n";
}

}  // namespace

/// Traffic for which there is no reference: what it costs against what it must.
std::string own_patterns() {
    constexpr uint64_t bursts = 65536;
    std::string text =
        "## Random reads and writes together\n\nNo pattern of the reference mixes random reads and writes, "
        "so these are ours, "
        "and no simulator's\nfigure stands beside them: 65,536 random bursts, of which 10, 30 or 50 % are "
        "writes in random order. "
        "The least\nis an activate a burst, and the cycles of the same number of random reads; each change "
        "of direction costs on top of "
        "that.\nA row that was opened for reads serves them before the bus turns to writes, and the other "
        "way round, while "
        "rows\nfor the new direction open.\n\n"
        "| device | mapping | pattern | cycles | of rnd_rd's | activates a burst "
        "|\n|---|---|---|---|---|---|\n";
    for (const auto& [device, mapping] :
         {std::pair("DDR4-3200", "BGI"), std::pair("DDR4-3200", "RBC"), std::pair("LPDDR4-3200", "RBC"),
          std::pair("HBM2-2000", "BGI"), std::pair("LPDDR5-6400", "BGI")}) {
        const ReplayConfig config{config_of(device, mapping_of(mapping))};
        const auto reads = static_cast<double>(replay_pattern(config, device, "rnd_rd", bursts).cycles);
        for (const char* pattern : {"rnd_mix10", "rnd_mix30", "rnd_mix50"}) {
            const ReplayResult result = replay_pattern(config, device, pattern, bursts);
            text += fmt::format("| {} | {} | {} | {} | {:.3f} | {:.4f} |\n", device, mapping, pattern,
                                result.cycles, static_cast<double>(result.cycles) / reads,
                                static_cast<double>(result.counters.activates) / bursts);
        }
    }
    return text + "\n";
}

std::string accuracy_page() {
    Replays replays;
    const std::vector<Sample> samples = reference_samples(replays);
    std::string text =
        "# Accuracy of the DRAM controller\n\n"
        "`model/dram` against three other simulators on eight traffic patterns of 64-byte bursts, same "
        "device\n"
        "parameters, same address mapping, at most 32 reads outstanding (`tests/reference/dram`). Errors in "
        "percent of the\n"
        "simulator's figure; median, 90th percentile and maximum are of absolute errors. The two-stream "
        "pattern is not in\n"
        "the activates: there they depend on the scheduling policy alone. BGI is bank_group_interleaved, "
        "RBC\n"
        "row_bank_column. Made by, and compared in the tests with:\n\n"
        "    build/release/bin/dram_accuracy > docs/accuracy_dram.md\n\n"
        "Every row lies in the acceptance band of `tests/dram/reference_test.cpp`: cycles within the "
        "simulators' range\n"
        "widened by 2 %, or 5 % where they differ by 5 % or more; LPDDR5 has one simulator, and lies within "
        "5 % of it.\n\n"
        "## By device and mapping\n\n";
    const auto with_simulator = [](const Sample& s) {
        return fmt::format("{} {} vs {}", s.device, s.mapping, s.simulator);
    };
    text += summary(samples, "device, mapping, simulator", with_simulator);
    text += "## By pattern\n\n";
    text += summary(samples, "pattern, simulator",
                    [](const Sample& s) { return fmt::format("{} vs {}", s.pattern, s.simulator); });
    text += "How far the simulators lie from each other, which bounds what the errors can mean:\n\n" +
            disagreement();
    text +=
        "The second DRAMSys configuration of the reference, with a queue per bank, is in neither the band "
        "nor these\n"
        "tables.\n\n"
        "## Bandwidth and latency against 1 to 64 outstanding reads\n\n";
    text += sweep(replays);
    text +=
        "With 64 outstanding, reads wait in front of our 32-entry queue, as in Ramulator 2 and DRAMSys; "
        "DRAMsim3's holds all\n"
        "64 and counts that wait as latency.\n\n" +
        own_patterns() + fidelity_section() + "## Every row\n\nError of cycles, %:\n\n";
    text += table_of_rows(samples);
    while (text.size() > 1 && text[text.size() - 2] == '\n') text.pop_back();
    return text;
}

}  // namespace kpu::dram
