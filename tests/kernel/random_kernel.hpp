#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "values/kernel/launch.hpp"

namespace kpu::kernel_test {

/// A kernel that means something, with data to run it on: racy as often as not, with divergence, loops, exchanges,
/// atomics, copies and accesses outside of buffers.
struct RandomKernel {
    std::string text;
    std::vector<std::vector<uint8_t>> buffers;
    values::kernel::Grid grid{1, 1, 1};
    std::vector<uint64_t> scalars;
};
RandomKernel random_kernel(uint64_t seed);
/// One whose invocations touch nothing but elements of their own: free of races.
RandomKernel tame_kernel(uint64_t seed);

}  // namespace kpu::kernel_test
