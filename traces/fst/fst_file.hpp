#pragma once

#include "base/text_output.hpp"
#include "traces/events.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// True if this build has the library that writes FST: fstapi, which the package verilator brings.
bool has_fst();

/// The waveforms of write_vcd() as FST, GTKWave's compressed format. Packs them block by block in a scratch file, then
/// copies that. Throws UserError where there is no room for it. Only where has_fst().
void write_fst(const RunInfo& info, const Events& events, Output& output);

}  // namespace kpu::traces
