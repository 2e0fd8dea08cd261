#include "isa/verify.hpp"

#include <fmt/format.h>

#include "isa/container.hpp"
#include "isa/verify_passes.hpp"

namespace kpu {
namespace {

/// Pass 8: the device has the units, and bare L1 says which engine it means.
void verify_placement(const VerifyContext& context, const BoundTask& task, const SourcePos& pos) {
    if (context.limits.agnostic) return;
    const auto missing = [&](UnitKind kind) {
        if (context.limits.count(kind) > 0) return;
        context.error(pos,
                      fmt::format("device `{}` has no {} for task `{}`. Fix: choose a device that has one.",
                                  context.limits.name, name_of(kind), task.name));
    };
    missing(task.unit);
    if (task.partner) missing(*task.partner);
}

void verify_bare_l1(const VerifyContext& context) {
    if (context.limits.agnostic || context.limits.num_engines < 2) return;
    const KPUProgram& program = context.module.program;
    for (int i = 0; i < program.buffer_size(); ++i) {
        if (program.buffer(i).level() != proto::L1 || program.buffer(i).has_engine()) continue;
        context.warning(
            context.module.pos_of_buffer(static_cast<size_t>(i)),
            fmt::format(
                "buffer `{}` is at L1 without an index on a device with {} engines: engine 0 is taken. "
                "Fix: write L1[0].",
                program.buffer(i).name(), context.limits.num_engines));
    }
}

/// Checks that a compiled program is for this device: elsewhere it may be legal and still not what was meant.
void verify_target(const Module& module, const DeviceLimits& limits, Diagnostics& found) {
    const KPUProgram& program = module.program;
    if (limits.agnostic || program.target_hash().empty() || program.target_hash() == legality_hash(limits))
        return;
    const bool same_name = program.target_name() == limits.name;
    found.error(
        {module.origin, 0, 0},
        fmt::format(
            "compiled for `{}`{}, this device is `{}`{}. Fix: run it there, compile it again for this "
            "device, or give --retarget to run it here if it is legal.",
            program.target_name(), same_name ? " as it was then" : "", limits.name,
            same_name ? " with other units, capacities, types or arrays" : ""));
}

void verify_task(const VerifyContext& context, const BoundTask& task, uint32_t statement) {
    const SourcePos pos = context.module.pos_of_statement(statement);
    verify_placement(context, task, pos);
    if (task.computes()) {
        if (!verify_operands(context, task, pos)) return;
        verify_shapes(context, task, pos);
    } else if (!task.launches()) {  // a launch was checked when it was bound
        verify_transfer(context, task, pos);
    }
    verify_repeats(context, task, pos);
    verify_aliasing(context, task, statement);
}

/// Returns the bound program; without meaning when an error was found.
BoundProgram run_passes(const Module& module, const DeviceLimits& limits, const VerifyOptions& options,
                        Diagnostics& found) {
    try {
        check_form(module.program, module.origin);
    } catch (const UserError& e) {
        found.error({}, e.what());
        return {};
    }
    if (!options.retarget) verify_target(module, limits, found);
    verify_names(module, found);
    verify_decorators(module, found);
    Binder binder(module, limits, found);
    // each step needs clean results of the one before; later ones would only repeat its errors
    if (!binder.bind_values(options.params) || !binder.bind_buffers() || !binder.bind_regions()) return {};
    const bool bound = binder.bind_statements();
    const VerifyContext context{module, limits, binder.result(), found};
    verify_bare_l1(context);
    if (!bound) return {};
    for (uint32_t i = 0; i < context.program.statements.size(); ++i) {
        const BoundStatement& statement = context.program.statements[i];
        if (statement.kind == BoundStatement::Kind::task)
            verify_task(context, context.program.tasks[statement.index], i);
    }
    verify_bounds(context);
    binder.bind_host();
    return std::move(binder.result());
}

}  // namespace

std::optional<BoundProgram> verify(const std::shared_ptr<const Module>& module, const DeviceLimits& limits,
                                   const VerifyOptions& options, Diagnostics& diagnostics) {
    Diagnostics found;
    BoundProgram program;
    try {
        program = run_passes(*module, limits, options, found);
    } catch (const UserError& e) {
        found.error({module->origin, 0, 0}, e.what());
    }
    if (options.strict) found.promote_warnings();
    for (const Diagnostic& diagnostic : found.all()) diagnostics.add(diagnostic);
    if (found.has_errors()) return std::nullopt;
    program.module = module;
    return program;
}

}  // namespace kpu
