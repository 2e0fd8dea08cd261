#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/diagnostics.hpp"
#include "isa/iterations.hpp"
#include "isa/kernel/flow.hpp"
#include "values/compute.hpp"
#include "values/kernel/task.hpp"

namespace kpu::values {
namespace {

std::string shape_text(const Dims& shape) {
    return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ","));
}

/// True for a region that is its own dense form in memory. Engines rely on aligned elements.
bool is_dense_in_memory(const RegionView& view) {
    const BoundRegion& region = *view.region;
    const auto bytes = static_cast<uint64_t>(bit_width(region.elem)) / 8;
    return region.dense && bytes > 0 && view.address % bytes == 0;
}

bool same_level(const BoundRegion& a, const BoundRegion& b) {
    return a.level == b.level && a.engine == b.engine;
}

bool touch(const RegionView& a, const RegionView& b) {
    return same_level(*a.region, *b.region) && overlap(footprint_of(a), footprint_of(b));
}

uint8_t* bytes_at(MemoryMap& memory, const RegionView& view, uint64_t count) {
    MemoryLevel& level = memory.level(view.region->level, view.region->engine);
    if (view.address > level.size() || count > level.size() - view.address) {
        throw InternalError(fmt::format("region `{}` at byte {} leaves its memory level of {} bytes",
                                        view.region->name, view.address, level.size()));
    }
    return level.data() + view.address;
}

}  // namespace

bool is_byte_copy(const BoundRegion& source, const BoundRegion& target) {
    if (!source.typed() || !target.typed()) {
        if (source.extent != target.extent) {
            throw UserError(
                fmt::format("transfer from `{}` ({} bytes) to `{}` ({} bytes): a copy of untyped regions "
                            "needs equal extents. "
                            "Fix: make the extents equal, or give both regions an element type and a shape.",
                            source.name, source.extent, target.name, target.extent));
        }
        return true;
    }
    if (source.elem != target.elem || !(source.shape == target.shape)) {
        throw UserError(
            fmt::format("transfer from `{}` ({}{}) to `{}` ({}{}): element types and shapes must be equal. "
                        "Fix: declare both "
                        "regions alike, or use cast or a view operation.",
                        source.name, name_of(source.elem), shape_text(source.shape), target.name,
                        name_of(target.elem), shape_text(target.shape)));
    }
    return false;
}

Executor::Executor(const BoundProgram& program, ComputeBackend& backend)
    : program_(program), backend_(backend), results_(program.tasks.size()) {}

void Executor::evaluate_copy(MemoryMap& memory, const RegionView& source, const RegionView& target,
                             PendingWrite& result) {
    result.view = target;
    result.raw = is_byte_copy(*source.region, *target.region);
    if (result.raw) {
        const uint8_t* from = bytes_at(memory, source, source.region->extent);
        result.bytes.assign(from, from + source.region->extent);
        return;
    }
    result.bytes.resize(dense_bytes(*source.region));
    gather(memory, source, result.bytes.data());
}

Tensor Executor::input_tensor(MemoryMap& memory, const RegionView& view, size_t slot) {
    const BoundRegion& region = *view.region;
    Tensor tensor{region.elem, region.shape, &region.quant, nullptr};
    if (is_dense_in_memory(view)) {
        tensor.data = bytes_at(memory, view, dense_bytes(region));
        return tensor;
    }
    if (scratch_.size() <= slot) scratch_.resize(slot + 1);
    scratch_[slot].resize(dense_bytes(region));
    gather(memory, view, scratch_[slot].data());
    tensor.data = scratch_[slot].data();
    return tensor;
}

void Executor::compute(const BoundTask& task, const std::vector<Tensor>& inputs,
                       std::vector<Tensor>& outputs) {
    Beyond beyond;
    uint64_t made = 0;
    for (Tensor& output : outputs) {
        output.beyond = &beyond;
        made += output.elements();
    }
    try {
        backend_.execute(task.opcode, inputs, outputs, task.attrs);
    } catch (const UserError& error) {
        throw UserError(fmt::format("{}: {}", program_.where(task), error.what()));
    }
    const BoundTask* first = program_.tasks.data();
    const bool known = !std::less<>()(&task, first) && std::less<>()(&task, first + program_.tasks.size());
    if (!known) return;  // a task of nobody's program
    Results& results = results_[static_cast<size_t>(&task - first)];
    results.made += made;
    results.beyond.add(beyond);
}

void Executor::evaluate(MemoryMap& memory, const BoundTask& task, const std::vector<RegionView>& inputs,
                        const std::vector<RegionView>& outputs, std::vector<PendingWrite>& result,
                        const LoopValues& loops) {
    if (task.launches()) return run_kernel(memory, task, inputs, outputs, loops, result);
    result.resize(outputs.size());
    if (task.moves()) {
        return evaluate_copy(memory, inputs.at(0), outputs.at(0), result.at(0));
    }
    std::vector<Tensor> in;
    std::vector<Tensor> out;
    for (size_t i = 0; i < inputs.size(); ++i) in.push_back(input_tensor(memory, inputs[i], i));
    for (size_t i = 0; i < outputs.size(); ++i) {
        const BoundRegion& region = *outputs[i].region;
        result[i].view = outputs[i];
        result[i].raw = false;
        result[i].bytes.resize(dense_bytes(region));
        out.push_back({region.elem, region.shape, &region.quant, result[i].bytes.data()});
    }
    compute(task, in, out);
}

