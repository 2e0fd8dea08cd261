#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/text.hpp"
#include "platforms/library.hpp"
#include "platforms/nem_device.hpp"
#include "platforms/platform.hpp"
#include "platforms/rules.hpp"
#include "platforms/scale_sim_config.hpp"
#include "platforms/schema.hpp"

namespace kpu::platforms {
namespace {

/// Files among the embedded ones that are no device: families, tables, and the abstract baseline.
constexpr std::string_view not_devices[] = {"ddr_devices.textproto", "energy_generic_16nm.textproto",
                                            "kpusim_ext.nem", "npm_baseline_1_0.nem"};

struct Source {
    std::string origin;  ///< for messages
    std::string text;
};

Source find_source(const std::string& name, const std::vector<std::string>& search_paths) {
    const std::vector<std::string> shipped = shipped_names();
    if (std::binary_search(shipped.begin(), shipped.end(), name)) {
        const std::string file = *embedded_file_of(name);
        return {"<" + file + ">", std::string(*embedded_text(file))};
    }
    if (is_regular_file(name)) return {name, read_text_file(name)};
    for (const std::string& folder : search_paths) {
        const std::string path = (std::filesystem::path(folder) / name).string();
        if (is_regular_file(path)) return {path, read_text_file(path)};
    }
    if (const auto file = embedded_file_of(name))
        return {"<" + *file + ">", std::string(*embedded_text(*file))};
    const std::vector<std::string_view> candidates(shipped.begin(), shipped.end());
    throw UserError(
        fmt::format("platform `{}`: neither a file nor a shipped platform ({}). Fix: did you mean `{}`?",
                    name, fmt::join(shipped, ", "), nearest_name(name, candidates)));
}

Platform finish(Platform platform, const std::string& origin, const schema::ParseInfoTree* places,
                schema::Fill fill, const Overrides& overrides, Diagnostics* notes = nullptr) {
    for (const auto& [path, value] : overrides) schema::set_path(platform, path, value);
    Diagnostics diagnostics;
    schema::complete(platform, origin, places, fill, diagnostics);
    if (diagnostics.has_errors()) throw UserError(std::move(diagnostics));
    fit_ddr_size(platform, overrides, notes);
    derive(platform);
    check_rules(platform, origin, places, diagnostics);
    if (diagnostics.has_errors()) throw UserError(std::move(diagnostics));
    energy_prices(platform);  // every action has its price
    return platform;
}

Platform load_textproto(std::string_view text, const std::string& origin, const Overrides& overrides,
                        Diagnostics* notes = nullptr) {
    Diagnostics diagnostics;
    Platform platform;
    schema::ParseInfoTree places;
    schema::parse_text(text, origin, platform, diagnostics, &places);
    if (diagnostics.has_errors()) throw UserError(std::move(diagnostics));
    return finish(std::move(platform), origin, &places, schema::Fill::optional_fields, overrides, notes);
}

Platform load_nem(const Source& source, const Overrides& overrides,
                  const std::vector<std::string>& search_paths) {
    Diagnostics diagnostics;
    const nem::Document document =
        nem::parse(source.text, source.origin, file_loader(search_paths), diagnostics);
    if (!diagnostics.has_errors() && document.devices.empty()) {
        diagnostics.error({source.origin, 0, 0},
                          "no device is declared here. Fix: name a device configuration.");
    }
    if (diagnostics.has_errors()) throw UserError(std::move(diagnostics));
    Platform platform = nem_fields(document, document.devices.back().name, diagnostics);
    if (diagnostics.has_errors()) throw UserError(std::move(diagnostics));
    return finish(std::move(platform), source.origin, nullptr, schema::Fill::every_field, overrides);
}

Platform load_scale_sim(const Source& source, const Overrides& overrides, Diagnostics* notes) {
    Diagnostics diagnostics;
    Platform platform = scale_sim_fields(source.text, source.origin, diagnostics);
    if (diagnostics.has_errors()) throw UserError(std::move(diagnostics));
    for (const Diagnostic& note : diagnostics.all()) {
        if (notes != nullptr) notes->add(note);
    }
    return finish(std::move(platform), source.origin, nullptr, schema::Fill::every_field, overrides, notes);
}

}  // namespace

std::vector<std::string> shipped_names() {
    std::vector<std::string> names;
    for (const std::string& file : embedded_names()) {
        if (std::find(std::begin(not_devices), std::end(not_devices), file) != std::end(not_devices))
            continue;
        names.push_back(file.substr(0, file.rfind('.')));
    }
    std::sort(names.begin(), names.end());
    return names;
}

bool is_shipped(const std::string& name) {
    const auto file = embedded_file_of(name);
    return file && std::find(std::begin(not_devices), std::end(not_devices), *file) == std::end(not_devices);
}

Platform load(const std::string& name_or_path, const Overrides& overrides,
              const std::vector<std::string>& search_paths, Diagnostics* notes) {
    const Source source = find_source(name_or_path, search_paths);
    std::string_view file = source.origin;
    if (ends_with(file, ">")) file.remove_suffix(1);
    if (ends_with(file, ".cfg") && is_scale_sim_config(source.text))
        return load_scale_sim(source, overrides, notes);
    if (ends_with(file, ".nem") || ends_with(file, ".cfg")) return load_nem(source, overrides, search_paths);
    return load_textproto(source.text, source.origin, overrides, notes);
}

Platform parse_textproto(std::string_view text, const std::string& origin, const Overrides& overrides) {
    return load_textproto(text, origin, overrides);
}

Platform from_nem(const nem::Document& document, const std::string& device_name, Diagnostics& diagnostics,
                  const Overrides& overrides) {
    Platform platform = nem_fields(document, device_name, diagnostics);
    if (diagnostics.has_errors()) return platform;
    return finish(std::move(platform), device_name, nullptr, schema::Fill::every_field, overrides);
}

void apply_override(Platform& platform, const std::string& path, const std::string& value) {
    schema::set_path(platform, path, value);
}

void validate(const Platform& platform) {
    Platform copy = platform;
    Diagnostics diagnostics;
    schema::complete(copy, platform.name(), nullptr, schema::Fill::optional_fields, diagnostics);
    if (!diagnostics.has_errors()) check_rules(copy, platform.name(), nullptr, diagnostics);
    if (diagnostics.has_errors()) throw UserError(std::move(diagnostics));
    energy_prices(copy);
}

std::string to_textproto(const Platform& platform) { return schema::print(platform); }

nem::FileLoader file_loader(const std::vector<std::string>& search_paths) {
    const nem::FileLoader files = nem::default_loader(search_paths);
    return [files](const std::string& name, const std::string& from) -> std::optional<nem::SourceFile> {
        if (auto found = files(name, from)) return found;
        const auto file = embedded_file_of(name);
        if (!file || !ends_with(*file, ".nem")) return std::nullopt;
        return nem::SourceFile{"<" + *file + ">", std::string(*embedded_text(*file))};
    };
}

Clock clock_of_mhz(double mhz) { return Clock(static_cast<uint64_t>(std::llround(mhz * 1e6))); }

Clock core_clock(const Platform& platform) { return clock_of_mhz(platform.clock().core_mhz()); }

Clock array_clock(const Platform& platform) {
    return platform.clock().has_array_mhz() ? clock_of_mhz(platform.clock().array_mhz())
                                            : core_clock(platform);
}

std::vector<proto::Engine> engines_of(const Platform& platform) {
    std::vector<proto::Engine> engines;
    for (const proto::Engine& engine : platform.engine()) {
        for (uint32_t k = 0; k < engine.count(); ++k) {
            engines.push_back(engine);
            engines.back().set_count(1);
        }
    }
    return engines;
}

}  // namespace kpu::platforms
