#include "traces/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "base/text.hpp"
#include "base/text_lines.hpp"
#include "traces/corners.hpp"

namespace kpu::traces {

namespace {

std::string energy_text(double uj) {
    if (uj < 1e-3) return fmt::format("{:.1f} pJ", uj * 1e6);
    if (uj < 1) return fmt::format("{:.2f} nJ", uj * 1e3);
    if (uj < 1e3) return fmt::format("{:.2f} uJ", uj);
    return fmt::format("{:.3f} mJ", uj / 1e3);
}

class Report : private TextLines {
  public:
    Report(const StatSet& stats, const RunInfo& info, const std::vector<OpRow>& ops,
           const ReportOptions& options)
        : stats_(stats),
          info_(info),
          ops_(ops),
          options_(options),
          width_(std::max<size_t>(options.width, 60)) {}

    std::string text() {
        summary();
        units();
        traffic();
        energy();
        area();
        operations();
        return lines();
    }

  private:
    double real(std::string_view key) const { return stats_.contains(key) ? stats_.real(key) : 0; }
    uint64_t integer(std::string_view key) const { return stats_.contains(key) ? stats_.integer(key) : 0; }

    void summary() {
        const double total = real("cycles.total");
        line("{} on {}{}", info_.program, info_.platform,
             info_.complete ? "" : "  (INCOMPLETE: the run did not finish)");
        line("  time         {} cycles at {:g} MHz = {}", grouped(integer("cycles.total")),
             static_cast<double>(info_.core_hz) / 1e6, time_text(static_cast<double>(info_.end_ps) / 1e6));
        if (stats_.contains("throughput.inferences")) {
            line("  throughput   {} inferences: {} each, {:.1f} in a second",
                 grouped(integer("throughput.inferences")), time_text(real("throughput.us_per_inference")),
                 real("throughput.inferences_per_s"));
        }
        if (stats_.contains("throughput.step_us")) {
            line("  one by one   the first after {}, then one each {}: {:.1f} in a second",
                 time_text(real("throughput.first_us")), time_text(real("throughput.step_us")),
                 real("throughput.steady_inferences_per_s"));
        }
        if (stats_.contains("cycles.compute")) {
            line("  of it        compute {}, memory stall {}, other {}",
                 percent(real("cycles.compute"), total), percent(real("cycles.memory_stall"), total),
                 percent(real("cycles.other"), total));
        }
        if (stats_.contains("utilization.compute")) {
            line("  utilization  compute {}, DRAM bandwidth {}", percent(real("utilization.compute"), 1),
                 percent(real("utilization.dram_bandwidth"), 1));
        }
        if (stats_.contains("utilization.array.total")) {
            line("  arrays       {} of the elements (spatial) x {} of the cycles (temporal) = {}",
                 percent(real("utilization.array.spatial"), 1),
                 percent(real("utilization.array.temporal"), 1), percent(real("utilization.array.total"), 1));
        }
        if (integer("hazards.count") > 0)
            line("  hazards      {}: the values may be wrong", grouped(integer("hazards.count")));
        if (const uint64_t count = integer("values.out_of_range") + integer("values.inputs_out_of_range");
            count > 0)
            line("  range        {} numbers left that of their type", grouped(count));
        Cycles unattributed = 0;
        for (const UnitInfo& unit : info_.units) {
            unattributed += integer(fmt::format("units.{}.{}", unit.name, full_name_of(Cause::unattributed)));
        }
        if (unattributed > 0)
            line("  unattributed {} unit-cycles: please report this", grouped(unattributed));
    }

    Cycles cycles_of(const UnitInfo& unit, const Band& band) const {
        Cycles sum = 0;
        for (const Cause cause : band.causes)
            sum += integer(fmt::format("units.{}.{}", unit.name, full_name_of(cause)));
        return sum;
    }

    /// Returns the cause that a unit lost most time to, for the end of its line.
    std::string worst(const UnitInfo& unit, double total) const {
        Cycles most = 0;
        Cause cause = Cause::busy_useful;
        for (int i = 0; i < cause_count; ++i) {
            const auto candidate = static_cast<Cause>(i);
            if (group_of(candidate) != "stalled") continue;
            const Cycles cycles = integer(fmt::format("units.{}.{}", unit.name, full_name_of(candidate)));
            if (cycles > most) {
                most = cycles;
                cause = candidate;
            }
        }
        return most == 0 ? ""
                         : fmt::format("{} {}", name_of(cause), percent(static_cast<double>(most), total));
    }

