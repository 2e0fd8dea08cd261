// Rows of machines of which a part alone compares: a grid of cores, a chip of another dataflow, whole systems.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "runtime/validation/forms.hpp"
#include "runtime/validation/networks.hpp"

namespace kpu::validation {
namespace {

/// Stand-in for a number format and its passes: the platform has a rate for each.
struct Format {
    std::string_view name, fidelity;
    ElemType elem;
};
constexpr Format formats[] = {{"BFLOAT16", "HiFi2", ElemType::bf16},
                              {"BFLOAT16", "HiFi4", ElemType::f16},
                              {"BFLOAT8_B", "HiFi2", ElemType::f8e4m3},
                              {"BFLOAT8_B", "LoFi", ElemType::f8e5m2},
                              {"BFLOAT4_B", "LoFi", ElemType::f8e5m2}};

void read_grid(Table& table, std::vector<MeasuredRow>& rows) {
    constexpr int64_t most = 1 << 15;
    Kernel kernel;
    kernel.kind = Kernel::Kind::product;
    kernel.m = table.needed("m", 1, most), kernel.k = table.needed("k", 1, most),
    kernel.n = table.needed("n", 1, most);
    MeasuredRow row;
    const std::string type = table.cell("dtype"), fidelity = table.cell("fidelity");
    row.network = table.cell("table"), row.kind = "gemm";
    row.index = fmt::format("{}x{}x{} {} {}", kernel.m, kernel.k, kernel.n, type, fidelity);
    row.in_microseconds = true;
    row.cycles = table.measured("ns", "nanoseconds") / 1000;
    row.least = row.most = row.cycles;
    row.layer_class = LayerClass::core_grid;
    const auto* format = std::find_if(std::begin(formats), std::end(formats), [&](const Format& known) {
        return known.name == type && known.fidelity == fidelity;
    });
    if (format == std::end(formats))
        return table.fail(
            fmt::format("columns `dtype` and `fidelity` have `{}` and `{}`", type, fidelity),
            "give BFLOAT16 with HiFi2 or HiFi4, BFLOAT8_B with HiFi2 or LoFi, or BFLOAT4_B with LoFi");
    kernel.elem = format->elem;
    kernel.left_is_here = table.cell("in0_mem") == "L1", kernel.result_stays = table.cell("out_mem") == "L1";
    constexpr int64_t most_macs = int64_t{1} << 36;  // more take minutes to simulate
    if (kernel.m * kernel.k > most_macs / kernel.n) {
        row.not_counted = "over 2^36 multiply-adds";
    } else if (table.cell("trace") == "True") {
        row.unknown = "blocks of a core and the order of multicasts";
        row.kernels = {kernel};
    } else {
        row.not_counted = "timed by the host";
    }
    rows.push_back(std::move(row));
}

/// Times of a row-stationary chip compare with nothing here: power is printed, and DRAM traffic beside that of the layer in this
/// compiler's choice.
void read_power(Table& table, std::vector<MeasuredRow>& rows) {
    MeasuredRow row;
    row.network = table.cell("net"), row.kind = table.cell("layer");
    row.in_microseconds = true;
    row.cycles = row.least = row.most = table.measured("total_ms", "milliseconds") * 1000;
    row.layer_class = LayerClass::other_machine;
    row.not_counted = "row-stationary, which is not modelled";
    if (const auto layer = chip_layer_of(row.network, row.kind))
        row.work = layer->work, row.traffic_times = layer->times;
    for (const auto& [column, unit] : {std::pair("power_mw", "mW"), std::pair("dram_mb", "MB of DRAM")})
        if (const auto value = table.real(column, unit)) row.others.emplace_back(unit, *value);
    rows.push_back(std::move(row));
}

/// Reads whole systems: their hardware is not published layer by layer.
void read_task(Table& table, std::vector<MeasuredRow>& rows) {
    MeasuredRow row;
    row.network = table.cell("system"), row.kind = table.cell("task"), row.index = table.cell("mode");
    row.in_microseconds = true;
    row.cycles = row.least = row.most = table.measured("ms", "milliseconds") * 1000;
    row.layer_class = LayerClass::other_machine;
    row.not_counted = "hardware not published";
    if (const auto energy = table.real("uj_per_inf", "microjoules")) row.others.emplace_back("uJ", *energy);
    rows.push_back(std::move(row));
}

}  // namespace

Form core_grid_form() {
    return {{{"table"},
             {"m"},
             {"k"},
             {"n"},
             {"trace"},
             {"grid", false},
             {"in0_sharded", false},
             {"out_sharded", false},
             {"in0_mem", false},
             {"in1_mem", false},
             {"out_mem", false},
             {"dtype"},
             {"fidelity"},
             {"ns"},
             {"tflops", false},
             {"util_full_grid_pct", false}},
            read_grid};
}

Form power_form() {
    return {{{"net"},
             {"layer"},
             {"power_mw"},
             {"total_ms"},
             {"processing_ms", false},
             {"gmac", false},
             {"active_pes", false},
             {"zeros_in_ifmaps", false},
             {"gbuf_mb", false},
             {"dram_mb"}},
            read_power};
}

Form task_form() {
    return {{{"round", false},
             {"commit", false},
             {"division", false},
             {"submitter", false},
             {"system"},
             {"task"},
             {"mode"},
             {"inf_per_s", false},
             {"ms"},
             {"uj_per_inf", false}},
            read_task};
}

}  // namespace kpu::validation
