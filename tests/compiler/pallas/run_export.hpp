#pragma once
// Exported calls run without a device: arrays as bytes, each kernel by the interpreter.
#include <iostream>

#include "compiler/pallas/export.hpp"
#include "compiler/pallas/pipeline.hpp"
#include "isa/kernel/code.hpp"
#include "values/kernel/launch.hpp"

namespace kpu::compiler::pallas {

using Blob = std::vector<uint8_t>;

inline void run_kernel(const LoweredCall& lowered, std::vector<Blob>& arrays, bool print) {
    if (print) std::cout << lowered.text;
    Diagnostics found;
    const auto kernels = kernel::parse(lowered.text, "kernel", found);
    if (found.has_errors()) throw UserError(found);
    kernel::check_form(*kernels[0].body, "kernel");
    const auto code = kernel::analyse(kernels[0], found);
    if (code == nullptr) throw UserError(found);
    std::vector<values::kernel::Bytes> storage;
    for (const KernelOperand& operand : lowered.operands)
        storage.push_back({arrays[operand.array].data(), arrays[operand.array].size()});
    values::kernel::LaunchLimits limits;
    limits.steps = 1 << 24;
    limits.races = true;
    const auto result = values::kernel::run_launch(*code, {1, 1, 1}, {}, storage, limits);
    if (!result.complete) throw UserError("the kernel did not end");
    for (const auto& race : result.races)
        throw UserError(values::kernel::race_text(*code, result.grid, race).sentence);
}

/// Runs on `inputs` in order; gives the outputs. Throws UserError, SimulationError.
inline std::vector<Blob> run_export(const Export& source, const std::vector<Blob>& inputs,
                                    bool print = false) {
    std::vector<Blob> arrays, outputs;
    size_t next = 0;
    for (const Array& array : source.arrays) {
        arrays.emplace_back(array.data.begin(), array.data.end());
        if (array.role == Array::Role::input) arrays.back() = inputs.at(next++);
        arrays.back().resize(static_cast<size_t>(kernel::elements_of(array.shape)) *
                             kernel::tile_bytes(array.type));
    }
    for (const Step& step : source.steps) {
        if (step.move) run_kernel(move_kernel(source, *step.move, "move"), arrays, print);
        if (step.call) run_kernel(lower_call(source, *step.call, "kernel_0"), arrays, print);
    }
    for (size_t i = 0; i < arrays.size(); ++i)
        if (source.arrays[i].role == Array::Role::output) outputs.push_back(arrays[i]);
    return outputs;
}

}  // namespace kpu::compiler::pallas
