#include "runtime/validation/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/diagnostics.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "runtime/validation/row_runner.hpp"

namespace kpu::validation {
namespace {

constexpr double within = 0.01;  ///< share of what was measured
constexpr double furthest = 16;  ///< factor from the value now
constexpr int most_halvings = 10;

/// A parameter that a cause depends on. Where the platform has several of the name, as of rates, each is one.
struct Lever {
    std::string_view cause, parameter;
};
constexpr Lever levers[] = {{"launch", "sequencer.launch_cycles"},
                            {"dispatch", "sequencer.dispatch_cycles"},
                            {"products", "engine.array.rate"},
                            {"commands of the array", "engine.array.command_cycles"},
                            {"weights", "engine.array.command_rows"},
                            {"results", "engine.array.result_bytes_per_cycle"},
                            {"vector work", "engine.vector.cost"},
                            {"vector work", "engine.vector.lanes"},
                            {"operand_bank_conflict", "engine.l1.banks"},
                            {"dma_issue", "engine.dma.descriptor_cycles"},
                            {"operand_interconnect", "engine.dma.bytes_per_cycle"},
                            {"operand_interconnect", "interconnect.link_bytes_per_cycle"},
                            {"operand_dram_latency", "engine.dma.max_outstanding_bursts"},
                            {"operand_dram_latency", "system_dma.max_outstanding_bursts"},
                            {"operand_dram_latency", "ddr.controller_latency_ns"},
                            {"operand_sram_access", "l2.read_latency_cycles"},
                            {"backpressure", "l2.write_latency_cycles"},
                            {"operand_dram_bandwidth", "system_dma.bytes_per_cycle"},
                            {"operand_dram_bandwidth", "ddr.data_rate_mtps"},
                            {"operand_dram_bandwidth", "ddr.channels"}};

std::optional<double> number_of(const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// A parameter, tried at other values.
class Trial {
  public:
    Trial(const MeasuredRow& row, const platforms::Platform& platform, std::string parameter, bool whole,
          const std::atomic<bool>* interrupt)
        : row_(row),
          platform_(platform),
          parameter_(std::move(parameter)),
          whole_(whole),
          interrupt_(interrupt) {}

    /// Returns the cycles with this value; nothing where the platform may not have it.
    std::optional<double> cycles(double value) {
        const std::string text = whole_ ? fmt::format("{:.0f}", value) : fmt::format("{:.6g}", value);
        if (const auto found = known_.find(text); found != known_.end()) return found->second;
        std::optional<double> result;
        try {
            platforms::Platform changed = platform_;
            platforms::apply_override(changed, parameter_, text);
            platforms::validate(changed);
            result = RowRunner(changed, interrupt_).run(row_).cycles;
        } catch (const UserError&) {
            result.reset();  // out of the parameter's range, or the row no longer fits
        }
        known_[text] = result;
        return result;
    }
    bool whole() const { return whole_; }

  private:
    const MeasuredRow& row_;
    const platforms::Platform& platform_;
    std::string parameter_;
    bool whole_;
    const std::atomic<bool>* interrupt_;
    std::map<std::string, std::optional<double>> known_;
};

/// Returns the values from the one now outwards, up to `furthest` times it; of 0, from 1 on.
std::vector<double> ladder(double now, bool up) {
    std::vector<double> values;
    if (now == 0) {
        constexpr double last = 1 << 20;
        if (up)
            for (double value = 1; value <= last; value *= 2) values.push_back(value);
        return values;
    }
    for (double factor = 2; factor <= furthest; factor *= 2)
        values.push_back(up ? now * factor : now / factor);
    if (!up) values.push_back(0);
    return values;
}

/// Walks outwards until the measurement lies between two values, then halves. Changes `change` to the best that it sees.
void search(Trial& trial, double measured, double simulated, bool up, Change& change) {
    double inside = change.now, inside_cycles = simulated;
    const auto take = [&](double value, double cycles) {
        if (std::abs(cycles - measured) >= std::abs(change.cycles - measured)) return;
        change.nearest = value, change.cycles = cycles;
    };
    for (const double value : ladder(change.now, up)) {
        const auto cycles = trial.cycles(value);
        if (!cycles) return;
        take(value, *cycles);
        if ((*cycles < measured) == (inside_cycles < measured)) {
            inside = value, inside_cycles = *cycles;
            continue;
        }
        double outside = value;
        for (int i = 0; i < most_halvings && std::abs(change.cycles - measured) > within * measured; ++i) {
            double middle = inside > 0 && outside > 0 ? std::sqrt(inside * outside) : (inside + outside) / 2;
            if (trial.whole()) middle = std::round(middle);
            const auto now = trial.cycles(middle);
            if (!now || middle == inside || middle == outside) return;
            take(middle, *now);
            ((*now < measured) == (inside_cycles < measured) ? inside : outside) = middle;
        }
        return;
    }
}

/// Opcodes of the vector units that the row runs.
std::set<std::string> opcodes_of(const MeasuredRow& row) {
    std::set<std::string> opcodes;
    for (const Kernel& kernel : row.kernels)
        opcodes.insert(kernel.kind == Kernel::Kind::attention ? "softmax" : kernel.opcode);
    return opcodes;
}

bool concerns(const MeasuredRow& row, std::string_view path) {
    constexpr std::string_view cost = "engine.vector.cost[";
    if (!starts_with(path, cost)) return true;
    const std::string_view rest = path.substr(cost.size());
    return opcodes_of(row).count(std::string(rest.substr(0, rest.find(']')))) > 0 &&
           path.find("cycles_per_element") != std::string_view::npos;
}

const Lever* lever_of(std::string_view path) {
    for (const Lever& lever : levers) {
        if (path == lever.parameter) return &lever;
        if (starts_with(path, lever.parameter) && path[lever.parameter.size()] == '[') return &lever;
    }
    return nullptr;
}

}  // namespace

double Change::distance() const {
    if (now == 0 || nearest == 0) return 1 + std::abs(nearest - now);
    return std::max(nearest / now, now / nearest);
}

Explained explain_row(MeasuredRow row, const platforms::Platform& platform,
                      const std::atomic<bool>* interrupt) {
    if (!row.simulates() || row.traffic_times > 0)
        throw UserError(fmt::format("row `{}` is not simulated: {}. Fix: name another row.", row.name(),
                                    row.not_counted.empty() ? "it gives no shape" : row.not_counted));
    if (row.in_microseconds) to_cycles(row, platform);
    Explained explained;
    explained.row = std::move(row);
    explained.simulated = RowRunner(platform, interrupt).run(explained.row).cycles;
    const double measured = explained.row.cycles;
    for (const auto& [path, text] : platforms::fields_of(platform)) {
        if (interrupt && *interrupt) break;
        const Lever* lever = lever_of(path);
        const auto now = number_of(text);
        if (lever == nullptr || !now || !concerns(explained.row, path)) continue;
        const bool whole = path.find("relative") == std::string::npos &&
                           path.find("cycles_per_element") == std::string::npos;
        Trial trial(explained.row, platform, path, whole, interrupt);
        Change change{std::string(lever->cause), path, *now, std::nullopt, *now, explained.simulated};
        for (const bool up : {false, true}) search(trial, measured, explained.simulated, up, change);
        constexpr double little = 0.9;  // of the distance is left: the parameter does not bear on it
        if (std::abs(change.cycles - measured) >= little * std::abs(explained.simulated - measured)) continue;
        if (std::abs(change.cycles - measured) <= within * measured) change.needed = change.nearest;
        explained.changes.push_back(change);
    }
    std::stable_sort(explained.changes.begin(), explained.changes.end(),
                     [&](const Change& a, const Change& b) {
                         if (a.needed.has_value() != b.needed.has_value()) return a.needed.has_value();
                         if (a.needed) return a.distance() < b.distance();
                         return std::abs(a.cycles - measured) < std::abs(b.cycles - measured);
                     });
    return explained;
}

std::string text_of(const Explained& explained) {
    const double measured = explained.row.cycles;
    std::string text =
        fmt::format("{}: measured {:.0f}, simulated {:.0f} ({:+.1f} %)\n", explained.row.name(), measured,
                    explained.simulated, 100 * (explained.simulated / measured - 1));
    if (std::abs(explained.simulated - measured) <= within * measured)
        return text + "It meets the measurement to 1 %: nothing to explain.\n";
    text += "One parameter at a time, to meet what was measured to 1 %, or as near as it comes:\n";
    text += fmt::format("{:<24}{:<52}{:>10}{:>10}{:>12}  {}\n", "cause", "parameter", "now", "needed",
                        "cycles", "");
    for (const Change& change : explained.changes)
        text += fmt::format(
            "{:<24}{:<52}{:>10.6g}{:>10.6g}{:>12.0f}  {}\n", change.cause, change.parameter, change.now,
            change.nearest, change.cycles,
            change.needed ? "" : fmt::format("not enough: {:+.1f} %", 100 * (change.cycles / measured - 1)));
    if (explained.changes.empty()) text += "none of the parameters changes the row's time towards it\n";
    return text;
}

std::string json_of(const Explained& explained) {
    using Json = nlohmann::ordered_json;
    Json changes = Json::array();
    for (const Change& change : explained.changes)
        changes.push_back(Json{{"cause", change.cause},
                               {"parameter", change.parameter},
                               {"now", change.now},
                               {"needed", change.needed ? Json(*change.needed) : Json()},
                               {"nearest", change.nearest},
                               {"cycles", change.cycles}});
    return json_text(Json{{"row", explained.row.name()},
                          {"measured", explained.row.cycles},
                          {"simulated", explained.simulated},
                          {"changes", std::move(changes)}},
                     1) +
           "\n";
}

const MeasuredRow& find_row(const std::vector<MeasuredRow>& rows, const std::string& name) {
    const auto line = number_of(name);
    std::vector<std::string> names;
    for (const MeasuredRow& row : rows) {
        names.push_back(row.name());
        if (names.back() == name || (line && *line == double(row.line))) return row;
    }
    const std::vector<std::string_view> views(names.begin(), names.end());
    throw UserError(
        fmt::format("the file has no row `{}`. Fix: give its name or its line, or did you mean `{}`?", name,
                    nearest_name(name, views)));
}

}  // namespace kpu::validation
