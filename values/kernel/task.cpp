#include "values/kernel/task.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kpu::values::kernel {
namespace {

uint64_t bytes_of(const BoundRegion& region) { return region.typed() ? dense_bytes(region) : region.extent; }

std::vector<uint8_t> bytes_now(const MemoryMap& memory, const RegionView& view) {
    std::vector<uint8_t> bytes(bytes_of(*view.region));
    if (memory.level(view.region->level, view.region->engine).size() == 0)
        return bytes;  // time without values: zeros
    if (view.region->typed()) {
        gather(memory, view, bytes.data());
    } else {
        const uint8_t* from = memory.level(view.region->level, view.region->engine).data() + view.address;
        std::copy_n(from, bytes.size(), bytes.data());
    }
    return bytes;
}

/// The bits of a scalar of the launch.
uint64_t scalar_bits(const Code& code, uint32_t variable, int64_t value) {
    const kpu::kernel::Variable& scalar = code.variables[variable];
    const bool fits = scalar.type == Type::u64   ? value >= 0
                      : scalar.type == Type::i32 ? value >= INT32_MIN && value <= INT32_MAX
                      : scalar.type == Type::u32 ? value >= 0 && value <= int64_t{UINT32_MAX}
                                                 : value == 0 || value == 1;
    if (!fits)
        throw UserError(
            fmt::format("kernel `{}`: scalar `{}` is {}, which is no {}. Fix: give a value of that type.",
                        code.name(), scalar.name, value, name_of(scalar.type)));
    return scalar.type == Type::i32 ? static_cast<uint32_t>(value) : static_cast<uint64_t>(value);
}

}  // namespace

std::vector<Bytes> LaunchData::storage() {
    std::vector<Bytes> list;
    for (std::vector<uint8_t>& buffer : buffers) list.push_back({buffer.data(), buffer.size()});
    return list;
}

LaunchData launch_data(const MemoryMap& memory, const BoundTask& task, const std::vector<RegionView>& inputs,
                       const std::vector<RegionView>& outputs, const LoopValues& loops) {
    const BoundLaunch& launch = *task.launch;
    const Code& code = *launch.code;
    LaunchData data;
    std::vector<uint64_t> elements;
    size_t next = 0;
    for (const CodeBuffer& buffer : code.buffers) {
        if (buffer.is_workgroup()) continue;
        const BoundLaunch::Operand& operand = launch.operands[next++];
        if (operand.input >= 0)
            data.buffers.push_back(bytes_now(memory, inputs[static_cast<size_t>(operand.input)]));
        else
            data.buffers.emplace_back(bytes_of(*outputs[static_cast<size_t>(operand.output)].region));
        elements.push_back(buffer.elements_in(data.buffers.back().size()));
    }
    for (size_t i = 0; i < launch.scalars.size(); ++i)
        data.scalars.push_back(scalar_bits(code, code.scalars[i], launch.scalars[i].eval(loops)));
    if (launch.grid.empty()) data.grid = inferred_grid(code, elements);
    for (size_t axis = 0; axis < launch.grid.size(); ++axis)
        data.grid[axis] = static_cast<uint64_t>(std::max<int64_t>(launch.grid[axis].eval(loops), 0));
    return data;
}

void fail_limit(const Code& code, uint64_t steps) {
    throw SimulationError(
        fmt::format("kernel `{}` did not end within its limit: {} statements of invocations were "
                    "executed. Fix: end its loops, or raise the limit.",
                    code.name(), steps));
}

LaunchResult evaluate_launch(const MemoryMap& memory, const BoundTask& task,
                             const std::vector<RegionView>& inputs, const std::vector<RegionView>& outputs,
                             const LoopValues& loops, const LaunchLimits& limits,
                             std::vector<PendingWrite>& writes) {
    const BoundLaunch& launch = *task.launch;
    const Code& code = *launch.code;
    LaunchData data = launch_data(memory, task, inputs, outputs, loops);
    LaunchResult result = run_launch(code, data.grid, data.scalars, data.storage(), limits);
    if (!result.complete) fail_limit(code, result.steps);
    writes.resize(outputs.size());
    size_t next = 0;
    for (const CodeBuffer& buffer : code.buffers) {
        if (buffer.is_workgroup()) continue;
        const size_t place = next++;
        if (launch.operands[place].output < 0) continue;
        const auto output = static_cast<size_t>(launch.operands[place].output);
        PendingWrite& write = writes[output];
        write.view = outputs[output];
        write.raw = !write.view.region->typed();
        std::vector<uint8_t>& bytes = data.buffers[place];
        if (buffer.range_end != 0 && buffer.range_end <= bytes.size()) {  // what lies outside the range stays
            std::vector<uint8_t> kept = bytes_now(memory, write.view);
            std::copy(bytes.begin() + static_cast<ptrdiff_t>(buffer.range_begin),
                      bytes.begin() + static_cast<ptrdiff_t>(buffer.range_end),
                      kept.begin() + static_cast<ptrdiff_t>(buffer.range_begin));
            bytes = std::move(kept);
        }
        write.bytes = std::move(bytes);
    }
    return result;
}

}  // namespace kpu::values::kernel
