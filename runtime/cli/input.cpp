// What a verb's program argument may be.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "compiler/scale_sim/topology.hpp"
#include "isa/text.hpp"
#include "runtime/cli/command.hpp"
#include "runtime/program_loader.hpp"

namespace kpu::cli {
namespace {

constexpr const char* l1_size = "engine.l1.size_bytes";

Input load_topology(const std::string& path, const DeviceOptions& device, Diagnostics& diagnostics) {
    Diagnostics found;
    const auto layers = compiler::parse_topology(runtime::read_file(path), path, found);
    if (found.has_errors()) throw UserError(found);
    for (const Diagnostic& note : found.all()) diagnostics.add(note);
    Input input;
    input.topology = true;
    input.module = std::make_shared<Module>(
        compiler::topology_program(layers, std::filesystem::path(path).stem().string()));
    if (device.platform.empty()) return input;
    platforms::Overrides overrides = device.overrides();
    input.platform = platforms::load(device.platform, overrides, device.search_paths, &diagnostics);
    const uint64_t needed = compiler::topology_l1_bytes(layers);
    const bool chosen = std::any_of(overrides.begin(), overrides.end(),
                                    [](const auto& change) { return change.first == l1_size; });
    uint64_t smallest = needed;
    for (const auto& engine : input.platform->engine())
        smallest = std::min(smallest, engine.l1().size_bytes());
    if (chosen || smallest >= needed) return input;
    // a topology says nothing about tiling: its layers stand in L1 whole
    overrides.emplace_back(l1_size, fmt::format("{}", needed));
    input.platform = platforms::load(device.platform, overrides, device.search_paths);
    diagnostics.info(
        {path, 0, 0},
        fmt::format("the largest layer needs {} bytes of SRAM, {} has {}: {} is set to {}, which the energy "
                    "of L1 includes.",
                    needed, input.platform->name(), smallest, l1_size, needed));
    return input;
}

}  // namespace

Input load_input(const std::string& path, const DeviceOptions& device, Diagnostics& diagnostics,
                 bool devices) {
    if (ends_with(path, ".csv")) return load_topology(path, device, diagnostics);
    Input input;
    input.module = devices ? runtime::load_program_or_devices(path, device.search_paths, diagnostics)
                           : runtime::load_program(path, device.search_paths, diagnostics);
    if (input.module == nullptr) return input;
    input.platform = runtime::resolve_platform(*input.module, device.platform, device.overrides(),
                                               device.search_paths, diagnostics);
    return input;
}

}  // namespace kpu::cli
