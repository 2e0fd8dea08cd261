#include <fmt/format.h>

#include <algorithm>

#include "traces/corners.hpp"
#include "traces/formats.hpp"
#include "traces/power_trace.hpp"
#include "traces/writers.hpp"

namespace kpu::traces {

namespace {

/// Picoseconds as nanoseconds, exactly.
std::string ns_text(Picoseconds ps) {
    return ps % 1000 == 0 ? fmt::format("{}", ps / 1000) : fmt::format("{}.{:03}", ps / 1000, ps % 1000);
}

/// Writes bins: means in watts, or energies in picojoules with every digit.
class PowerCsv {
  public:
    PowerCsv(const RunInfo& info, const Events& events, const PowerCsvOptions& options, Output& output)
        : info_(info),
          output_(output),
          energy_(options.energy),
          suffix_(energy_ ? "pj" : "w"),
          trace_(power_trace(info, events, info.bin_ps(),
                             {options.by == "engine" || options.by == "unit", options.by == "op"})) {}

    void components() {
        output_.print("time_ns,dt_ns,");
        for (size_t c = 0; c < static_cast<size_t>(Component::dram); ++c)
            output_.print("{}_{},", name_of(static_cast<Component>(c)), suffix_);
        output_.print("dram_dyn_{0},dram_bg_{0},phy_{0},static_{0},total_{0},op\n", suffix_);
        const EnergyColumn& dram = of(Component::dram);
        for_each_bin([&](size_t bin) {
            begin_row(bin);
            Yoctojoules statics = 0;
            for (size_t c = 0; c < static_cast<size_t>(Component::dram); ++c) {
                value(bin, trace_.components[c].dynamic[bin]);
                statics += trace_.components[c].statics[bin];
            }
            value(bin, dram.dynamic[bin]);
            value(bin, dram.statics[bin]);
            value(bin, of(Component::phy).of(bin));
            value(bin, statics);
            end_row(bin);
        });
    }

    void engines() {
        std::vector<std::pair<std::string, EnergyColumn>> columns;
        for (const int engine : engines_of(info_))
            columns.emplace_back(engine < 0 ? "device" : fmt::format("e{}", engine),
                                 trace_.engine(info_, engine));
        wide(columns);
    }

    /// Adds columns of the units that the view shows; the total is of all.
    void units() {
        std::vector<std::pair<std::string, EnergyColumn>> columns;
        for (size_t u = 0; u < info_.units.size(); ++u) {
            if (info_.units[u].kind != UnitKind::device && info_.view.shows(info_.units[u].name))
                columns.emplace_back(info_.units[u].name, std::move(trace_.units[u]));
        }
        const EnergyColumn rest = trace_.units.back();
        const auto any = [](Yoctojoules energy) { return energy != 0; };
        if (std::any_of(rest.dynamic.begin(), rest.dynamic.end(), any) ||
            std::any_of(rest.statics.begin(), rest.statics.end(), any))
            columns.emplace_back("of_no_unit", rest);
        wide(columns);
    }

    /// A row for each operation that spends energy in a bin, and one for what no operation does.
    void operations() {
        output_.print("time_ns,dt_ns,op,{}\n", energy_ ? "energy_pj" : "power_w");
        const ShownStates states(info_);
        for_each_bin([&](size_t bin) {
            Yoctojoules rest = trace_.total(bin);
            const auto row = [&](std::string_view op, Yoctojoules energy) {
                begin_row(bin);
                output_.print(",{}", csv_field(op));
                value(bin, energy);
                output_.write("\n");
            };
            for (const auto& [op, energy] : trace_.ops[bin]) {
                if (states.shows_op(op)) row(info_.op_name(op), energy);
                rest -= energy;
            }
            if (states.shows_op(background_op)) row(background_name, rest);
        });
    }

