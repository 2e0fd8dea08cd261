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

/// Returns the bits of a scalar of the launch.
uint64_t scalar_bits(const Code& code, uint32_t variable, int64_t value) {
    const kpu::kernel::Variable& scalar = code.variables[variable];
    const bool fits = scalar.type == Type::u64   ? value >= 0
                      : scalar.type == Type::i32 ? value >= INT32_MIN && value <= INT32_MAX
                      : scalar.type == Type::u32 ? value >= 0 && value <= int64_t{UINT32_MAX}
                                                 : value == 0 || value == 1;
    if (!fits)
        throw UserError(fmt::format(
            "kernel `{}`: scalar `{}` is {}, which is not a valid {}. Fix: give a value of that type.",
            code.name(), scalar.name, value, name_of(scalar.type)));
    return scalar.type == Type::i32 ? static_cast<uint32_t>(value) : static_cast<uint64_t>(value);
}

}  // namespace

LaunchOperands::LaunchOperands(MemoryMap& memory, const BoundTask& task,
                               const std::vector<RegionView>& inputs, const std::vector<RegionView>& outputs,
                               const LoopValues& loops, Access access)
    : memory_(memory), task_(task), inputs_(inputs), outputs_(outputs) {
    const BoundLaunch& launch = *task.launch;
    const Code& code = *launch.code;
    std::vector<uint64_t> elements;
    copies_.resize(launch.operands.size());
    size_t next = 0;
    for (const CodeBuffer& buffer : code.buffers) {
        if (buffer.is_workgroup()) continue;
        take_operand(next++, buffer, access);
        elements.push_back(buffer.elements_in(storage_.back().size));
    }
    for (size_t i = 0; i < launch.scalars.size(); ++i)
        scalars_.push_back(scalar_bits(code, code.scalars[i], launch.scalars[i].eval(loops)));
    if (launch.grid.empty()) grid_ = inferred_grid(code, elements);
    for (size_t axis = 0; axis < launch.grid.size(); ++axis)
        grid_[axis] = static_cast<uint64_t>(std::max<int64_t>(launch.grid[axis].eval(loops), 0));
}

void LaunchOperands::take_operand(size_t place, const CodeBuffer& buffer, Access access) {
    const BoundLaunch::Operand& operand = task_.launch->operands[place];
    const bool read = operand.input >= 0;
    const RegionView& view =
        read ? inputs_[static_cast<size_t>(operand.input)] : outputs_[static_cast<size_t>(operand.output)];
    const BoundRegion& region = *view.region;
    MemoryLevel& level = memory_.level(region.level, region.engine);
    const uint64_t bytes = bytes_of(region);
    has_values_ = has_values_ && level.size() > 0;
    if (access == Access::in_place && level.size() > 0 && (region.dense || !region.typed()) &&
        buffer.range_end == 0) {
        storage_.push_back({level.data() + view.address, bytes});
        return;
    }
    std::vector<uint8_t>& copy = copies_[place];
    copy = read ? bytes_now(memory_, view) : std::vector<uint8_t>(bytes);
    storage_.push_back({copy.data(), copy.size()});
}

/// Keeps what lies outside the range as it is.
void LaunchOperands::keep_outside_range(const CodeBuffer& buffer, std::vector<uint8_t>& bytes,
                                        const RegionView& view) const {
    if (buffer.range_end == 0 || buffer.range_end > bytes.size()) return;
    std::vector<uint8_t> kept = bytes_now(memory_, view);
    std::copy(bytes.begin() + static_cast<ptrdiff_t>(buffer.range_begin),
              bytes.begin() + static_cast<ptrdiff_t>(buffer.range_end),
              kept.begin() + static_cast<ptrdiff_t>(buffer.range_begin));
    bytes = std::move(kept);
}

std::vector<PendingWrite> LaunchOperands::take_results() {
    std::vector<PendingWrite> writes;
    size_t next = 0;
    for (const CodeBuffer& buffer : task_.launch->code->buffers) {
        if (buffer.is_workgroup()) continue;
        const size_t place = next++;
        const int32_t output = task_.launch->operands[place].output;
        if (output < 0 || copies_[place].empty()) continue;
        PendingWrite write;
        write.view = outputs_[static_cast<size_t>(output)];
        if (memory_.level(write.view.region->level, write.view.region->engine).size() == 0) continue;
        write.raw = !write.view.region->typed();
        write.bytes = std::move(copies_[place]);
        keep_outside_range(buffer, write.bytes, write.view);
        writes.push_back(std::move(write));
    }
    return writes;
}

uint64_t workgroups_of(const BoundProgram& program, const BoundTask& task, const LoopValues& loops) {
    const BoundLaunch& launch = *task.launch;
    Grid grid{1, 1, 1};
    for (size_t axis = 0; axis < launch.grid.size(); ++axis)
        grid[axis] = static_cast<uint64_t>(std::max<int64_t>(launch.grid[axis].eval(loops), 0));
    if (launch.grid.empty()) {
        std::vector<uint64_t> elements;
        size_t next = 0;
        for (const CodeBuffer& buffer : launch.code->buffers) {
            if (buffer.is_workgroup()) continue;
            const BoundLaunch::Operand& operand = launch.operands[next++];
            const uint32_t region = operand.input >= 0 ? task.inputs[static_cast<size_t>(operand.input)]
                                                       : task.outputs[static_cast<size_t>(operand.output)];
            elements.push_back(buffer.elements_in(bytes_of(program.regions[region])));
        }
        grid = inferred_grid(*launch.code, elements);
    }
    uint64_t count = 1;
    for (const uint64_t size : grid)
        count = std::min<uint64_t>(UINT32_MAX, count * std::min<uint64_t>(size, UINT32_MAX));
    return count;
}

LaunchResult evaluate_launch(MemoryMap& memory, const BoundTask& task, const std::vector<RegionView>& inputs,
                             const std::vector<RegionView>& outputs, const LoopValues& loops,
                             const LaunchLimits& limits, std::vector<PendingWrite>& writes) {
    const Code& code = *task.launch->code;
    LaunchOperands operands(memory, task, inputs, outputs, loops, LaunchOperands::Access::copies);
    LaunchResult result = run_launch(code, operands.grid(), operands.scalars(), operands.storage(), limits);
    if (!result.complete && limits.interrupted()) throw LaunchInterrupted();
    if (!result.complete)
        throw StepLimitError(
            fmt::format("kernel `{}` did not end within its limit: {} statements of invocations were "
                        "executed. Fix: end its loops, or raise the limit.",
                        code.name(), result.steps));
    writes = operands.take_results();
    return result;
}

}  // namespace kpu::values::kernel
