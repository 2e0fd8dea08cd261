#include "traces/kernel_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "traces/csv_table.hpp"

namespace kpu::traces {

namespace {

constexpr size_t most_statements = 12;  // in a report

std::string field(const std::string& text) {
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + "\"";
}

uint64_t cycles_of(const KernelRow& row) { return row.busy_cycles + row.stalled_cycles; }

double percent(uint64_t part, uint64_t whole) {
    return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void write_kernel_rows(const std::vector<KernelRow>& rows, Output& output) {
    output.print("task,kernel,region,line,statement,executions,lanes,busy_cycles,stalled_cycles\n");
    for (const KernelRow& row : rows)
        output.print("{},{},{},{},{},{},{},{},{}\n", field(row.task), field(row.kernel), field(row.region),
                     row.line, field(row.statement), row.executions, row.lanes, row.busy_cycles,
                     row.stalled_cycles);
}

std::vector<KernelRow> parse_kernel_rows(std::string_view text, const std::string& origin) {
    const CsvTable table(text, origin);
    const size_t task = table.column("task"), kernel = table.column("kernel"),
                 region = table.column("region"), line = table.column("line"),
                 statement = table.column("statement"), executions = table.column("executions"),
                 lanes = table.column("lanes"), busy = table.column("busy_cycles"),
                 stalled = table.column("stalled_cycles");
    std::vector<KernelRow> rows(table.rows());
    for (size_t i = 0; i < rows.size(); ++i) {
        KernelRow& row = rows[i];
        row.task = table.at(i, task);
        row.kernel = table.at(i, kernel);
        row.region = table.at(i, region);
        row.line = static_cast<uint32_t>(table.integer(i, line));
        row.statement = table.at(i, statement);
        row.executions = table.integer(i, executions);
        row.lanes = table.integer(i, lanes);
        row.busy_cycles = table.integer(i, busy);
        row.stalled_cycles = table.integer(i, stalled);
    }
    return rows;
}

std::string kernel_text(const std::vector<KernelRow>& all, std::string_view task) {
    std::vector<KernelRow> rows;
    uint64_t sum = 0;
    std::map<std::string, uint64_t> regions;
    for (const KernelRow& row : all) {
        if (!task.empty() && row.task != task) continue;
        sum += cycles_of(row);
        regions[fmt::format("{}, {}", row.kernel, row.region.empty() ? "outside of regions" : row.region)] +=
            cycles_of(row);
        rows.push_back(row);
    }
    if (rows.empty()) return {};
    std::stable_sort(rows.begin(), rows.end(),
                     [](const KernelRow& a, const KernelRow& b) { return cycles_of(a) > cycles_of(b); });
    std::string text = "\nKernels: cycles of units by statement\n";
    text += fmt::format("  {:>12} {:>8} {:>12} {:>10} {:>6}  statement\n", "cycles", "share", "stalled",
                        "executed", "lanes");
    const size_t shown = std::min(rows.size(), most_statements);
    for (size_t i = 0; i < shown; ++i) {
        const KernelRow& row = rows[i];
        const double lanes = row.executions == 0 ? 0 : double(row.lanes) / double(row.executions);
        const std::string region = row.region.empty() ? "" : ", region " + row.region;
        text += fmt::format("  {:>12} {:>6.1f} % {:>12} {:>10} {:>6.1f}  {}{}, line {}: {}\n", cycles_of(row),
                            percent(cycles_of(row), sum), row.stalled_cycles, row.executions, lanes,
                            row.kernel, region, row.line, row.statement);
    }
    if (shown < rows.size())
        text += fmt::format("  ... and {} more in {}\n", rows.size() - shown, kernels_file_name);
    text += fmt::format("  {:>12}  = their sum\n\n  by region\n", sum);
    for (const auto& [name, cycles] : regions)
        text += fmt::format("  {:>12} {:>6.1f} %  {}\n", cycles, percent(cycles, sum), name);
    return text;
}

}  // namespace kpu::traces
