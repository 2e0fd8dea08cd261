#include "values/kernel/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "values/compute.hpp"
#include "values/kernel/batch.hpp"
#include "values/kernel/interpreter.hpp"

namespace kpu::values::kernel {
namespace {

/// The smallest n with n^power >= total.
uint64_t root_above(uint64_t total, unsigned power) {
    auto n = static_cast<uint64_t>(std::pow(static_cast<double>(total), 1.0 / power));
    const auto reaches = [&](uint64_t side) {
        uint64_t product = 1;
        for (unsigned i = 0; i < power; ++i) product = side > total / product ? total : product * side;
        return product >= total;
    };
    n = n > 1 ? n - 1 : 1;
    while (!reaches(n)) ++n;
    return n;
}

void check_scalars(const Code& code, const std::vector<uint64_t>& scalars) {
    if (scalars.size() != code.scalars.size())
        throw UserError(
            fmt::format("kernel `{}` takes {} scalars, the launch gives {}. Fix: give it as many in args.",
                        code.name(), code.scalars.size(), scalars.size()));
}

/// Calls run(workgroup, memory) for each workgroup until it gives false.
template <typename Run>
LaunchResult for_each_workgroup(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars,
                                const std::vector<Bytes>& storage, const LaunchLimits& limits,
                                const Run& run) {
    check_scalars(code, scalars);
    check_grid(code, grid);
    Memory memory(code, storage);
    const FloatEnvironment environment;
    size_t next = 0;
    for (const CodeBuffer& buffer : code.buffers) {
        if (buffer.is_workgroup()) continue;
        const Bytes& bytes = storage[next++];
        if (buffer.starts_zero()) std::fill_n(bytes.data, bytes.size, uint8_t{0});
    }
    LaunchResult result;
    uint64_t steps = limits.steps;
    for (uint64_t z = 0; z < grid[2] && result.complete; ++z)
        for (uint64_t y = 0; y < grid[1] && result.complete; ++y)
            for (uint64_t x = 0; x < grid[0] && result.complete; ++x) {
                const bool stopped =
                    limits.interrupt != nullptr && limits.interrupt->load(std::memory_order_relaxed);
                result.complete = !stopped && run({static_cast<uint32_t>(x), static_cast<uint32_t>(y),
                                                   static_cast<uint32_t>(z)},
                                                  memory, steps);
            }
    result.steps = limits.steps - steps;
    result.outside = memory.outside();
    return result;
}

}  // namespace

Grid inferred_grid(const Code& code, const std::vector<uint64_t>& elements) {
    uint64_t outputs = 0, inputs = 0;
    bool has_output = false, shared = code.has_atomics;
    size_t next = 0;
    for (const CodeBuffer& buffer : code.buffers) {
        if (buffer.is_workgroup()) {
            shared = true;
            continue;
        }
        const uint64_t count = elements.at(next++);
        const bool output = buffer.starts_zero() || buffer.access == proto::KernelBuffer::READ_WRITE;
        has_output |= output;
        uint64_t& most = output ? outputs : inputs;
        most = std::max(most, count);
    }
    uint64_t count = std::max<uint64_t>(1, outputs);
    if (!has_output || shared) count = std::max(count, inputs);
    const uint64_t area = uint64_t{code.workgroup[0]} * code.workgroup[1];
    const uint64_t total = (count + area - 1) / area;
    const auto active = static_cast<unsigned>(
        std::count_if(code.workgroup.begin(), code.workgroup.end(), [](uint32_t size) { return size > 1; }));
    if (active == 0) return {total, 1, 1};
    Grid grid{1, 1, 1};
    for (size_t axis = 0; axis < 3; ++axis)
        if (code.workgroup[axis] > 1) grid[axis] = root_above(total, active);
    return grid;
}

void check_grid(const Code& code, const Grid& grid) {
    for (size_t axis = 0; axis < 3; ++axis) {
        if (grid[axis] == 0)
            throw UserError(
                fmt::format("kernel `{}`: the grid has no workgroup along axis {}. Fix: launch at least "
                            "one.",
                            code.name(), axis));
        if (grid[axis] > UINT32_MAX / code.workgroup[axis])
            throw UserError(
                fmt::format("kernel `{}`: workgroup * dispatch dimensions overflow u32 global id. Fix: "
                            "reduce workgroup id or workgroup size so each global_invocation_id component "
                            "fits in u32.",
                            code.name()));
    }
}

LaunchResult run_launch(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars,
                        const std::vector<Bytes>& storage, const LaunchLimits& limits) {
    std::unique_ptr<Batch> batch;
    uint64_t executed = 0;
    return for_each_workgroup(code, grid, scalars, storage, limits,
                              [&](const std::array<uint32_t, 3>& workgroup, Memory& memory, uint64_t& steps) {
                                  if (batch == nullptr) {
                                      batch = std::make_unique<Batch>(code, memory, scalars);
                                      batch->observe(limits.observer);
                                  }
                                  batch->begin(workgroup);
                                  while (!batch->done()) {
                                      if (steps < batch->active()) return false;
                                      if (limits.interrupt != nullptr && (++executed & 0xfff) == 0 &&
                                          limits.interrupt->load(std::memory_order_relaxed))
                                          return false;
                                      steps -= batch->active();
                                      batch->step();
                                  }
                                  return true;
                              });
}

LaunchResult run_reference(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars,
                           const std::vector<Bytes>& storage, const LaunchLimits& limits) {
    return for_each_workgroup(code, grid, scalars, storage, limits,
                              [&](const std::array<uint32_t, 3>& workgroup, Memory& memory, uint64_t& steps) {
                                  return run_workgroup(code, memory, workgroup, scalars, steps);
                              });
}

}  // namespace kpu::values::kernel
