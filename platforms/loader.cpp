#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "base/text.hpp"
#include "platforms/extends.hpp"
#include "platforms/library.hpp"
#include "platforms/linked.hpp"
#include "platforms/nem_device.hpp"
#include "platforms/operating_points.hpp"
#include "platforms/platform.hpp"
#include "platforms/rules.hpp"
#include "platforms/scale_sim_config.hpp"
#include "platforms/schema.hpp"
#include "platforms/starved.hpp"
#include "platforms/variants.hpp"

namespace kpu::platforms {
namespace {

/// Files among the embedded ones that are no device: families, tables, and the abstract baseline.
constexpr std::string_view not_devices[] = {"area_figures.csv",
                                            "area_process.csv",
                                            "area_sram.csv",
                                            "ddr_devices.textproto",
                                            "energy_generic_16nm.textproto",
                                            "kpusim_ext.nem",
                                            "npm_baseline_1_0.nem",
                                            "variant_sets.textproto"};

constexpr size_t max_extends = 16;

struct Source {
    std::string origin;  ///< for messages
    std::string text;
};

/// A platform as its files say it: nothing filled in, nothing that follows from other fields.
struct Draft {
    Platform fields;
    schema::Fill fill = schema::Fill::every_field;
    std::unique_ptr<schema::ParseInfoTree> places;  ///< null: the fields have no places in one file
    LinkedValues linked;
    bool fits_ddr = false;  ///< its DDR was changed without saying how large it is
};

/// Input of reading a platform beside its text.
struct Reading {
    const std::vector<std::string>& search_paths;
    Diagnostics* notes;                ///< may be null
    std::vector<std::string> origins;  ///< the files on the way, each of which extends the next
};

Source shipped_source(const std::string& file) {
    return {"<" + file + ">", std::string(*embedded_text(file))};
}

Source find_source(const std::string& name, const std::vector<std::string>& search_paths) {
    const std::vector<std::string> shipped = shipped_names();
    if (std::binary_search(shipped.begin(), shipped.end(), name))
        return shipped_source(*embedded_file_of(name));
    if (is_regular_file(name)) return {name, read_text_file(name)};
    for (const std::string& folder : search_paths) {
        const std::string path = (std::filesystem::path(folder) / name).string();
        if (is_regular_file(path)) return {path, read_text_file(path)};
    }
    if (const auto file = embedded_file_of(name)) return shipped_source(*file);
    const std::vector<std::string_view> candidates(shipped.begin(), shipped.end());
    throw UserError(
        fmt::format("platform `{}`: neither a file nor a shipped platform ({}). Fix: did you mean `{}`?",
                    name, fmt::join(shipped, ", "), nearest_name(name, candidates)));
}

void stop_at_errors(const Diagnostics& diagnostics) {
    if (diagnostics.has_errors()) throw UserError(diagnostics);
}

Platform finish(Draft draft, const std::string& origin, const Overrides& overrides, Diagnostics* notes) {
    Platform& platform = draft.fields;
    const schema::ParseInfoTree* places = draft.places.get();
    draft.linked.override_with(platform, overrides, draft.fill);
    if (platform.has_extends())
        throw UserError(
            fmt::format("--set extends={}: only a file extends another platform. Fix: write a "
                        "file with `extends: \"{}\"` and the changes.",
                        platform.extends(), platform.extends()));
    Diagnostics diagnostics;
    expand_variant_sets(platform, diagnostics);
    choose_points(platform, overrides, diagnostics);
    stop_at_errors(diagnostics);
    draft.linked.settle(platform, draft.fill);
    schema::complete(platform, origin, places, draft.fill, diagnostics);
    stop_at_errors(diagnostics);
    fit_ddr_size(platform, overrides, draft.fits_ddr, notes);
    derive(platform);
    check_rules(platform, origin, places, diagnostics);
    stop_at_errors(diagnostics);
    energy_prices(platform);  // every action has its price
    if (notes != nullptr) note_starved_arrays(platform, *notes);
    return std::move(draft.fields);
}

Draft draft_of(const Source& source, Reading& reading);

/// Returns the file that `extends` names: beside the file that says so, or where platforms are found.
Source base_source(const std::string& name, const std::string& origin, const Reading& reading) {
    const std::filesystem::path folder = std::filesystem::path(origin).parent_path();
    const bool named = std::filesystem::path(name).is_absolute();
    if (!named && !folder.empty() && is_regular_file((folder / name).string()))
        return {(folder / name).string(), read_text_file((folder / name).string())};
    return find_source(name, reading.search_paths);
}

/// Returns the changes of a file, put on the platform that it extends.
Draft extended(Platform changes, const Source& source, const LinkedText& linked,
               const schema::ParseInfoTree& places, Reading& reading) {
    Diagnostics diagnostics;
    schema::complete(changes, source.origin, &places, schema::Fill::nothing, diagnostics);
    const Source base = base_source(changes.extends(), source.origin, reading);
    reading.origins.push_back(source.origin);
    if (std::find(reading.origins.begin(), reading.origins.end(), base.origin) != reading.origins.end() ||
        reading.origins.size() > max_extends) {
        diagnostics.error({source.origin, 0, 0},
                          fmt::format("`extends: \"{}\"` goes in a circle, or over more than {} files. Fix: "
                                      "extend a platform that does not extend this one.",
                                      changes.extends(), max_extends));
    }
    stop_at_errors(diagnostics);
    Draft draft = draft_of(base, reading);
    draft.fits_ddr = draft.fits_ddr || (changes.has_ddr() && !changes.ddr().has_size_bytes());
    draft.places.reset();
    const int engines = draft.fields.engine_size();
    apply_changes(draft.fields, changes);
    draft.linked.add_file(draft.fields, changes, engines, linked, draft.fill);
    return draft;
}

Draft textproto_draft(const Source& source, Reading& reading) {
    Diagnostics diagnostics;
    Platform platform;
    auto places = std::make_unique<schema::ParseInfoTree>();
    const LinkedText linked = take_linked(source.text, source.origin, diagnostics);
    schema::parse_text(linked.plain, source.origin, platform, diagnostics, places.get());
    stop_at_errors(diagnostics);
    if (platform.has_extends()) return extended(std::move(platform), source, linked, *places, reading);
    Draft draft;
    draft.fill = schema::Fill::optional_fields;
    draft.places = std::move(places);
    draft.linked.add_file(platform, platform, platform.engine_size(), linked, draft.fill);
    draft.fields = std::move(platform);
    return draft;
}

Draft nem_draft(const Source& source, const Reading& reading) {
    Diagnostics diagnostics;
    const nem::Document document =
        nem::parse(source.text, source.origin, file_loader(reading.search_paths), diagnostics);
    if (!diagnostics.has_errors() && document.devices.empty()) {
        diagnostics.error({source.origin, 0, 0},
                          "no device is declared here. Fix: name a device configuration.");
    }
    stop_at_errors(diagnostics);
    Draft draft;
    draft.fields = nem_fields(document, document.devices.back().name, diagnostics);
    stop_at_errors(diagnostics);
    return draft;
}

Draft scale_sim_draft(const Source& source, const Reading& reading) {
    Diagnostics diagnostics;
    Draft draft;
    draft.fields = scale_sim_fields(source.text, source.origin, diagnostics);
    stop_at_errors(diagnostics);
    for (const Diagnostic& note : diagnostics.all()) {
        if (reading.notes != nullptr) reading.notes->add(note);
    }
    return draft;
}

Draft draft_of(const Source& source, Reading& reading) {
    std::string_view file = source.origin;
    if (ends_with(file, ">")) file.remove_suffix(1);
    if (ends_with(file, ".cfg") && is_scale_sim_config(source.text)) return scale_sim_draft(source, reading);
    if (ends_with(file, ".nem") || ends_with(file, ".cfg")) return nem_draft(source, reading);
    return textproto_draft(source, reading);
}

/// True if nothing but kpusim itself says what it is, so that it is the same whenever it is asked for.
bool is_closed(const Source& source) {
    return source.origin.front() == '<' && ends_with(source.origin, ".textproto>") &&
           source.text.find("extends") == std::string::npos;
}

/// Shipped platforms as they were read: whoever simulates many programs asks for the same one again and again.
class Known {
  public:
    std::optional<Platform> find(const std::string& origin) {
        const std::lock_guard lock(mutex_);
        const auto found = platforms_.find(origin);
        return found == platforms_.end() ? std::nullopt : std::optional(found->second);
    }
    void keep(const std::string& origin, const Platform& platform) {
        const std::lock_guard lock(mutex_);
        platforms_.emplace(origin, platform);
    }

