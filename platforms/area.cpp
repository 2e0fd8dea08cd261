// Areas of units: area.md has the formulas and what is assumed.
#include "platforms/area.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/diagnostics.hpp"
#include "platforms/area_sram.hpp"
#include "platforms/csv.hpp"
#include "platforms/ddr.hpp"
#include "platforms/platform.hpp"
#include "platforms/rules.hpp"

namespace kpu::platforms {
namespace {

using traces::Component;

/// CACTI's organisations of smaller banks, and of such few words, are no real macros.
constexpr double least_bank_bytes = 4096, least_words = 64;
/// The published crossbar has as many ports.
constexpr uint32_t most_ports = 128;

constexpr std::string_view sram_source =
    "macros of CACTI 7 at 22 nm (area_sram.csv), by published cells, times what memories of dies are over "
    "them; crossbar of "
    "Passas et al. (NOCS 2010, TCAD 2012)";

enum class Follows { logic, io, none };

struct Figure {
    double mm2 = 0, low = 0, high = 0;
    Follows follows = Follows::none;
    std::string_view source;
    bool known = false;
};

Follows follows_of(std::string_view cell) {
    if (cell == "logic") return Follows::logic;
    if (cell == "io") return Follows::io;
    if (cell == "none") return Follows::none;
    throw InternalError(fmt::format("area_figures.csv: `{}` is no way to follow the node", cell));
}

const Figure& figure(std::string_view name) {
    static const std::map<std::string_view, Figure> figures = [] {
        std::map<std::string_view, Figure> read;
        for (const auto& row : shipped_rows("area_figures.csv", 8)) {
            Figure one;
            one.known = row[2] != "-";
            if (one.known) {
                one.mm2 = number_of(row[2]);
                one.low = number_of(row[3]);
                one.high = number_of(row[4]);
            }
            one.follows = follows_of(row[5]);
            one.source = row[7];
            read.emplace(row[0], one);
        }
        return read;
    }();
    const auto found = figures.find(name);
    if (found == figures.end()) throw InternalError(fmt::format("there is no area figure `{}`", name));
    return found->second;
}

/// Ratios of areas at a node to those that the figures and the SRAM table are of.
struct Process {
    double cell_um2 = 0, logic = 0;
    bool known = false;

