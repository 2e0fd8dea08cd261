#include "values/kernel/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "values/compute.hpp"
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

void check(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars) {
    check_scalars(code, scalars);
    check_grid(code, grid);
}

void clear_outputs(const Code& code, const std::vector<Bytes>& storage) {
    size_t next = 0;
    for (const CodeBuffer& buffer : code.buffers) {
        if (buffer.is_workgroup()) continue;
        const Bytes& bytes = storage[next++];
        if (buffer.starts_zero()) std::fill_n(bytes.data, bytes.size, uint8_t{0});
    }
}

/// Of the workgroup with a number, x fastest.
std::array<uint32_t, 3> place_of(uint64_t workgroup, const Grid& grid) {
    return {static_cast<uint32_t>(workgroup % grid[0]), static_cast<uint32_t>(workgroup / grid[0] % grid[1]),
            static_cast<uint32_t>(workgroup / grid[0] / grid[1])};
}

bool interrupted(const LaunchLimits& limits) {
    return limits.interrupt != nullptr && limits.interrupt->load(std::memory_order_relaxed);
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
    if (grid[2] > max_workgroups / grid[0] / grid[1])
        throw UserError(fmt::format("kernel `{}`: the grid has more than {} workgroups. Fix: launch fewer.",
                                    code.name(), max_workgroups));
}

Launch::Launch(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars,
               const std::vector<Bytes>& storage)
    : code_(code),
      grid_((check(code, grid, scalars), grid)),
      memory_(code, storage),
      batch_(code, memory_, scalars),
      workgroups_(grid[0] * grid[1] * grid[2]) {
    clear_outputs(code, storage);
    batch_.begin(place_of(0, grid_));
    begin_next();
}

/// The next workgroup that has a statement, once one is through.
void Launch::begin_next() {
    while (batch_.done() && ++workgroup_ < workgroups_) batch_.begin(place_of(workgroup_, grid_));
}

void Launch::step() {
    steps_ += batch_.active();
    batch_.step();
    begin_next();
}

LaunchResult run_launch(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars,
                        const std::vector<Bytes>& storage, const LaunchLimits& limits) {
    const FloatEnvironment environment;
    Launch launch(code, grid, scalars, storage);
    launch.observe(limits.observer);
    LaunchResult result;
    for (uint64_t executed = 0; !launch.done(); ++executed) {
        const bool look = (executed & 0xfff) == 0;
        result.complete =
            launch.steps() + launch.batch().active() <= limits.steps && !(look && interrupted(limits));
        if (!result.complete) break;
        launch.step();
    }
    result.steps = launch.steps();
    result.outside = launch.outside();
    return result;
}

LaunchResult run_reference(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars,
                           const std::vector<Bytes>& storage, const LaunchLimits& limits) {
    check(code, grid, scalars);
    const FloatEnvironment environment;
    Memory memory(code, storage);
    clear_outputs(code, storage);
    LaunchResult result;
    uint64_t steps = limits.steps;
    const uint64_t workgroups = grid[0] * grid[1] * grid[2];
    for (uint64_t number = 0; number < workgroups && result.complete; ++number)
        result.complete =
            !interrupted(limits) && run_workgroup(code, memory, place_of(number, grid), scalars, steps);
    result.steps = limits.steps - steps;
    result.outside = memory.outside();
    return result;
}

}  // namespace kpu::values::kernel