void Executor::run_kernel(MemoryMap& memory, const BoundTask& task, const std::vector<RegionView>& inputs,
                          const std::vector<RegionView>& outputs, const LoopValues& loops,
                          std::vector<PendingWrite>& result) {
    kernel::LaunchLimits limits;
    limits.steps = kernel_steps_;
    limits.interrupt = interrupt_;
    limits.races = kernel_races_;
    const auto done = std::make_shared<kernel::LaunchResult>();
    const auto in_task = [&](const std::exception& error) {
        return fmt::format("{}: {}", program_.where(task), error.what());
    };
    try {
        *done = kernel::evaluate_launch(memory, task, inputs, outputs, loops, limits, result);
    } catch (const UserError& error) {
        throw UserError(in_task(error));
    } catch (const kernel::StepLimitError& error) {
        throw kernel::StepLimitError(in_task(error));
    } catch (const SimulationError& error) {
        throw SimulationError(in_task(error));
    }
    note_launch(task, *done);
    launch_ = done;
}

void Executor::note_launch(const BoundTask& task, const kernel::LaunchResult& result) {
    const kernel::Code& code = *task.launch->code;
    for (const kernel::OutsideAccess& access : result.outside) {
        Outside& known = outside_[{task.name, access.statement, access.buffer, access.what}];
        if (known.count == 0)
            known.text =
                fmt::format("task `{}`{}, {}: {} outside buffer `{}`, first at {} {}", task.name,
                            place_text(program_, task), code.where(access.statement), access.what,
                            code.buffers[access.buffer].name,
                            access.what == std::string_view("copy") ? "byte" : "index", access.first_index);
        known.count += access.count;
    }
    for (const uint32_t buffer : result.unwatched)
        outside_.try_emplace(
            {task.name, 0, buffer, "unwatched"},
            Outside{
                fmt::format("task `{}`{}: buffer `{}` of kernel `{}` is too large to look for "
                            "races in it. Fix: launch it on a smaller part.",
                            task.name, place_text(program_, task), code.buffers[buffer].name, code.name()),
                0});
    const auto ordered = result.workers > 1 ? kpu::kernel::first_order_dependence(code) : std::nullopt;
    if (ordered)
        outside_.try_emplace(
            {task.name, *ordered, 0, "order"},
            Outside{
                fmt::format("task `{}`{}, {}: the outcome of the atomic depends on the order of workgroups, "
                            "which ran on {} units. Fix: use results that do not depend on it, or one unit.",
                            task.name, place_text(program_, task), code.where(*ordered), result.workers),
                0});
}

Diagnostics Executor::findings() const {
    Diagnostics found;
    for (const auto& [place, outside] : outside_)
        found.warning({}, outside.count == 0 ? outside.text
                                             : fmt::format("{}; {} times. Fix: guard the access with len().",
                                                           outside.text, outside.count));
    return found;
}

void Executor::commit(MemoryMap& memory, std::vector<PendingWrite>& writes) {
    for (PendingWrite& write : writes) {
        const BoundRegion& region = *write.view.region;
        if (write.raw || (region.dense && !shares_bytes(region.elem))) {
            memory.level(region.level, region.engine)
                .write(write.view.address, write.bytes.data(), write.bytes.size());
        } else {
            scatter(memory, write.view, write.bytes.data());
        }
    }
}

bool Executor::copy_directly(MemoryMap& memory, const RegionView& source, const RegionView& target) {
    const BoundRegion& from = *source.region;
    const BoundRegion& to = *target.region;
    const bool raw = is_byte_copy(from, to);
    const bool plain = !shares_bytes(from.elem) || from.shape.product() % 2 == 0;
    if (!raw && !(from.dense && to.dense && plain)) {
        // a dense target is filled in place, a dense source is read in place
        if (shares_bytes(from.elem) || touch(source, target)) return false;
        if (to.dense) {
            uint8_t* bytes = bytes_at(memory, target, dense_bytes(to));
            gather(memory, source, bytes);
            memory.level(to.level, to.engine).mark_written(target.address, dense_bytes(to));
            return true;
        }
        if (!from.dense) return false;
        scatter(memory, target, bytes_at(memory, source, dense_bytes(from)));
        return true;
    }
    const uint64_t count =
        raw ? from.extent : packed_bytes(from.elem, static_cast<uint64_t>(from.shape.product()));
    memory.level(to.level, to.engine).write(target.address, bytes_at(memory, source, count), count);
    return true;
}

void Executor::execute(MemoryMap& memory, const BoundTask& task, const std::vector<RegionView>& inputs,
                       const std::vector<RegionView>& outputs, const LoopValues& loops) {
    if (task.moves() && copy_directly(memory, inputs.at(0), outputs.at(0))) return;
    const auto collides = [&](size_t i) {
        const RegionView& view = outputs[i];
        for (size_t j = 0; j < outputs.size(); ++j) {
            if (j != i && touch(view, outputs[j])) return true;
        }
        return std::any_of(inputs.begin(), inputs.end(),
                           [&](const RegionView& in) { return touch(view, in); });
    };
    bool direct = task.computes();
    for (size_t i = 0; direct && i < outputs.size(); ++i)
        direct = is_dense_in_memory(outputs[i]) && !collides(i);
    if (!direct) {
        std::vector<PendingWrite> writes;
        evaluate(memory, task, inputs, outputs, writes, loops);
        return commit(memory, writes);
    }
    std::vector<Tensor> in;
    std::vector<Tensor> out;
    for (size_t i = 0; i < inputs.size(); ++i) in.push_back(input_tensor(memory, inputs[i], i));
    for (const RegionView& view : outputs) {
        const BoundRegion& region = *view.region;
        out.push_back(
            {region.elem, region.shape, &region.quant, bytes_at(memory, view, dense_bytes(region))});
    }
    compute(task, in, out);
    for (const RegionView& view : outputs) {
        memory.level(view.region->level, view.region->engine)
            .mark_written(view.address, dense_bytes(*view.region));
    }
}

}  // namespace kpu::values
