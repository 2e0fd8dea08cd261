#include "runtime/program_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/read_file.hpp"
#include "base/text_output.hpp"
#include "isa/container.hpp"
#include "isa/nem/nem.hpp"
#include "platforms/variants.hpp"

namespace kpu::runtime {
namespace {

namespace fs = std::filesystem;

constexpr size_t magic_bytes = 8;

/// Containers start with "KPUPROG\0", pickles with 0x80 and a protocol number: neither is text.
bool is_binary(std::string_view bytes) {
    return bytes.substr(0, 8) == std::string_view("KPUPROG\0", 8) || (!bytes.empty() && bytes[0] == '\x80');
}

/// What a program's device directive is looked up with.
struct Lookup {
    const Module& module;
    const platforms::Overrides& overrides;
    const std::vector<std::string>& search_paths;
};

/// Devices that a directive by name or an inline body can see: those of the included files, and the body
/// itself.
std::optional<platforms::Platform> device_from_includes(const Lookup& lookup, Diagnostics& diagnostics) {
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

/// A device file named by a program: beside the program, in the search paths, then a shipped name or alias.
std::optional<platforms::Platform> device_from_path(const Lookup& lookup, const std::string& path) {
    std::vector<fs::path> candidates = {fs::path(lookup.module.origin).parent_path() / path};
    for (const auto& folder : lookup.search_paths) candidates.push_back(fs::path(folder) / path);
    for (const auto& candidate : candidates) {
        std::error_code ignored;
        if (!fs::is_regular_file(candidate, ignored)) continue;
        return platforms::load(candidate.string(), lookup.overrides, lookup.search_paths);
    }
    if (!platforms::is_shipped(path)) return std::nullopt;
    return platforms::load(path, lookup.overrides, lookup.search_paths);
}

bool has_topology(const nem::Document& document, std::string name) {
    for (size_t steps = 0; steps <= document.devices.size() && !name.empty(); ++steps) {
        const auto device = std::find_if(document.devices.begin(), document.devices.end(),
                                         [&](const nem::DeviceDecl& d) { return d.name == name; });
        if (device == document.devices.end()) return true;  // unknown: resolving it says so
        if (device->has_topology) return true;
        name = device->parent;
    }
    return !name.empty();  // in a circle: resolving it says so
}

/// Every device that a file itself declares: abstract ones in their variants, the others as platforms.
void check_devices(const nem::Document& document, const std::string& origin, Diagnostics& diagnostics) {
    const auto families = platforms::families_with(document.families);
    for (const nem::DeviceDecl& device : document.devices) {
        if (device.pos.file != origin) continue;
        if (!has_topology(document, device.name)) {
            for (const auto* list : {&device.mandatory, &device.extended}) {
                for (const nem::VariantRef& ref : *list) nem::resolve_variant(ref, families, diagnostics);
            }
            continue;
        }
        Diagnostics found;
        try {
            platforms::from_nem(document, device.name, found);
        } catch (const UserError& error) {
            if (error.diagnostics().all().empty()) found.error(device.pos, error.what());
            for (const Diagnostic& item : error.diagnostics().all()) found.add(item);
        }
        for (const Diagnostic& item : found.all()) diagnostics.add(item);
    }
}

std::string data_file_name(const std::string& text_path, int index) {
    return fmt::format("{}.{}.data", fs::path(text_path).filename().string(), index);
}

/// Text carries no data: sections stand in files beside it, or where the program names a side file. The
/// reader left a place for each.
void load_data(Module& module) {
    const std::string folder = fs::path(module.origin).parent_path().string();
    for (int i = 0; i < module.program.data_size(); ++i) {
        proto::Data entry = module.program.data(i);
        if (entry.path().empty()) entry.set_path(data_file_name(module.origin, i));
        module.data[static_cast<size_t>(i)] = load_side_file(entry, folder);
    }
}

}  // namespace

std::string program_text(const Module& module) { return nem::print(module); }

void write_text(const Module& module, const std::string& path) {
    const fs::path folder = fs::path(path).parent_path();
    for (int i = 0; i < module.program.data_size(); ++i) {
        if (!module.program.data(i).path().empty()) continue;
        write_file((folder / data_file_name(path, i)).string(), module.data[static_cast<size_t>(i)].bytes);
    }
    write_file(path, program_text(module));
}

std::shared_ptr<const Module> load_program_or_devices(const std::string& path,
                                                      const std::vector<std::string>& search_paths,
                                                      Diagnostics& diagnostics) {
    if (path != "-" && is_binary(read_file(path, magic_bytes))) {
        return std::make_shared<Module>(read_container(path));  // data sections stay memory-mapped
    }
    return parse_program_or_devices(read_file(path), path == "-" ? "<stdin>" : path, search_paths,
                                    diagnostics);
}

std::shared_ptr<const Module> parse_program_or_devices(const std::string& bytes, const std::string& origin,
                                                       const std::vector<std::string>& search_paths,
                                                       Diagnostics& diagnostics) {
    if (is_binary(bytes)) return std::make_shared<Module>(parse_container(bytes, origin));
    auto document = nem::parse(bytes, origin, platforms::file_loader(search_paths), diagnostics);
    if (diagnostics.has_errors()) throw UserError(diagnostics);
    if (!document.is_program) {
        check_devices(document, origin, diagnostics);
        return nullptr;
    }
    document.module.origin = origin;
    load_data(document.module);
    return std::make_shared<Module>(std::move(document.module));
}

void refuse_devices(const std::string& path) {
    throw UserError(
        fmt::format("{}: this file declares devices, not a program. Fix: pass it with --platform, and "
                    "name a program here.",
                    path == "-" ? "<stdin>" : path));
}

std::shared_ptr<const Module> parse_program(const std::string& bytes, const std::string& origin,
                                            const std::vector<std::string>& search_paths,
                                            Diagnostics& diagnostics) {
    auto module = parse_program_or_devices(bytes, origin, search_paths, diagnostics);
    if (module == nullptr) refuse_devices(origin);
    return module;
}

std::shared_ptr<const Module> load_program(const std::string& path,
                                           const std::vector<std::string>& search_paths,
                                           Diagnostics& diagnostics) {
    auto module = load_program_or_devices(path, search_paths, diagnostics);
    if (module == nullptr) refuse_devices(path);
    return module;
}

std::optional<platforms::Platform> resolve_platform(const Module& module, const std::string& choice,
                                                    const platforms::Overrides& overrides,
                                                    const std::vector<std::string>& search_paths,
                                                    Diagnostics& diagnostics) {
    if (!choice.empty()) return platforms::load(choice, overrides, search_paths, &diagnostics);
    const auto& directive = module.program.device();
    if (directive.path().empty() && directive.name().empty() && directive.body().empty()) return std::nullopt;
    const Lookup lookup{module, overrides, search_paths};
    if (!directive.path().empty()) {
        if (auto platform = device_from_path(lookup, directive.path())) return platform;
    } else {
        if (auto platform = device_from_includes(lookup, diagnostics)) return platform;
        if (directive.body().empty() && platforms::is_shipped(directive.name())) {
            return platforms::load(directive.name(), overrides, search_paths);
        }
    }
    diagnostics.warning(
        module.pos_of_device(),
        fmt::format("device `{}` cannot be found: the program is taken as device-agnostic. Fix: put "
                    "the file beside the program, give -I FOLDER, or pass --platform.",
                    directive.path().empty() ? directive.name() : directive.path()));
    return std::nullopt;
}

}  // namespace kpu::runtime
