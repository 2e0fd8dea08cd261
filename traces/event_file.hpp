#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/text_output.hpp"
#include "traces/events.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// A run as its trace writers see it: what is known of it, and its records in order of time.
struct Recording {
    RunInfo info;
    Events events;
};

/// Event file (.kpuev), version 2. Little-endian, no padding between fields:
///
/// | bytes | field                                                                             |
/// |-------|-----------------------------------------------------------------------------------|
/// | 8     | magic "KPUEVNT\0"                                                                 |
/// | 4     | version: 2                                                                        |
/// | 4     | size of one record: 32                                                            |
/// | 8     | M: bytes of the description                                                       |
/// | 8     | N: number of records                                                              |
/// | M     | description of the run: JSON of RunInfo (run_info.hpp), UTF-8                      |
/// | 32 N  | records, times ascending: u64 time_ps, i64 value, u32 task, u32 op, u16 unit,     |
/// |       | u8 kind, u8 cause, u32 reserved (meanings: event.hpp)                             |
/// | 4     | CRC-32 (zlib) of everything before it                                             |
///
/// A reader refuses other versions. A change of the meaning of a field raises the version. Version 2 added
/// what a task does (work records, RunInfo::works), why it was issued when it was, and peaks of units.
void write_event_file(const RunInfo& info, const Events& events, Output& output);

/// Reads one. Throws UserError naming `origin` and what is wrong: truncated, damaged, other version, or a
/// record that names a unit, cause, action or operation that the description lacks.
Recording parse_event_file(std::string_view bytes, const std::string& origin);
Recording read_event_file(const std::string& path);

}  // namespace kpu::traces
