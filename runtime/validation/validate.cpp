#include "runtime/validation/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/text.hpp"
#include "runtime/validation/own_choice.hpp"
#include "runtime/validation/row_runner.hpp"

namespace kpu::validation {
namespace {

constexpr double short_layer_cycles = 50000;

/// Returns the value below which the share `q` of sorted values lies.
double quantile(const std::vector<double>& sorted, double q) {
    const double at = q * double(sorted.size() - 1);
    const auto below = static_cast<size_t>(at);
    const size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (at - double(below)) * (sorted[above] - sorted[below]);
}

/// Returns each value's place among all; of equal ones the mean of theirs.
std::vector<double> ranks_of(const std::vector<double>& values) {
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
    std::vector<double> ranks(values.size());
    for (size_t first = 0; first < order.size();) {
        size_t end = first + 1;
        while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
        for (size_t i = first; i < end; ++i) ranks[order[i]] = double(first + end - 1) / 2;
        first = end;
    }
    return ranks;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
    const double n = double(a.size());
    const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
    const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
    double both = 0, of_a = 0, of_b = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        both += (a[i] - mean_a) * (b[i] - mean_b);
        of_a += (a[i] - mean_a) * (a[i] - mean_a);
        of_b += (b[i] - mean_b) * (b[i] - mean_b);
    }
    return of_a == 0 || of_b == 0 ? std::numeric_limits<double>::quiet_NaN() : both / std::sqrt(of_a * of_b);
}

/// Compares bytes of DRAM in this compiler's choice, of a row whose time compares with nothing.
void compare_traffic(ComparedRow& row, RowRunner& runner, const platforms::Platform& platform) {
    constexpr double bytes = 2, mega = 1e6;  // of an element of the chip; ours have one
    const double times = bytes * double(row.measured.traffic_times);
    try {
        row.dram_megabytes = runner.run(own_choice(row.measured.work, platform)).dram_bytes * times / mega;
    } catch (const UserError& error) {
        row.own_failed = error.what();
    }
}

void compare(ComparedRow& row, RowRunner& runner, const platforms::Platform& platform,
             const ValidateOptions& options) {
    const Work& work = row.measured.work;
    if (row.measured.traffic_times > 0) return compare_traffic(row, runner, platform);
    if (work.kind == Work::Kind::product || work.kind == Work::Kind::convolution)
        row.tiles = tiles_of(row.measured, budget_of(platform)).count(work);
    const Run measured = runner.run(row.measured);
    row.simulated = measured.cycles;
    row.causes = measured.causes;
    if (!options.own || work.kind == Work::Kind::unknown) return;
    try {
        row.own = runner.run(own_choice(work, platform)).cycles;
    } catch (const UserError& error) {
        row.own_failed = error.what();
    }
}

}  // namespace

Summary summary_of(const std::string& name, const std::vector<const ComparedRow*>& rows) {
    Summary summary;
    summary.name = name;
    summary.rows = rows.size();
    summary.rank = std::numeric_limits<double>::quiet_NaN();
    if (rows.empty()) return summary;
    std::vector<double> errors, simulated, measured;
    for (const ComparedRow* row : rows) {
        errors.push_back(std::abs(row->error()));
        summary.mean += std::abs(row->error()) / double(rows.size());
        summary.signed_mean += row->error() / double(rows.size());
        simulated.push_back(*row->simulated), measured.push_back(row->measured.cycles);
    }
    std::sort(errors.begin(), errors.end());
    summary.median = quantile(errors, 0.5), summary.p90 = quantile(errors, 0.9);
    summary.rank = rows.size() < 2 ? std::numeric_limits<double>::quiet_NaN()
                                   : correlation(ranks_of(simulated), ranks_of(measured));
    return summary;
}

std::vector<Summary> summaries_of(const std::vector<ComparedRow>& rows) {
    std::map<LayerClass, std::vector<const ComparedRow*>> by_class;
    std::vector<const ComparedRow*> all, brief;
    for (const ComparedRow& row : rows) {
        if (!row.counted()) continue;
        if (row.measured.in_total) all.push_back(&row);
        const bool layer = row.measured.kernels.empty() && !row.measured.mapped;
        (layer && row.measured.cycles < short_layer_cycles ? brief : by_class[row.measured.layer_class])
            .push_back(&row);
    }
    std::vector<Summary> summaries;
    for (const auto& [layer_class, members] : by_class)
        summaries.push_back(summary_of(std::string(name_of(layer_class)), members));
    if (!brief.empty()) summaries.push_back(summary_of("under 50,000 cycles", brief));
    summaries.push_back(summary_of("all", all));
    return summaries;
}

PairOrder pair_order_of(const std::vector<ComparedRow>& rows) {
    constexpr double apart = 1.1;
    std::map<std::string, std::vector<const ComparedRow*>> groups;
    for (const ComparedRow& row : rows)
        if (row.counted() && !row.measured.group.empty()) groups[row.measured.group].push_back(&row);
    PairOrder order;
    for (const auto& [name, members] : groups) {
        for (size_t i = 0; i < members.size(); ++i) {
            for (size_t j = 0; j < i; ++j) {
                const double a = members[i]->measured.cycles, b = members[j]->measured.cycles;
                if (std::max(a, b) <= apart * std::min(a, b)) continue;
                ++order.pairs;
                order.right += (*members[i]->simulated < *members[j]->simulated) == (a < b);
            }
        }
    }
    return order;
}

std::vector<ComparedRow> validate(std::vector<MeasuredRow> rows, const platforms::Platform& platform,
                                  const ValidateOptions& options) {
    std::vector<ComparedRow> result;
    std::map<std::string, ComparedRow> known;
    const auto& setting = platform.calibration_row();
    RowRunner runner(platform, options.interrupt);
    for (MeasuredRow& measured : rows) {
        if (options.interrupt && *options.interrupt) break;
        if (options.progress) options.progress(result.size(), rows.size());
        if (std::find(setting.begin(), setting.end(), measured.name()) != setting.end())
            measured.not_counted = "sets a parameter";
        if (measured.in_microseconds) to_cycles(measured, platform);
        const std::string content = measured.content();
        ComparedRow row;
        if (const auto found = known.find(content); found != known.end()) row = found->second;
        row.measured = std::move(measured);
        if (row.measured.simulates() && !row.simulated && !row.dram_megabytes) {
            try {
                compare(row, runner, platform, options);
            } catch (const UserError& error) {
                if (row.measured.mapped) {  // one of many: the others are simulated
                    const std::string why = error.what();
                    row.measured.not_counted = why.substr(0, why.find(". Fix: "));
                    result.push_back(std::move(row));
                    continue;
                }
                throw UserError(fmt::format("row of line {}, {}: {}", row.measured.line, row.measured.name(),
                                            error.what()));
            }
            known[content] = row;
        }
        result.push_back(std::move(row));
    }
    return result;
}

}  // namespace kpu::validation
