#pragma once

#include <cstdint>

namespace kpu::execution {

/// End of a call that runs a program.
enum class RunStatus : uint8_t {
    finished,       ///< every task is complete
    paused,         ///< where the caller asked it to
    deadlock,       ///< work is left, and nothing can run
    limit_reached,  ///< limit of the whole run
    interrupted
};

}  // namespace kpu::execution