  private:
    std::mutex mutex_;
    std::map<std::string, Platform> platforms_;
};
Known& known() {
    static auto* const platforms = new Known;  // never destroyed: threads may end after main does
    return *platforms;
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
    Reading reading{search_paths, notes, {}};
    if (!overrides.empty() || !is_closed(source))
        return finish(draft_of(source, reading), source.origin, overrides, notes);
    if (std::optional<Platform> platform = known().find(source.origin)) {
        if (notes != nullptr) note_starved_arrays(*platform, *notes);
        return std::move(*platform);
    }
    Platform platform = finish(draft_of(source, reading), source.origin, overrides, notes);
    known().keep(source.origin, platform);
    return platform;
}

Platform parse_textproto(std::string_view text, const std::string& origin, const Overrides& overrides) {
    const std::vector<std::string> no_paths;
    Reading reading{no_paths, nullptr, {}};
    return finish(textproto_draft({origin, std::string(text)}, reading), origin, overrides, nullptr);
}

Platform from_nem(const nem::Document& document, const std::string& device_name, Diagnostics& diagnostics,
                  const Overrides& overrides) {
    Draft draft;
    draft.fields = nem_fields(document, device_name, diagnostics);
    if (diagnostics.has_errors()) return draft.fields;
    return finish(std::move(draft), device_name, overrides, &diagnostics);
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

Engines engines_of(const Platform& platform) {
    Engines engines;
    for (const proto::Engine& engine : platform.engine()) {
        for (uint32_t k = 0; k < engine.count(); ++k) engines.push_back(engine);
    }
    return engines;
}

}  // namespace kpu::platforms
