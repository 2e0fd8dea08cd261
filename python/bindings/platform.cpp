#include <pybind11/stl.h>

#include "platforms/scales.hpp"
#include "python/bindings/bindings.hpp"
#include "runtime/inventory.hpp"
#include "traces/corners.hpp"

namespace kpu::bindings {

Platform resolve(Platform platform) {
    platform.resolved = platform.is_text
                            ? platforms::parse_textproto(platform.source, "<text>", platform.overrides)
                            : platforms::load(platform.source, platform.overrides, platform.search_paths);
    return platform;
}

namespace {

Platform load_platform(std::string name_or_path, std::vector<std::string> search_paths) {
    return resolve({std::move(name_or_path), false, {}, std::move(search_paths), {}});
}

Platform parse_platform(std::string text) { return resolve({std::move(text), true, {}, {}, {}}); }

Platform changed(Platform platform, const platforms::Overrides& overrides) {
    platform.overrides.insert(platform.overrides.end(), overrides.begin(), overrides.end());
    return resolve(std::move(platform));
}

/// (path, type, unit, meaning) of every parameter, groups that scale behind them.
py::list parameter_table() {
    py::list rows;
    for (const platforms::ParameterInfo& row : platforms::parameters())
        rows.append(py::make_tuple(row.path, row.type, row.unit, row.meaning));
    for (const platforms::ScaleInfo& group : platforms::scales())
        rows.append(py::make_tuple(group.path, "real", "", group.meaning));
    return rows;
}

/// Returns the bandwidth of all channels at their rate.
double dram_gbps(const Platform& platform) {
    const proto::Ddr& ddr = platform.resolved.ddr();
    const double bits = platforms::ddr_device(platform.resolved).bus_width_bits();
    return ddr.channels() * (ddr.data_rate_mtps() * 1e-3) * (bits / 8);
}

}  // namespace

void bind_platform(py::module_& module) {
    using py::arg;
    using Release = py::call_guard<py::gil_scoped_release>;
    module.def("platform_names", &platforms::shipped_names);
    module.def("parameter_table", &parameter_table);
    module.def("load_platform", &load_platform, arg("name_or_path"), arg("search_paths"), Release());
    module.def("parse_platform", &parse_platform, arg("text"), Release());
    py::class_<Platform>(module, "Platform")
        .def_property_readonly("name", [](const Platform& platform) { return platform.resolved.name(); })
        .def_property_readonly(
            "source",
            [](const Platform& platform) { return platform.is_text ? std::string() : platform.source; })
        .def_property_readonly("core_mhz",
                               [](const Platform& platform) { return platform.resolved.clock().core_mhz(); })
        .def_property_readonly("dram_gbps", &dram_gbps)
        .def_property_readonly("dram_bytes",
                               [](const Platform& platform) { return platform.resolved.ddr().size_bytes(); })
        .def("changed", &changed, arg("overrides"), Release())
        .def("units",
             [](const Platform& platform) {
                 std::vector<std::string> names;
                 for (const auto& unit : runtime::take_inventory(platform.resolved).units)
                     names.push_back(unit.name);
                 return names;
             })
        .def("stats",
             [](const Platform& platform) {
                 py::list rows;
                 const runtime::Inventory inventory = runtime::take_inventory(platform.resolved);
                 for (const auto& [key, stat] : inventory.stats.all()) {
                     const double value = inventory.stats.real(key);
                     rows.append(py::make_tuple(key, stat.unit, stat.meaning, value));
                 }
                 return rows;
             })
        .def(
            "energy_band",
            [](const Platform& platform, const traces::StatSet& stats) -> py::object {
                traces::EnergyPrices prices = platforms::energy_prices(platform.resolved);
                prices.corners = platforms::energy_corners(platform.resolved);
                const auto band = traces::energy_band(stats, prices);
                if (!band) return py::none();
                return py::make_tuple(band->low_uj, band->high_uj, band->low_w, band->high_w);
            },
            arg("stats"))
        .def("text", [](const Platform& platform) { return platforms::to_textproto(platform.resolved); });
}

}  // namespace kpu::bindings
