#pragma once

#include "isa/binder.hpp"
#include "isa/verify.hpp"

namespace kpu {

/// Input of the passes that verify() runs. The program is bound; tasks carry their statement's place.
struct VerifyContext {
    const Module& module;
    const DeviceLimits& limits;
    const BoundProgram& program;
    Diagnostics& diagnostics;

    void error(const SourcePos& pos, std::string message) const {
        diagnostics.error(pos, std::move(message));
    }
    void warning(const SourcePos& pos, std::string message) const {
        diagnostics.warning(pos, std::move(message));
    }
    const BoundRegion& region(uint32_t index) const { return program.regions[index]; }
};

// Names and decorators look at the source program only; they run before binding.
void verify_names(const Module& module, Diagnostics& diagnostics);
void verify_decorators(const Module& module, Diagnostics& diagnostics);

/// Verifies operand counts and typing, variants of the device, quantisation. True when shapes are worth
/// checking.
bool verify_operands(const VerifyContext& context, const BoundTask& task, const SourcePos& pos);
/// Verifies the opcode's shape rule (isa/shapes.hpp), and what its operands mean.
void verify_shapes(const VerifyContext& context, const BoundTask& task, const SourcePos& pos);
/// Verifies which inputs may repeat their elements (stride 0). Outputs that do are refused by
/// verify_aliasing.
void verify_repeats(const VerifyContext& context, const BoundTask& task, const SourcePos& pos);
void verify_transfer(const VerifyContext& context, const BoundTask& task, const SourcePos& pos);
/// Verifies outputs that overlap inputs or themselves, access intents; `statement` is the task's.
void verify_aliasing(const VerifyContext& context, const BoundTask& task, uint32_t statement);
/// Bounds of regions whose offsets depend on loop variables; empty loops.
void verify_bounds(const VerifyContext& context);

/// Returns "A i8[64,32]" for messages.
std::string operand_text(std::string_view name, const BoundRegion& region);
std::string region_text(const BoundRegion& region);  ///< "region `Y`"

}  // namespace kpu
