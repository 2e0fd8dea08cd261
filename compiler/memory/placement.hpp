#pragma once
// Places of storages in L2 and DDR.
#include <vector>

#include "compiler/memory/memory.hpp"

namespace kpu::compiler {

/// Gives homes and addresses to the plan's storages, and sets its spare places and the bytes of both arenas: in L2 what
/// saves most traffic with DDR, as far as a short search finds it. `wished`: by storage, the home that is fixed for it;
/// none: it is open. Throws UserError when a fixed home or DDR has no room.
void place(MemoryPlan& plan, const std::vector<Home>& wished, const Room& room);

}  // namespace kpu::compiler