    void units() {
        const double total = real("cycles.total");
        if (total == 0 || info_.units.empty()) return;
        size_t name_width = 4;
        for (const UnitInfo& unit : info_.units) name_width = std::max(name_width, unit.name.size());
        constexpr size_t around = 48;  // busy share and the largest stall
        const size_t bar = width_ > name_width + around + 10 ? width_ - name_width - around : 10;
        line("\n{:<{}}  {:<{}}  {:>7}  {}", "unit", name_width + 2, "share of time", bar, "useful",
             "largest stall");
        for (const UnitInfo& unit : info_.units) {
            const double useful = static_cast<double>(cycles_of(unit, bands()[0]));
            line("  {:<{}}  {}  {}  {}", unit.name, name_width, draw(unit, bar, total),
                 percent(useful, total), worst(unit, total));
        }
        std::string legend;
        for (const Band& band : bands()) legend += fmt::format("  {} {}", band.glyph, band.label);
        line("  {:<{}}{}", "", name_width, legend);
    }

    std::string draw(const UnitInfo& unit, size_t bar, double total) const {
        std::string text;
        double sum = 0;
        size_t drawn = 0;
        for (const Band& band : bands()) {
            sum += static_cast<double>(cycles_of(unit, band));
            const size_t until =
                std::min(bar, static_cast<size_t>(std::llround(sum / total * static_cast<double>(bar))));
            for (; drawn < until; ++drawn) text += band.glyph;
        }
        return text + std::string(bar - drawn, ' ');
    }

    void traffic() {
        if (!stats_.contains("bytes.dram.read")) return;
        line("\n{:<10}{:>14}{:>14}{:>14}", "memory", "read", "written", "peak use");
        for (const char* level : {"dram", "l2", "l1"}) {
            const std::string peak = fmt::format("memory.{}.peak_bytes", level);
            line("  {:<8}{:>14}{:>14}{:>14}", level, bytes_text(integer(fmt::format("bytes.{}.read", level))),
                 bytes_text(integer(fmt::format("bytes.{}.write", level))),
                 stats_.contains(peak) ? bytes_text(integer(peak)) : "");
        }
    }

    void energy() {
        if (stats_.contains("energy.not_modelled"))
            line("\nenergy       not modelled: {}", info_.prices.not_modelled);
        if (!stats_.contains("energy.total_uj")) return;
        const double total = real("energy.total_uj");
        line("\nenergy       {} ({} dynamic, {} static)   power {:.3g} W average, {:.3g} W peak over {:g} us",
             energy_text(total), energy_text(real("energy.dynamic_uj")),
             energy_text(real("energy.static_uj")), real("power.average_w"), real("power.peak_w"),
             real("power.bin_us"));
        for (int c = 0; c < component_count; ++c) {
            const std::string_view name = name_of(static_cast<Component>(c));
            const double uj = real(fmt::format("energy.by_component.{}_uj", name));
            if (uj == 0) continue;
            const double fixed = real(fmt::format("energy.static.{}_uj", name));
            line("  {:<8}{:>14}  {}  ({} static)", name, energy_text(uj), percent(uj, total),
                 energy_text(fixed));
        }
        line("  table {}, {} corner, {} nm, {:g} V, {:g} C: absolute values hold to about a factor of 2",
             info_.prices.table, info_.prices.corner, info_.prices.node_nm, info_.prices.vdd,
             info_.prices.temp_c);
        if (const auto band = energy_band(stats_, info_.prices)) {
            line("  its low to high corner: {} to {}, {:.3g} W to {:.3g} W average",
                 energy_text(band->low_uj), energy_text(band->high_uj), band->low_w, band->high_w);
        }
    }

    void area() {
        if (stats_.contains("area.total_mm2")) {
            const double total = real("area.total_mm2");
            line("\narea         {:.3g} mm2, {:.3g} to {:.3g}", total, real("area.low_mm2"),
                 real("area.high_mm2"));
            for (int c = 0; c < component_count; ++c) {
                const std::string_view name = name_of(static_cast<Component>(c));
                const double mm2 = real(fmt::format("area.by_component.{}_mm2", name));
                if (mm2 == 0) continue;
                line("  {:<8}{:>10.3g} mm2  {}  ({:.3g} to {:.3g})", name, mm2, percent(mm2, total),
                     real(fmt::format("area.low.{}_mm2", name)), real(fmt::format("area.high.{}_mm2", name)));
            }
            line("  {}", stats_.all().at("area.total_mm2").meaning);
        }
        if (stats_.contains("area.not_modelled"))
            line("{}not modelled: {}", stats_.contains("area.total_mm2") ? "  " : "\narea         ",
                 stats_.all().at("area.not_modelled").meaning);
    }

