// Front end: tile schedules of all four forms.
#include "compiler/front_end.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/read_file.hpp"
#include "compiler/tile_schedule/forms.hpp"
#include "compiler/tile_schedule/load.hpp"
#include "compiler/tile_schedule/lower.hpp"

namespace kpu::tile_schedule {

Schedule load_schedule(const compiler::Source& source, const std::string& header) {
    auto schedule = read_schedule(source.bytes(), source.origin());
    if (!header.empty()) set_header(schedule, read_header(read_file(header), header));
    return schedule;
}

namespace {

constexpr uint64_t largest_arena = uint64_t{1} << 32;  ///< limit of any device: addresses have 32 bits

/// Returns the bytes of the level that the arena is in.
uint64_t available_bytes(const Schedule& schedule, const platforms::Platform* platform) {
    if (platform == nullptr) return largest_arena;
    return schedule.header.format.arena == Level::l2
               ? platform->l2().size_bytes()
               : platforms::engines_of(*platform).front().get().l1().size_bytes();
}

bool recognise(std::string_view head, std::string_view /*file_name*/) { return form_of(head).has_value(); }

compiler::Loaded load(const compiler::Source& source, const compiler::LoadRequest& request,
                      Diagnostics& notes) {
    const Schedule schedule = load_schedule(source, request.options.text("header"));
    if (!schedule.has_header)
        throw UserError(
            fmt::format("{}: the schedule has no header, so its tensors are not known. Fix: give "
                        "--header FILE with `tile 32 f32` and a line `tensor ID NAME ROWS COLS ROLE` for "
                        "each tensor.",
                        schedule.origin));
    AnalysisOptions options;
    options.arena_bytes = available_bytes(schedule, request.platform);
    if (const uint64_t own = schedule.header.format.arena_bytes; own != 0)
        options.arena_bytes = std::min(options.arena_bytes, own);
    const auto analysis = analyse(schedule, options);
    require_legal(analysis, schedule);
    report(analysis, schedule, notes);
    return {std::make_shared<Module>(lower(schedule, analysis, source.stem())), {}};
}

}  // namespace
}  // namespace kpu::tile_schedule

namespace kpu::compiler {

extern const FrontEnd tile_schedule_front_end;
const FrontEnd tile_schedule_front_end{
    "tile schedule",
    "LOAD, EXECUTE and STORE of tiles as text, packed bytes, protobuf or JSON (docs/tile_schedules.md)",
    {{"header", "header of a tile schedule that has none: tile size, tensors", ValueKind::file}},
    true,
    tile_schedule::default_platform,
    true,
    tile_schedule::recognise,
    tile_schedule::load};

}  // namespace kpu::compiler