    /// The total at the corners of the energy table beside that of the run.
    void corners(const Events& events) {
        std::vector<PowerTrace> at;
        for (const EnergyCorner& corner : info_.prices.corners) {
            RunInfo info = info_;
            info.prices = at_corner(info_.prices, corner);
            at.push_back(power_trace(info, events, info.bin_ps()));
        }
        output_.print("time_ns,dt_ns,");
        for (const EnergyCorner& corner : info_.prices.corners) output_.print("{}_{},", corner.name, suffix_);
        output_.print("total_{},op\n", suffix_);
        for_each_bin([&](size_t bin) {
            begin_row(bin);
            for (const PowerTrace& corner : at) value(bin, corner.total(bin));
            end_row(bin);
        });
    }

  private:
    const EnergyColumn& of(Component component) const {
        return trace_.components[static_cast<size_t>(component)];
    }
    template <typename Visit>
    void for_each_bin(Visit visit) const {
        for (size_t bin = 0; bin < trace_.count; ++bin) {
            if (trace_.start(bin) < info_.to() && trace_.start(bin) + trace_.width > info_.from()) visit(bin);
        }
    }
    void begin_row(size_t bin) const {
        output_.print("{},{}", ns_text(trace_.start(bin)), ns_text(trace_.real_width(bin)));
    }
    void value(size_t bin, Yoctojoules energy) const {
        output_.print(",{}", energy_ ? pj_text(energy) : real_text(trace_.watts(bin, energy)));
    }
    void end_row(size_t bin) const {
        value(bin, trace_.total(bin));
        output_.print(",{}\n", csv_field(info_.op_name(trace_.op[bin])));
    }
    void wide(const std::vector<std::pair<std::string, EnergyColumn>>& columns) {
        output_.print("time_ns,dt_ns,");
        for (const auto& [name, column] : columns)
            output_.print("{0}_dynamic_{1},{0}_static_{1},", name, suffix_);
        output_.print("total_{},op\n", suffix_);
        for_each_bin([&](size_t bin) {
            begin_row(bin);
            for (const auto& [name, column] : columns) {
                value(bin, column.dynamic[bin]);
                value(bin, column.statics[bin]);
            }
            end_row(bin);
        });
    }

    const RunInfo& info_;
    Output& output_;
    bool energy_;
    const char* suffix_;
    PowerTrace trace_;
};

}  // namespace

void write_power_csv(const RunInfo& info, const Events& events, const PowerCsvOptions& options,
                     Output& output) {
    require_energy(info.prices);
    PowerCsv csv(info, events, options, output);
    if (options.by == "engine") return csv.engines();
    if (options.by == "unit") return csv.units();
    if (options.by == "op") return csv.operations();
    if (options.by == "corner") return csv.corners(events);
    csv.components();
}

namespace {

uint64_t power_size(const RunInfo& info, const RecordCounts& /*counts*/) {
    constexpr uint64_t row = 190, most_bins = 1'000'000;
    return std::min((info.to() - info.from()) / info.bin_ps() + 1, most_bins) * row;
}

}  // namespace

extern const Format power_format;
const Format power_format{
    "power",
    "CSV",
    "watts per component over time",
    {{"power-by",
      "columns of --power: each component, engine or unit, dynamic and static apart; op: a row for each "
      "operation and bin; corner: the total at the energy table's low and high corner",
      ValueKind::choice,
      "component",
      {"component", "engine", "unit", "op", "corner"}},
     {"power-in",
      "values of --power: W, means; pJ, energies with every digit, whose sums are exact",
      ValueKind::choice,
      "W",
      {"W", "pJ"}}},
    false,
    power_size,
    [](const RunInfo& info, const Events& events, const OptionValues& options, Output& output) {
        write_power_csv(info, events, {options.text("power-by"), options.text("power-in") == "pJ"}, output);
    },
    true,
    false,
    [](const TraceView& view, const OptionValues& options) -> std::string {
        if (!view.causes.empty()) return "energy has no cause. Fix: leave out --trace-cause.";
        if (!view.ops.empty() && options.text("power-by") != "op")
            return "its columns are of no operation. Fix: add --power-by op, or leave out --trace-op.";
        return "";
    }};

}  // namespace kpu::traces