    /// Returns "  array       576": cycles that the resource takes at least, also where they overlap with
    /// other operations.
    static std::string bound_text(const OpRow& row) {
        if (row.bound.empty()) return {};
        return fmt::format("  {:<6}{:>12}", row.bound, grouped(row.bound_cycles));
    }

    void operations() {
        std::vector<const OpRow*> rows;
        for (const OpRow& row : ops_) {
            if (row.fused_into.empty() && row.timed) rows.push_back(&row);
        }
        const size_t own = rows.size();
        const bool bounds =
            std::any_of(rows.begin(), rows.end(), [](const OpRow* row) { return !row->bound.empty(); });
        std::stable_sort(rows.begin(), rows.end(), [](const OpRow* a, const OpRow* b) {
            return a->charged_cycles > b->charged_cycles;
        });
        if (rows.size() > options_.top_ops) rows.resize(options_.top_ops);
        if (rows.empty()) return;
        const double total = real("cycles.total");
        line("\n{:<26}{:<14}{:>14}{:>9}{:>10}{:>12}{}", "operation", "type", "cycles", "share", "util.",
             "energy", bounds ? "  bound      at least" : "");
        for (const OpRow* row : rows) {
            line("  {:<24.24}{:<14.14}{:>14}{:>9}{:>10}{:>12}{}", row->id, row->type,
                 grouped(row->charged_cycles), percent(static_cast<double>(row->charged_cycles), total),
                 percent(row->utilization, 1), row->energy_modelled ? energy_text(row->energy_pj / 1e6) : "-",
                 bound_text(*row));
        }
        if (own > rows.size()) line("  ... and {} more in ops.csv", own - rows.size());
    }

    const StatSet& stats_;
    const RunInfo& info_;
    const std::vector<OpRow>& ops_;
    const ReportOptions& options_;
    size_t width_;
};

}  // namespace

const std::vector<Band>& bands() {
    static const std::vector<Band> table{
        {"█", "32", "useful", {Cause::busy_useful, Cause::device_busy_compute}},
        {"▓",
         "36",
         "fill, padding, overhead",
         {Cause::busy_fill_drain, Cause::busy_padding, Cause::busy_overhead}},
        {"▒",
         "31",
         "waits for memory",
         {Cause::stalled_operand_dram_bandwidth, Cause::stalled_operand_dram_latency,
          Cause::stalled_operand_dram_bank_conflict, Cause::stalled_operand_dram_turnaround,
          Cause::stalled_operand_dram_imbalance, Cause::stalled_refresh, Cause::stalled_operand_interconnect,
          Cause::stalled_operand_bank_conflict, Cause::stalled_operand_sram_access, Cause::stalled_dma_issue,
          Cause::device_stalled_memory}},
        {"░",
         "33",
         "other waits",
         {Cause::stalled_structural, Cause::stalled_backpressure, Cause::stalled_configuration,
          Cause::stalled_dependency, Cause::stalled_issue_window, Cause::unattributed}},
        {"·", "90", "idle", {Cause::idle_no_work, Cause::idle_finished, Cause::device_idle_other}}};
    return table;
}

std::string coloured(std::string_view report) {
    std::string text;
    const Band* open = nullptr;
    for (size_t at = 0; at < report.size();) {
        const auto band = std::find_if(bands().begin(), bands().end(), [&](const Band& each) {
            return starts_with(report.substr(at), each.glyph);
        });
        const Band* const next = band == bands().end() ? nullptr : &*band;
        if (open != next && open != nullptr) text += "\x1b[0m";
        if (open != next && next != nullptr) text += fmt::format("\x1b[{}m", next->colour);
        open = next;
        const size_t size = next == nullptr ? 1 : std::string_view(next->glyph).size();
        text += report.substr(at, size);
        at += size;
    }
    return text;
}

std::string grouped(uint64_t value) {
    std::string text = fmt::format("{}", value);
    for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
    return text;
}

std::string percent(double part, double whole) {
    return whole > 0 ? fmt::format("{:5.1f} %", 100 * part / whole) : "    - ";
}

std::string time_text(double us) {
    if (us < 1) return fmt::format("{:.1f} ns", us * 1e3);
    if (us < 1e3) return fmt::format("{:.2f} us", us);
    if (us < 1e6) return fmt::format("{:.3f} ms", us / 1e3);
    return fmt::format("{:.3f} s", us / 1e6);
}

std::string bytes_text(uint64_t bytes) {
    constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1024) return fmt::format("{} B", bytes);
    double value = static_cast<double>(bytes);
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
    return fmt::format("{:.2f} {}", value, units[unit]);
}

std::string report(const StatSet& stats, const RunInfo& info, const std::vector<OpRow>& ops,
                   const ReportOptions& options) {
    return Report(stats, info, ops, options).text();
}

}  // namespace kpu::traces
