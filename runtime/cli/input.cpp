// What a verb's program argument may be.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/read_file.hpp"
#include "base/text.hpp"
#include "compiler/scale_sim/topology.hpp"
#include "compiler/tile_schedule/forms.hpp"
#include "compiler/tile_schedule/lower.hpp"
#include "runtime/cli/command.hpp"
#include "runtime/program_loader.hpp"

namespace kpu::cli {
namespace {

constexpr const char* l1_size = "engine.l1.size_bytes";

Input load_topology(const std::string& path, const DeviceOptions& device, Diagnostics& diagnostics) {
    Diagnostics found;
    const auto layers = compiler::parse_topology(read_file(path), path, found);
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

constexpr size_t look_bytes = 65536;  ///< of a file tell what it is

/// The bytes of a program argument, where its kind had to be found out by reading; else its path is left.
struct Contents {
    std::string bytes;
    bool read = false, schedule = false;
};

/// Standard input can be read once only, a container is better mapped than read.
Contents look_at(const std::string& path) {
    Contents contents;
    contents.read = path == "-";
    contents.bytes = read_file(path, contents.read ? SIZE_MAX : look_bytes);
    contents.schedule = tile_schedule::form_of(contents.bytes).has_value();
    if (contents.schedule && contents.bytes.size() == look_bytes) contents.bytes = read_file(path);
    return contents;
}

std::string origin_of(const std::string& path) { return path == "-" ? "<stdin>" : path; }

tile_schedule::Schedule parse_schedule(const std::string& bytes, const std::string& path,
                                       const std::string& header) {
    auto schedule = tile_schedule::read_schedule(bytes, origin_of(path));
    if (!header.empty())
        tile_schedule::set_header(schedule, tile_schedule::read_header(read_file(header), header));
    return schedule;
}

/// `available`: bytes of the level that the arena is in.
std::shared_ptr<const Module> lower_schedule(const tile_schedule::Schedule& schedule, uint64_t available,
                                             Diagnostics& diagnostics) {
    if (!schedule.has_header)
        throw UserError(
            fmt::format("{}: the schedule has no header, so its tensors are not known. Fix: give "
                        "--header FILE with `tile 32 f32` and a line `tensor ID NAME ROWS COLS ROLE` for "
                        "each tensor.",
                        schedule.origin));
    tile_schedule::AnalysisOptions options;
    options.arena_bytes = available;
    if (const uint64_t own = schedule.header.format.arena_bytes; own != 0)
        options.arena_bytes = std::min(options.arena_bytes, own);
    const auto analysis = tile_schedule::analyse(schedule, options);
    tile_schedule::require_legal(analysis, schedule);
    tile_schedule::report(analysis, schedule, diagnostics);
    return std::make_shared<Module>(
        tile_schedule::lower(schedule, analysis, std::filesystem::path(schedule.origin).stem().string()));
}

Input lower_for_device(const tile_schedule::Schedule& schedule, const DeviceOptions& device,
                       Diagnostics& diagnostics) {
    Input input;
    input.platform =
        platforms::load(device.platform.empty() ? tile_schedule::default_platform : device.platform,
                        device.overrides(), device.search_paths, &diagnostics);
    const uint64_t available = schedule.header.format.arena == Level::l2
                                   ? input.platform->l2().size_bytes()
                                   : platforms::engines_of(*input.platform).front().l1().size_bytes();
    input.module = lower_schedule(schedule, available, diagnostics);
    return input;
}

[[noreturn]] void refuse_header(const std::string& path) {
    throw UserError(
        fmt::format("{} is no tile schedule, --header is for those. Fix: leave it out.", origin_of(path)));
}

}  // namespace

std::optional<tile_schedule::Schedule> load_schedule(const std::string& path, const std::string& header) {
    const Contents contents = look_at(path);
    if (!contents.schedule) return std::nullopt;
    return parse_schedule(contents.bytes, path, header);
}

std::shared_ptr<const Module> load_module(const std::string& path, const std::string& header,
                                          const std::vector<std::string>& search_paths,
                                          Diagnostics& diagnostics) {
    const Contents contents = look_at(path);
    if (contents.schedule) {
        const auto schedule = parse_schedule(contents.bytes, path, header);
        return lower_schedule(schedule, uint64_t{1} << 32, diagnostics);
    }
    if (!header.empty()) refuse_header(path);
    return contents.read ? runtime::parse_program(contents.bytes, origin_of(path), search_paths, diagnostics)
                         : runtime::load_program(path, search_paths, diagnostics);
}

Input load_input(const std::string& path, const DeviceOptions& device, Diagnostics& diagnostics,
                 bool devices) {
    if (ends_with(path, ".csv")) return load_topology(path, device, diagnostics);
    const Contents contents = look_at(path);
    if (contents.schedule)
        return lower_for_device(parse_schedule(contents.bytes, path, device.header), device, diagnostics);
    if (!device.header.empty()) refuse_header(path);
    Input input;
    input.module = contents.read ? runtime::parse_program_or_devices(contents.bytes, origin_of(path),
                                                                     device.search_paths, diagnostics)
                                 : runtime::load_program_or_devices(path, device.search_paths, diagnostics);
    if (input.module == nullptr && !devices) runtime::refuse_devices(path);
    if (input.module == nullptr) return input;
    input.platform = runtime::resolve_platform(*input.module, device.platform, device.overrides(),
                                               device.search_paths, diagnostics);
    return input;
}

}  // namespace kpu::cli
