// Writes or checks the tables of docs/accuracy.md: the systolic array against SCALE-Sim's figures and against
// RTL, the energy of ResNet-50 against an estimate.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/read_file.hpp"
#include "tests/accuracy/energy_table.hpp"
#include "tests/reference/systolic_rows.hpp"
#include "tests/rtl/checks.hpp"

namespace {

using kpu::proto::SystolicArray;
using kpu::reference::array_of;
using kpu::reference::number;
using kpu::reference::shape_of;

/// Generated text stands between `<!-- NAME tables: begin (generated) -->` and `<!-- NAME tables: end -->`.
void replace_tables(std::string& page, const std::string& name, const std::string& text) {
    const std::string begin = fmt::format("<!-- {} tables: begin (generated) -->\n", name);
    const size_t from = page.find(begin), to = page.find(fmt::format("<!-- {} tables: end -->\n", name));
    if (from == std::string::npos || to == std::string::npos || to < from)
        throw std::runtime_error(fmt::format("the page lacks the marks of the {} tables", name));
    page.replace(from + begin.size(), to - from - begin.size(), "\n" + text + "\n");
}

std::string scale_sim_table() {
    std::string text =
        "| layers | dataflow | rows | cycles equal | operand reads equal | writes equal | largest difference "
        "of mapping "
        "efficiency |\n|---|---|---|---|---|---|---|\n";
    std::string ratios = "| layers | dataflow | smallest | median | largest |\n|---|---|---|---|---|\n";
    for (const char* kind : {"gemm", "conv"}) {
        const auto rows = kpu::reference::systolic_rows(fmt::format("{}_nostall.csv", kind));
        for (const char* dataflow : {"os", "ws", "is"}) {
            size_t count = 0, cycles = 0, reads = 0, writes = 0;
            double worst = 0;
            std::vector<double> ratio;
            for (const auto& row : rows) {
                if (row.at("dataflow") != dataflow) continue;
                const auto shape = shape_of(row);
                const auto time = systolic_time(array_of(row, SystolicArray::compat), shape);
                ++count;
                cycles += time.total() == number(row, "total_cycles");
                reads += time.a_reads == number(row, "sram_ifmap_reads") &&
                         time.b_reads == number(row, "sram_filter_reads");
                writes += time.writes == number(row, "sram_ofmap_writes");
                worst = std::max(
                    worst, std::abs(time.mapping_efficiency * 100 - std::stod(row.at("mapping_eff_pct"))));
                const auto physical = systolic_time(array_of(row, SystolicArray::physical), shape);
                ratio.push_back(double(physical.total()) / double(time.total()));
            }
            std::sort(ratio.begin(), ratio.end());
            text +=
                fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", kind, dataflow, count, cycles, reads,
                            writes, worst < 1e-9 ? "below 1e-9 %" : fmt::format("{:.3g} %", worst));
            ratios += fmt::format("| {} | {} | {:.3f} | {:.3f} | {:.3f} |\n", kind, dataflow, ratio.front(),
                                  ratio[ratio.size() / 2], ratio.back());
        }
    }
    return text +
           "\nThe tool adds folds x (rows + columns) to the writes of `os`; ours are M x N, so those rows "
           "differ.\n\n"
           "`physical` cycles / `compat` cycles on the same rows: what it is worth that folds overlap.\n\n" +
           ratios;
}

std::string rtl_row(const char* what, const kpu::rtl::Cases& cases) {
    size_t equal = 0, values = 0, starved = 0;
    uint64_t most = 0;
    double most_percent = 0;
    for (const auto& c : cases) {
        const uint64_t off = c.ours > c.rtl ? c.ours - c.rtl : c.rtl - c.ours;
        equal += off == 0;
        values += c.values_right;
        starved += c.starved > c.rtl / 10;
        most = std::max(most, off);
        most_percent = std::max(most_percent, 100 * double(off) / double(c.rtl));
    }
    return fmt::format("| {} | {} | {} | {} | {} | {} | {:.2f} % |\n", what, cases.size(), values, starved,
                       equal, most, most_percent);
}

std::string rtl_table() {
    return "| case | runs | values right | starved | cycles equal | largest difference, cycles | relative |\n"
           "|---|---|---|---|---|---|---|\n" +
           rtl_row("one product, against the formula", kpu::rtl::isolated_products()) +
           rtl_row("... input-stationary", kpu::rtl::isolated_input_stationary()) +
           rtl_row("two products back to back, against the formula", kpu::rtl::back_to_back_pairs()) +
           rtl_row("one product, against a simulation with the same data", kpu::rtl::simulated_products()) +
           rtl_row("two products back to back, against a simulation", kpu::rtl::simulated_pairs()) +
           rtl_row("narrow operand SRAM, whole tiles, against a simulation", kpu::rtl::starved_by_sram()) +
           rtl_row("... products with edge tiles", kpu::rtl::starved_edge_tiles()) +
           rtl_row("six tiles loaded by DMA, against a simulation", kpu::rtl::loaded_by_dma());
}

int check_or_update(bool update, const char* path) {
    const std::string page = kpu::read_file(path);
    std::string fresh = page;
    replace_tables(fresh, "array",
                   "### Against SCALE-Sim\n\n" + scale_sim_table() + "\n### Against RTL\n\n" + rtl_table());
    replace_tables(fresh, "energy", kpu::accuracy::energy_table());
    if (fresh == page) return 0;
    if (!update) {
        std::fprintf(stderr, "%s is stale. Fix: accuracy_page --update %s. It should be:\n%s", path, path,
                     fresh.c_str());
        return 1;
    }
    std::ofstream(path) << fresh;
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string verb = argc == 3 ? argv[1] : "";
    if (verb != "--check" && verb != "--update") {
        std::fputs("usage: accuracy_page --check|--update docs/accuracy.md\n", stderr);
        return 1;
    }
    try {
        return check_or_update(verb == "--update", argv[2]);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
