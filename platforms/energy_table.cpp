// Reading, checking and scaling of energy tables; the rules stand in energy.md.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <set>

#include "base/text.hpp"
#include "platforms/library.hpp"
#include "platforms/platform.hpp"
#include "platforms/schema.hpp"

namespace kpu::platforms {
namespace {

struct Known {
    std::string_view key;  ///< component.action
    std::string_view per;
};
constexpr Known known_entries[] = {
    {"array.mac.i8", "mac"},
    {"array.mac.i4", "mac"},
    {"array.mac.i16", "mac"},
    {"array.mac.f16", "mac"},
    {"array.mac.bf16", "mac"},
    {"array.mac.f32", "mac"},
    {"array.mac.posit8", "mac"},
    {"array.mac.posit16", "mac"},
    {"array.mac.f8e4m3", "mac"},
    {"array.mac.f8e5m2", "mac"},
    {"array.mac.f6e2m3", "mac"},
    {"array.mac.f6e3m2", "mac"},
    {"array.mac.f4e2m1", "mac"},
    {"array.pe.shift", "pe_cycle"},
    {"array.pe.idle", "pe_cycle"},
    {"vector.op.i8", "element"},
    {"vector.op.i16", "element"},
    {"vector.op.i32", "element"},
    {"vector.op.f16", "element"},
    {"vector.op.bf16", "element"},
    {"vector.op.f32", "element"},
    {"vector.op.posit8", "element"},
    {"vector.op.posit16", "element"},
    {"vector.op.transcendental", "element"},
    {"vector.move", "byte"},
    {"sram.read.64kib", "byte"},
    {"sram.write_ratio", "ratio"},
    {"sram.static.leak", "mw_per_mib"},
    {"noc.wire", "byte_mm"},
    {"noc.router", "byte_hop"},
    {"dma.descriptor", "descriptor"},
    {"dma.burst", "burst"},
    {"ctrl.instr", "instr"},
    {"phy.bit", "bit"},
    {"phy.bit.in_package", "bit"},
    {"phy.static.standby", "mw_per_64_bits"},
    {"phy.static.standby.in_package", "mw_per_64_bits"},
    {"logic.static.leak", "mw_per_mm2"},
    {"clock.static.idle", "ratio"},
    {"clock.static.gated", "ratio"},
};

constexpr double max_energy = 1e9;         ///< pJ or mW: far above any action
constexpr double leakage_doubling_c = 22;  ///< leakage doubles per this many degrees

const Known* find_known(std::string_view key) {
    for (const Known& known : known_entries) {
        if (known.key == key) return &known;
    }
    return nullptr;
}

bool valid_energy(double value) { return std::isfinite(value) && value >= 0 && value <= max_energy; }

/// Says what is wrong with an entry; empty when nothing is.
std::string entry_problem(const proto::EnergyEntry& entry, const std::string& key) {
    const Known* known = find_known(key);
    if (known == nullptr) {
        std::vector<std::string_view> names;
        for (const Known& row : known_entries) names.push_back(row.key);
        return fmt::format("unknown key `{}`. Fix: did you mean `{}`?", key, nearest_name(key, names));
    }
    if (!entry.has_energy_pj()) return fmt::format("`{}` has no energy_pj. Fix: add it.", key);
    if (entry.per() != known->per) {
        return fmt::format("`{}` is per `{}`, not per `{}`. Fix: convert the value and say per: \"{}\".", key,
                           known->per, entry.per(), known->per);
    }
    if (entry.source().empty())
        return fmt::format("`{}` has no source. Fix: say where the value comes from.", key);
    if (entry.confidence() != "verified" && entry.confidence() != "from_paper" &&
        entry.confidence() != "assumed") {
        return fmt::format("`{}`: confidence is `{}`. Fix: one of verified, from_paper, assumed.", key,
                           entry.confidence());
    }
    const double low = entry.has_low() ? entry.low() : entry.energy_pj();
    const double high = entry.has_high() ? entry.high() : entry.energy_pj();
    for (const double value : {entry.energy_pj(), low, high}) {
        if (!valid_energy(value)) {
            return fmt::format("`{}` has the value {}. Fix: finite numbers from 0 to {}.", key, value,
                               max_energy);
        }
    }
    if (low > entry.energy_pj() || high < entry.energy_pj()) {
        return fmt::format("`{}`: low {}, nominal {}, high {} are not ascending. Fix: order them.", key, low,
                           entry.energy_pj(), high);
    }
    if (!(std::abs(entry.node_exponent()) <= 4)) {
        return fmt::format("`{}`: node_exponent is {}. Fix: a number from -4 to 4.", key,
                           entry.node_exponent());
    }
    return "";
}

void check_conditions(const proto::EnergyTable& table, const std::string& origin, Diagnostics& diagnostics) {
    if (table.name().empty()) diagnostics.error({origin, 0, 0}, "`name` is missing. Fix: name the table.");
    if (table.node_nm() < 3 || table.node_nm() > 180) {
        diagnostics.error({origin, 0, 0},
                          fmt::format("`node_nm` is {}. Fix: from 3 to 180.", table.node_nm()));
    }
    if (!(table.vdd() >= 0.4 && table.vdd() <= 2)) {
        diagnostics.error({origin, 0, 0}, fmt::format("`vdd` is {}. Fix: from 0.4 to 2 V.", table.vdd()));
    }
    if (!table.has_temp_c() || !(table.temp_c() >= -40 && table.temp_c() <= 150)) {
        diagnostics.error({origin, 0, 0},
                          fmt::format("`temp_c` is {}. Fix: from -40 to 150 C.", table.temp_c()));
    }
}

bool is_static(const proto::EnergyEntry& entry) { return entry.action().compare(0, 7, "static.") == 0; }

double corner_value(const proto::EnergyEntry& entry, proto::Energy::Corner corner) {
    if (corner == proto::Energy::low && entry.has_low()) return entry.low();
    if (corner == proto::Energy::high && entry.has_high()) return entry.high();
    return entry.energy_pj();
}

}  // namespace

proto::EnergyTable parse_energy_table(std::string_view text, const std::string& origin) {
    Diagnostics diagnostics;
    proto::EnergyTable table;
    schema::ParseInfoTree places;
    schema::parse_text(text, origin, table, diagnostics, &places);
    if (diagnostics.has_errors()) throw UserError(std::move(diagnostics));
    check_conditions(table, origin, diagnostics);
    const auto* field = proto::EnergyTable::descriptor()->FindFieldByName("entry");
    std::set<std::string> seen;
    for (int i = 0; i < table.entry_size(); ++i) {
        const proto::EnergyEntry& entry = table.entry(i);
        const std::string key = entry.component() + "." + entry.action();
        std::string problem = entry_problem(entry, key);
        if (problem.empty() && !seen.insert(key).second) {
            problem = fmt::format("`{}` stands here twice. Fix: remove one.", key);
        }
        if (problem.empty()) continue;
        const auto location = places.GetLocation(field, i);
        diagnostics.error(
            {origin, static_cast<uint32_t>(location.line + 1), static_cast<uint32_t>(location.column + 1)},
            std::move(problem));
    }
    if (diagnostics.has_errors()) throw UserError(std::move(diagnostics));
    return table;
}

proto::EnergyTable scale_table(const proto::EnergyTable& table, const proto::Energy& conditions) {
    proto::EnergyTable scaled = table;
    const double node = conditions.has_node_nm() ? conditions.node_nm() : table.node_nm();
    const double vdd = conditions.has_vdd() ? conditions.vdd() : table.vdd();
    const double temp = conditions.has_temp_c() ? conditions.temp_c() : table.temp_c();
    const proto::Energy::Corner corner =
        conditions.has_corner() ? conditions.corner() : proto::Energy::nominal;
    scaled.set_node_nm(static_cast<uint32_t>(node));
    scaled.set_vdd(vdd);
    scaled.set_temp_c(temp);
    const double volts = vdd / table.vdd();
    const double leakage = volts * volts * volts * std::exp2((temp - table.temp_c()) / leakage_doubling_c);
    for (proto::EnergyEntry& entry : *scaled.mutable_entry()) {
        double factor = 1;
        if (is_static(entry)) {
            // leakage density falls down to the table's node; below it nothing is known to make it fall on
            const double steps = std::max(node, static_cast<double>(table.node_nm())) / table.node_nm();
            if (entry.action() == "static.leak") factor = leakage * std::pow(steps, entry.node_exponent());
        } else if (entry.per() != "ratio" && entry.component() != "phy") {
            factor = volts * volts * std::pow(node / table.node_nm(), entry.node_exponent());
        }
        entry.set_energy_pj(corner_value(entry, corner) * factor);
        entry.clear_low();
        entry.clear_high();
        entry.set_scaled_from(
            fmt::format("{} {} nm {} V {} C", table.name(), table.node_nm(), table.vdd(), table.temp_c()));
    }
    return scaled;
}

/// Returns a shipped table, parsed once: reading its text would take a quarter of a small run.
const proto::EnergyTable& shipped_energy_table(const std::string& name, std::string_view text) {
    static std::mutex mutex;
    static std::map<std::string, proto::EnergyTable> tables;
    const std::lock_guard<std::mutex> lock(mutex);
    const auto known = tables.find(name);
    if (known != tables.end()) return known->second;
    return tables.emplace(name, parse_energy_table(text, "<energy_" + name + ".textproto>")).first->second;
}

proto::EnergyTable find_energy_table(const std::string& name) {
    if (const auto text = embedded_text("energy_" + name + ".textproto"))
        return shipped_energy_table(name, *text);
    if (is_regular_file(name)) return parse_energy_table(read_text_file(name), name);
    throw UserError(
        fmt::format("`energy.table`: `{}` is neither a shipped table nor a file. Fix: use generic_16nm or "
                    "the path of a .textproto table.",
                    name));
}

proto::EnergyTable energy_table(const Platform& platform) {
    return scale_table(find_energy_table(platform.energy().table()), platform.energy());
}

}  // namespace kpu::platforms
