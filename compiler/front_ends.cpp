#include "compiler/front_ends.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "compiler/device_directive.hpp"
#include "isa/kernel/text.hpp"

namespace kpu::compiler {
namespace {

[[noreturn]] void refuse(const std::string& origin, const std::string& message) {
    Diagnostics diagnostics;
    diagnostics.error({origin, 0, 0}, message);
    throw UserError(std::move(diagnostics));
}

/// Returns "NEM text, .kpu program, ..."
std::string names_of(const std::vector<const FrontEnd*>& list) {
    std::vector<std::string_view> names;
    for (const FrontEnd* front_end : list) names.push_back(front_end->name);
    return fmt::format("{}", fmt::join(names, ", "));
}

bool has_option(const FrontEnd& front_end, std::string_view name) {
    return std::any_of(front_end.options.begin(), front_end.options.end(),
                       [&](const OptionRow& row) { return row.name == name; });
}

/// Refuses options that only other front ends have by saying whose they are.
void check_options(const FrontEnd& front_end, const GivenOptions& options, const std::string& origin) {
    for (const auto& option : options) {
        if (has_option(front_end, option.first)) continue;
        std::vector<const FrontEnd*> owners;
        for (const FrontEnd* other : front_ends()) {
            if (has_option(*other, option.first)) owners.push_back(other);
        }
        if (owners.empty())
            throw UserError(
                fmt::format("--{} is an option of no front end. Fix: leave it out.", option.first));
        refuse(origin, fmt::format("--{} is for: {}; this is: {}. Fix: leave it out.", option.first,
                                   names_of(owners), front_end.name));
    }
}

}  // namespace

std::vector<OptionRow> front_end_options() {
    std::vector<OptionRow> rows;
    for (const FrontEnd* front_end : front_ends()) {
        for (const OptionRow& row : front_end->options) {
            const bool known = std::any_of(rows.begin(), rows.end(),
                                           [&](const OptionRow& other) { return other.name == row.name; });
            if (!known) rows.push_back(row);
        }
    }
    return rows;
}

const FrontEnd& recognise(const Source& source) {
    std::error_code ignored;
    const std::string compared = names_of(front_ends());
    if (source.head().empty()) {
        const bool folder = std::filesystem::is_directory(source.origin(), ignored);
        refuse(source.origin(), fmt::format("this is {}, so none of: {}. Fix: give a file with a program.",
                                            folder ? "a folder" : "empty", compared));
    }
    for (const FrontEnd* front_end : front_ends()) {
        if (front_end->recognise(source.head(), source.origin())) return *front_end;
    }
    refuse(source.origin(),
           fmt::format("this is none of: {}. Fix: give one of these; `kpusim list frontends` says more.",
                       compared));
}

Loaded load(const FrontEnd& front_end, const Source& source, const GivenOptions& options, LoadRequest request,
            Diagnostics& notes) {
    check_options(front_end, options, source.origin());
    request.options = OptionValues(front_end.options, options);
    return front_end.load(source, request, notes);
}

platforms::Overrides with_changes(platforms::Overrides overrides, const std::vector<PlatformChange>& changes,
                                  const std::string& origin, Diagnostics& notes) {
    for (const PlatformChange& change : changes) {
        const bool chosen = std::any_of(overrides.begin(), overrides.end(),
                                        [&](const auto& item) { return item.first == change.path; });
        if (chosen) continue;
        overrides.emplace_back(change.path, change.value);
        notes.info({origin, 0, 0}, change.why);
    }
    return overrides;
}

Input load_for_device(const Source& source, const GivenOptions& options, const DeviceChoice& device,
                      Diagnostics& notes, std::vector<NodeSupport>* nodes) {
    Input input;
    input.front_end = &recognise(source);
    const FrontEnd& front_end = *input.front_end;
    const auto& [chosen, overrides, search_paths, simulate, values] = device;
    const std::string platform =
        chosen.empty() && front_end.for_device ? std::string(front_end.default_platform) : chosen;
    if (front_end.for_device && !platform.empty())
        input.platform = platforms::load(platform, overrides, search_paths, &notes);
    LoadRequest request;
    request.search_paths = search_paths;
    request.platform = input.platform ? &*input.platform : nullptr;
    request.nodes = nodes;
    request.simulate = simulate;
    request.values = values;
    Loaded loaded = load(front_end, source, options, std::move(request), notes);
    input.module = std::move(loaded.module);
    input.no_values = std::move(loaded.no_values);
    if (input.module == nullptr) return input;
    if (!input.platform) {
        input.platform = resolve_platform(*input.module, platform, overrides, search_paths, notes);
    } else if (const auto changed = with_changes(overrides, loaded.changes, source.origin(), notes);
               changed.size() > overrides.size()) {
        input.platform = platforms::load(platform, changed, search_paths);
    }
    return input;
}

std::shared_ptr<const Module> load_program(const Source& source, const GivenOptions& options,
                                           const std::vector<std::string>& search_paths, Diagnostics& notes) {
    LoadRequest request;
    request.search_paths = search_paths;
    auto module = load(recognise(source), source, options, std::move(request), notes).module;
    if (module == nullptr) refuse_no_program(source);
    return module;
}

std::shared_ptr<const Module> load_program(const std::string& path,
                                           const std::vector<std::string>& search_paths, Diagnostics& notes) {
    return load_program(Source::of_file(path), {}, search_paths, notes);
}

void refuse_no_program(const Source& source) {
    throw UserError(
        source.origin() + ": " +
        (kernel::is_kernel_text(source.bytes())
             ? "this file holds kernels, not a program. Fix: name it in a program's "
               "`#! kernels` line and that program here, or call them from Python, kpusim.kernel(FILE)."
             : "this file declares devices, not a program. Fix: pass it with --platform, "
               "and name a program here."));
}

}  // namespace kpu::compiler
