#pragma once

#include "base/diagnostics.hpp"
#include "platforms/platform.pb.h"

namespace kpu::platforms {

/// Says of each array, as an info, which type it can never be busy with all the time, whatever the program: the
/// operands that stream through it need more bytes a cycle than its ports, or L1, bring. `platform` is a resolved one.
void note_starved_arrays(const proto::Platform& platform, Diagnostics& notes);

}  // namespace kpu::platforms
