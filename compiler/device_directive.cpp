#include "compiler/device_directive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "isa/nem/nem.hpp"

namespace kpu::compiler {
namespace {

namespace fs = std::filesystem;

/// Input of the look-up of a program's device directive.
struct Lookup {
    const Module& module;
    const platforms::Overrides& overrides;
    const std::vector<std::string>& search_paths;
    Diagnostics& diagnostics;
};

/// Devices that a directive by name or an inline body can see: those of the included files, and the body
/// itself.
std::optional<platforms::Platform> device_from_includes(const Lookup& lookup) {
    Diagnostics& diagnostics = lookup.diagnostics;
    const auto& directive = lookup.module.program.device();
    std::string text;
    for (const auto& include : directive.include()) text += fmt::format("include \"{}\" ", include);
    const SourcePos pos = lookup.module.pos_of_device();
    if (pos.line > 1) text += std::string(pos.line - 1, '\n') + std::string(pos.column - 1, ' ');
    text += directive.body();  // at its own place, for messages
    const auto document =
        nem::parse(text, lookup.module.origin, platforms::file_loader(lookup.search_paths), diagnostics);
    if (diagnostics.has_errors() || document.devices.empty()) return std::nullopt;
    const std::string& name = directive.name().empty() ? document.devices.back().name : directive.name();
    const bool known = std::any_of(document.devices.begin(), document.devices.end(),
                                   [&](const nem::DeviceDecl& device) { return device.name == name; });
    if (!known) return std::nullopt;
    auto platform = platforms::from_nem(document, name, diagnostics, lookup.overrides);
    if (diagnostics.has_errors()) throw UserError(diagnostics);
    return platform;
}

/// Returns a device file named by a program: beside the program, in the search paths, then a shipped name or
/// alias.
std::optional<platforms::Platform> device_from_path(const Lookup& lookup, const std::string& path) {
    std::vector<fs::path> candidates = {fs::path(lookup.module.origin).parent_path() / path};
    for (const auto& folder : lookup.search_paths) candidates.push_back(fs::path(folder) / path);
    for (const auto& candidate : candidates) {
        std::error_code ignored;
        if (!fs::is_regular_file(candidate, ignored)) continue;
        return platforms::load(candidate.string(), lookup.overrides, lookup.search_paths,
                               &lookup.diagnostics);
    }
    if (!platforms::is_shipped(path)) return std::nullopt;
    return platforms::load(path, lookup.overrides, lookup.search_paths, &lookup.diagnostics);
}

}  // namespace

std::optional<platforms::Platform> resolve_platform(const Module& module, const std::string& choice,
                                                    const platforms::Overrides& overrides,
                                                    const std::vector<std::string>& search_paths,
                                                    Diagnostics& diagnostics) {
    if (!choice.empty()) return platforms::load(choice, overrides, search_paths, &diagnostics);
    const auto& directive = module.program.device();
    if (directive.path().empty() && directive.name().empty() && directive.body().empty()) return std::nullopt;
    const Lookup lookup{module, overrides, search_paths, diagnostics};
    if (!directive.path().empty()) {
        if (auto platform = device_from_path(lookup, directive.path())) return platform;
    } else {
        if (auto platform = device_from_includes(lookup)) return platform;
        if (directive.body().empty() && platforms::is_shipped(directive.name())) {
            return platforms::load(directive.name(), overrides, search_paths, &diagnostics);
        }
    }
    const std::string& name = directive.path().empty() ? directive.name() : directive.path();
    const std::vector<std::string> shipped = platforms::shipped_names();
    diagnostics.warning(
        module.pos_of_device(),
        fmt::format(
            "device `{}` cannot be found: the program is taken as device-agnostic, so that capacities, "
            "units, opcodes, types and the token table are not checked. Fix: did you mean `{}`? Else put "
            "the file beside the program, give -I FOLDER, or pass --platform.",
            name, nearest_name(name, {shipped.begin(), shipped.end()})));
    return std::nullopt;
}

}  // namespace kpu::compiler
