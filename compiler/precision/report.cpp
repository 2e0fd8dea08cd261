#include "compiler/precision/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text_output.hpp"
#include "compiler/precision/keep.hpp"

namespace kpu::precision {
namespace {

constexpr size_t rows_of_page = 40;

std::string db_text(double noise) {
    return noise > 0 && std::isfinite(noise) ? fmt::format("{:.1f}", decibel(noise))
           : noise > 0                       ? "none"
                                             : "exact";
}

struct Row {
    const Layer* layer = nullptr;
    std::string precision, wide;
    double noise = 0, wide_noise = 0, noise_share = 0, cycles = 0, cycles_share = 0, energy_share = 0;
};

std::string type_of(const Layer& layer, ElemType precision, bool wide) {
    if (layer.kept) return "as kept";
    return std::string(precision_name(wide ? layer.wide : precision));
}

std::vector<Row> rows_of(const Mix& mix, ElemType precision, const std::vector<Cost>& costs) {
    double cycles = 0, energy = 0;
    for (const Cost& cost : costs) {
        cycles += cost.cycles;
        energy += cost.energy_pj;
    }
    const double noise = std::accumulate(mix.noise.begin(), mix.noise.end(), 0.0);
    std::vector<Row> rows;
    for (size_t i = 0; i < mix.layers.size(); ++i) {
        const Layer& layer = mix.layers[i];
        const bool has_wide = layer.wide != ElemType::none;
        rows.push_back({&layer, type_of(layer, precision, mix.wide[i]),
                        has_wide ? std::string(precision_name(layer.wide)) : "", mix.noise[i],
                        mix.wide_noise[i], noise > 0 ? mix.noise[i] / noise : 0, costs[i].cycles,
                        cycles > 0 ? costs[i].cycles / cycles : 0,
                        energy > 0 ? costs[i].energy_pj / energy : 0});
    }
    return rows;
}

std::string csv_of(const std::vector<Row>& rows, ElemType precision) {
    std::string text = fmt::format(
        "layer,type,macs,precision,snr_{}_db,wider,snr_wider_db,noise_share,cycles,cycles_share,"
        "energy_share\n",
        precision_name(precision));
    for (const Row& row : rows)
        text += fmt::format("{},{},{},{},{},{},{},{:.6f},{:.0f},{:.6f},{:.6f}\n", csv_field(row.layer->name),
                            csv_field(row.layer->type), row.layer->macs, row.precision, db_text(row.noise),
                            row.wide, row.wide.empty() ? "" : db_text(row.wide_noise), row.noise_share,
                            row.cycles, row.cycles_share, row.energy_share);
    return text;
}

std::string head_of(const Mix& mix, ElemType precision) {
    const auto wide = std::count(mix.wide.begin(), mix.wide.end(), true);
    double macs = 0, wide_macs = 0;
    for (size_t i = 0; i < mix.layers.size(); ++i) {
        macs += double(mix.layers[i].macs);
        if (mix.wide[i]) wide_macs += double(mix.layers[i].macs);
    }
    std::string text = fmt::format("signal to noise of the outputs: {} dB all in {}",
                                   db_text(mix.narrow_noise), precision_name(precision));
    if (wide > 0)
        text += fmt::format(
            ", {} dB with {} of {} layers wider, which have {:.1f} % of the multiply-accumulates",
            db_text(mix.mixed_noise), wide, mix.layers.size(), macs > 0 ? 100 * wide_macs / macs : 0);
    return text + "\n\n";
}

}  // namespace

std::string report(const Mix& mix, ElemType precision, const std::vector<Cost>& costs, bool csv) {
    std::vector<Row> rows = rows_of(mix, precision, costs);
    if (csv) return csv_of(rows, precision);
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.noise > b.noise; });
    std::string text = head_of(mix, precision);
    text += fmt::format("{:<28} {:<12} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7} {:>7}\n", "layer", "type",
                        "compiled", fmt::format("{} dB", precision_name(precision)), "wider", "wider dB",
                        "noise", "cycles", "energy");
    const size_t shown = std::min(rows.size(), rows_of_page);
    for (size_t i = 0; i < shown; ++i) {
        const Row& row = rows[i];
        text += fmt::format("{:<28} {:<12} {:>9} {:>9} {:>9} {:>9} {:>6.1f}% {:>6.1f}% {:>6.1f}%\n",
                            row.layer->name, row.layer->type, row.precision, db_text(row.noise), row.wide,
                            row.wide.empty() ? "" : db_text(row.wide_noise), 100 * row.noise_share,
                            100 * row.cycles_share, 100 * row.energy_share);
    }
    if (shown < rows.size()) text += fmt::format("and {} that add less\n", rows.size() - shown);
    return text +
           "\ndB: signal to noise of the outputs if this layer alone had the type. cycles and "
           "dynamic energy: predicted.\n";
}

}  // namespace kpu::precision