    double factor(Follows follows) const {
        if (follows == Follows::none) return 1;
        return follows == Follows::logic ? logic : std::sqrt(logic);
    }
};

struct Node {
    double nm, cell_um2, logic;
};

const std::vector<Node>& known_nodes() {
    static const std::vector<Node> nodes = [] {
        std::vector<Node> read;
        for (const auto& row : shipped_rows("area_process.csv", 4))
            read.push_back({number_of(row[0]), number_of(row[1]), number_of(row[2])});
        std::sort(read.begin(), read.end(), [](const Node& a, const Node& b) { return a.nm < b.nm; });
        return read;
    }();
    return nodes;
}

Process process_of(uint32_t node_nm) {
    const std::vector<Node>& nodes = known_nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
        if (node_nm == nodes[i].nm) return {nodes[i].cell_um2, nodes[i].logic, true};
        if (i == 0 || node_nm > nodes[i].nm || node_nm < nodes[i - 1].nm) continue;
        const Node &low = nodes[i - 1], &high = nodes[i];
        return {log_between(low.nm, low.cell_um2, high.nm, high.cell_um2, node_nm),
                log_between(low.nm, low.logic, high.nm, high.logic, node_nm), true};
    }
    return {};
}

Area unknown(std::string why) {
    Area area;
    area.not_modelled = std::move(why);
    return area;
}

/// Returns `count` times a figure, at a process.
Area scaled(std::string_view name, double count, const Process& process) {
    const Figure& one = figure(name);
    if (!one.known) return unknown(std::string(one.source));
    const double factor = count * process.factor(one.follows);
    return {one.mm2 * factor, one.low * factor, one.high * factor, one.source, "", ""};
}

/// Says what CACTI is not to be relied on for, of banks like these; empty when nothing.
std::string doubts(const proto::Sram& sram, double bank_bytes) {
    const auto& points = SramTable::shipped().points();
    const double widest = points.width_bytes.back(), words = bank_bytes / sram.bank_width_bytes();
    std::string text;
    if (bank_bytes < least_bank_bytes || words < least_words)
        text +=
            fmt::format("; CACTI is not reliable for banks of {:g} bytes and {:g} words", bank_bytes, words);
    if (bank_bytes < points.size_bytes.front())
        text += fmt::format(", which count as {:g} bytes", points.size_bytes.front());
    if (sram.bank_width_bytes() > widest)
        text += fmt::format("; a bank is {:g} macros of {:g} bytes a word side by side",
                            sram.bank_width_bytes() / widest, widest);
    if (bank_bytes > points.size_bytes.back())
        text += fmt::format("; a bank is several of {:g} MiB", points.size_bytes.back() / (1 << 20));
    if (sram.ports() > most_ports)
        text += fmt::format("; a crossbar of {} ports is beyond the published one's {}", sram.ports(),
                            most_ports);
    return text;
}

Area sram_at(const proto::Sram& sram, const Process& process) {
    const double banks = sram.banks(), bank_bytes = static_cast<double>(sram.size_bytes()) / banks;
    const double macros = banks * SramTable::shipped().macro_mm2(bank_bytes, sram.bank_width_bytes()) *
                          (process.cell_um2 / SramTable::cell_um2);
    // read and write data; a part of a port that is wider than a bank reaches every so many banks
    const double bits =
        2 * 8.0 * sram.ports() * banks * std::min(sram.bank_width_bytes(), sram.bytes_per_cycle());
    const Area crossbar = scaled("sram.crosspoint_bit", bits, process);
    const Figure& assembly = figure("sram.assembly");
    Area area;
    area.mm2 = macros * assembly.mm2 + crossbar.mm2;
    area.low = macros * assembly.low + crossbar.low;
    area.high = macros * assembly.high + crossbar.high;
    area.source = sram_source;
    area.note =
        fmt::format("{} banks of one port with {:.3g} mm2 of macros, {} ports with {:.3g} mm2 of crossbar{}",
                    sram.banks(), macros, sram.ports(), crossbar.mm2, doubts(sram, bank_bytes));
    return area;
}

/// Returns what a unit is, and its area.
AreaRow row_of_unit(const proto::Platform& platform, const Engines& engines, const traces::UnitInfo& unit,
                    const Process& process) {
    const auto engine = [&]() -> const proto::Engine& {
        return engines.at(static_cast<size_t>(unit.engine));
    };
    const auto row = [&](Component component, Area area) {
        return AreaRow{unit.name, component, std::move(area)};
    };
    switch (unit.kind) {
        case UnitKind::nmu: {
            const proto::SystolicArray& array = engine().array();
            return row(Component::array,
                       scaled(cell_figure(array), static_cast<double>(array.rows()) * array.cols(), process));
        }
        case UnitKind::cstl:
        case UnitKind::vpu:
            return row(Component::vector, scaled("vector.lane", engine().vector().lanes(), process));
        case UnitKind::dma:
        case UnitKind::sdma:
            return row(Component::dma, scaled("dma.channel", 1, process));
        case UnitKind::seq:
            return row(Component::ctrl, scaled("ctrl.sequencer", 1, process));
        case UnitKind::link: {
            const proto::Interconnect& links = platform.interconnect();
            const bool system = unit.name == "link_sys";
            return row(
                Component::noc,
                scaled("noc.link_byte",
                       system ? links.system_link_bytes_per_cycle() : links.link_bytes_per_cycle(), process));
        }
        case UnitKind::l1:
            return row(Component::l1, sram_at(engine().l1(), process));
        case UnitKind::l2:
            return row(Component::l2, sram_at(platform.l2(), process));
        case UnitKind::ddr: {
            const proto::DdrDevice& device = rated_ddr_device(platform.ddr().device());
            return row(Component::phy, scaled(device.in_package() ? "phy.bit.in_package" : "phy.bit",
                                              device.bus_width_bits(), process));
        }
        default:
            return row(Component::ctrl, unknown("no published figure for units of this kind"));
    }
}

std::string unknown_node(uint32_t node_nm) {
    return fmt::format("areas are known from {:g} to {:g} nm, and the node is {} nm",
                       known_nodes().front().nm, known_nodes().back().nm, node_nm);
}

}  // namespace

std::string_view cell_figure(const proto::SystolicArray& array) {
    std::string_view name = "array.cell.int";
    for (const proto::MacRate& rate : array.rate()) {
        if (rate.type() == "f32") return "array.cell.f32";
        const auto types = rate_types(rate.type());
        if (types && is_float(types->first)) name = "array.cell.half";
    }
    return name;
}

double figure_mm2(std::string_view name) {
    const Figure& found = figure(name);
    if (!found.known) throw InternalError(fmt::format("there is no area for `{}`: {}", name, found.source));
    return found.mm2;
}

Area sram_area(const proto::Sram& sram, uint32_t node_nm) {
    const Process process = process_of(node_nm);
    return process.known ? sram_at(sram, process) : unknown(unknown_node(node_nm));
}

AreaReport area_of(const proto::Platform& platform, const std::vector<traces::UnitInfo>& units,
                   uint32_t node_nm) {
    const Process process = process_of(node_nm);
    const Engines engines = engines_of(platform);
    AreaReport report;
    for (const traces::UnitInfo& unit : units) {
        if (unit.kind == UnitKind::device) continue;
        AreaRow row = row_of_unit(platform, engines, unit, process);
        if (!process.known && row.area.not_modelled.empty()) row.area = unknown(unknown_node(node_nm));
        report.mm2 += row.area.mm2;
        report.low += row.area.low;
        report.high += row.area.high;
        report.rows.push_back(std::move(row));
    }
    return report;
}

void set_areas(const proto::Platform& platform, uint32_t node_nm, std::vector<traces::UnitInfo>& units) {
    const AreaReport report = area_of(platform, units, node_nm);
    for (const AreaRow& row : report.rows) {
        for (traces::UnitInfo& unit : units)
            if (unit.name == row.unit) unit.area_mm2 = row.area.mm2;
    }
}

}  // namespace kpu::platforms
