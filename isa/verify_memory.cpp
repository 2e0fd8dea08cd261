// Passes 4, 7 and 10: transfers, aliasing, access intents, bounds over loops.
#include <fmt/format.h>

#include <algorithm>

#include "isa/expr.hpp"
#include "isa/footprint.hpp"
#include "isa/iterations.hpp"
#include "isa/verify_passes.hpp"

namespace kpu {
namespace {

/// Iterations that are tried one by one where intervals do not decide; beyond, the run-time checks decide.
constexpr uint64_t enumeration_limit = 1 << 16;
/// The same for all regions of a program together: its verification takes bounded time.
constexpr uint64_t enumeration_budget = 1 << 20;

bool same_expr(const BoundExpr& a, const BoundExpr& b) {
    return a.kinds == b.kinds && a.values == b.values && a.constant == b.constant;
}

bool same_window(const BoundRegion& a, const BoundRegion& b) {
    return a.buffer == b.buffer && same_expr(a.address, b.address) && a.elem == b.elem &&
           a.shape == b.shape && a.strides == b.strides;
}

/// True if two regions share an element in some iteration of the task; the first such iteration. Undecided
/// (too many iterations) counts as no: the race detector of a run decides then.
std::optional<LoopValues> overlap_in(const VerifyContext& context, uint32_t statement, const BoundRegion& a,
                                     const BoundRegion& b) {
    if (a.buffer != b.buffer) return std::nullopt;
    std::optional<LoopValues> found;
    try {
        if (a.address.is_constant() && b.address.is_constant()) {
            if (windows_overlap(a, a.address.constant, b, b.address.constant)) found.emplace();
            return found;
        }
        uint64_t steps = 256;
        for_each_iteration(context.program, statement, steps, [&](const LoopValues& values) {
            if (windows_overlap(a, a.address.eval(values), b, b.address.eval(values))) found = values;
            return !found;
        });
    } catch (const UserError&) {
        // an address that cannot be computed is reported by verify_bounds
    }
    return found;
}

bool is_decorated(const proto::Operand& operand, std::string_view name) {
    return std::any_of(operand.decorator().begin(), operand.decorator().end(),
                       [&](const proto::Decorator& decorator) { return decorator.name() == name; });
}

/// Returns the bytes from the start of a region that its elements cover without a gap.
uint64_t covered_bytes(const BoundRegion& region) {
    if (!region.typed()) return region.extent;
    std::vector<std::pair<int64_t, int64_t>> dims;  // stride, extent
    for (size_t d = 0; d < region.shape.rank; ++d) {
        if (region.shape[d] > 1) dims.emplace_back(region.strides[d], region.shape[d]);
    }
    std::sort(dims.begin(), dims.end());
    int64_t elements = 1;
    for (const auto& [stride, extent] : dims) {
        if (stride != elements) break;
        elements *= extent;
    }
    return packed_bytes(region.elem, static_cast<uint64_t>(elements));
}

/// Checks what a task may do to its operands by their decorators, or those of their regions and buffers. All
/// known before the run: a region is what it is in every iteration.
void check_intent(const VerifyContext& context, const BoundTask& task, uint32_t statement) {
    const SourcePos pos = context.module.pos_of_statement(statement);
    const proto::Task& source = context.module.program.statement(static_cast<int>(statement)).task();
    for (size_t i = 0; i < task.inputs.size(); ++i) {
        const BoundRegion& region = context.region(task.inputs[i]);
        if (region.writeonly || is_decorated(source.input(static_cast<int>(i)), "writeonly")) {
            context.error(pos,
                          fmt::format("task `{}` reads {}, which is @writeonly. Fix: drop the decorator.",
                                      task.name, region_text(region)));
        }
    }
    for (const uint32_t index : task.materialized) {
        const BoundRegion& region = context.region(index);
        const uint64_t covered = covered_bytes(region);
        if (covered == region.extent) continue;
        context.error(pos, fmt::format("task `{}` leaves byte {} of {} unwritten, which is @materialized. "
                                       "Fix: give the region the extent and strides of what is written.",
                                       task.name, covered, region_text(region)));
    }
    for (size_t i = 0; i < task.outputs.size(); ++i) {
        const BoundRegion& region = context.region(task.outputs[i]);
        if (region.readonly || is_decorated(source.output(static_cast<int>(i)), "readonly")) {
            context.error(pos,
                          fmt::format("task `{}` writes {}, which is @readonly. Fix: drop the decorator.",
                                      task.name, region_text(region)));
        }
        if (overlaps_itself(region)) {
            context.error(
                pos,
                fmt::format("{} is written but its strides make elements overlap. Fix: use strides that keep "
                            "elements apart.",
                            region_text(region)));
        }
    }
}

/// True if output may share storage with input number `i` of this opcode.
bool in_place_input(const OpcodeSpec& spec, size_t i) {
    if (!spec.in_place_allowed) return false;
    return !spec.accumulates || i == spec.addend;  // only the addend of an accumulation
}

/// True if an input and an output of a launch are one buffer of the kernel, which reads and writes it.
bool is_one_buffer(const BoundLaunch& launch, size_t input, uint32_t output, const BoundTask& task) {
    return std::any_of(launch.operands.begin(), launch.operands.end(),
                       [&](const BoundLaunch::Operand& operand) {
                           return operand.input == static_cast<int32_t>(input) && operand.output >= 0 &&
                                  task.outputs[static_cast<size_t>(operand.output)] == output;
                       });
}

/// `budget`: iterations that may still be tried; reduced by those that were.
void check_region(const VerifyContext& context, uint32_t index, uint32_t statement, uint64_t& budget) {
    const BoundRegion& region = context.region(index);
    const BoundBuffer& buffer = context.program.buffers[region.buffer];
    const auto ranges = loop_ranges(context.program, statement);
    if (ranges) {
        for (const Interval& range : *ranges) {
            if (range.lo > range.hi) return;  // never executed
        }
        const auto address = bound_of(region.address, *ranges);
        const auto low = static_cast<int64_t>(buffer.base);
        if (address && address->lo >= low && region.extent <= buffer.size &&
            address->hi <= low + static_cast<int64_t>(buffer.size - region.extent)) {
            return;
        }
    }
    // not decided by the range alone: try the iterations; what is left is checked as each one starts
    const SourcePos pos = context.module.pos_of_region(index);
    LoopValues current;
    uint64_t steps = std::min(enumeration_limit, budget);
    budget -= steps;  // given back below, as far as it was not needed
    try {
        for_each_iteration(context.program, statement, steps, [&](const LoopValues& values) {
            current = values;
            check_region_bounds(context.program, index, region.address.eval(values));
            return true;
        });
    } catch (const UserError& e) {
        Diagnostic diagnostic{Severity::error, e.what(), pos, {}};
        const std::string where = in_iteration(context.program, statement, current);
        if (!where.empty()) diagnostic.notes.push_back("first in iteration" + where);
        context.diagnostics.add(std::move(diagnostic));
    }
    budget += steps;
}

/// Returns the first dimension along which a region repeats its elements.
std::optional<size_t> repeated_dimension(const BoundRegion& region) {
    if (!region.typed()) return std::nullopt;
    for (size_t d = 0; d < region.shape.rank; ++d) {
        if (region.strides[d] == 0 && region.shape[d] > 1) return d;
    }
    return std::nullopt;
}

bool inputs_may_repeat(const BoundTask& task) {
    if (!task.computes()) return false;
    const OpcodeClass kind = opcode(task.opcode).op_class;
    return kind == OpcodeClass::elementwise || kind == OpcodeClass::reduction || kind == OpcodeClass::convert;
}

}  // namespace

void verify_repeats(const VerifyContext& context, const BoundTask& task, const SourcePos& pos) {
    if (inputs_may_repeat(task)) return;
    for (const uint32_t index : task.inputs) {
        const BoundRegion& region = context.region(index);
        const std::optional<size_t> dimension = repeated_dimension(region);
        if (!dimension) continue;
        context.error(
            pos,
            fmt::format("{}: {} has stride 0 in dimension {}: only inputs of element-wise "
                        "opcodes, reductions and conversions may repeat elements. Fix: give it a positive "
                        "stride.",
                        operation_of(task), region_text(region), *dimension));
    }
}

void verify_transfer(const VerifyContext& context, const BoundTask& task, const SourcePos& pos) {
    const BoundRegion &src = context.region(task.inputs[0]), &dst = context.region(task.outputs[0]);
    const std::string_view verb = operation_of(task);
    if (src.typed() && dst.typed()) {
        if (src.elem != dst.elem || !(src.shape == dst.shape)) {
            context.error(
                pos,
                fmt::format("{}: src and dst need the same element type and shape: {}, {}. Fix: use equal "
                            "types, or untyped regions of equal extent.",
                            verb, operand_text("src", src), operand_text("dst", dst)));
        }
    } else if (src.extent != dst.extent) {
        context.error(
            pos, fmt::format(
                     "{}: an untyped copy needs equal extents, src has {} bytes and dst {}. Fix: make them "
                     "equal.",
                     verb, src.extent, dst.extent));
    }
}

void verify_aliasing(const VerifyContext& context, const BoundTask& task, uint32_t statement) {
    const SourcePos pos = context.module.pos_of_statement(statement);
    check_intent(context, task, statement);
    for (size_t i = 0; i + 1 < task.outputs.size(); ++i) {
        for (size_t j = i + 1; j < task.outputs.size(); ++j) {
            const BoundRegion &a = context.region(task.outputs[i]), &b = context.region(task.outputs[j]);
            const auto found = overlap_in(context, statement, a, b);
            if (!found) continue;
            context.error(pos,
                          fmt::format("task `{}`: outputs {} and {} overlap{}. Fix: use separate regions.",
                                      task.name, region_text(a), region_text(b),
                                      in_iteration(context.program, statement, *found)));
        }
    }
    const bool compute = task.computes();
    if (task.memmove) return;
    for (const uint32_t out : task.outputs) {
        for (size_t i = 0; i < task.inputs.size(); ++i) {
            const BoundRegion &dst = context.region(out), &src = context.region(task.inputs[i]);
            if (compute && in_place_input(opcode(task.opcode), i) && same_window(dst, src)) continue;
            if (task.launches() && same_window(dst, src) && is_one_buffer(*task.launch, i, out, task))
                continue;
            const auto found = overlap_in(context, statement, src, dst);
            if (!found) continue;
            context.error(
                pos,
                fmt::format("task `{}`: {} overlaps {}{}. Fix: {}.", task.name, region_text(dst),
                            region_text(src), in_iteration(context.program, statement, *found),
                            task.moves() ? "use separate regions, or @memmove"
                            : compute    ? "use separate regions, or the same one where the opcode allows it"
                                         : "bind separate regions to the kernel's buffers"));
        }
    }
}

void verify_bounds(const VerifyContext& context) {
    const KPUProgram& program = context.module.program;
    std::vector<bool> seen(context.program.regions.size(), false);
    uint64_t budget = enumeration_budget;
    for (uint32_t i = 0; i < context.program.statements.size(); ++i) {
        const BoundStatement& statement = context.program.statements[i];
        if (statement.kind == BoundStatement::Kind::loop) {
            const BoundLoop& loop = context.program.loops[statement.index];
            if (loop.first.is_constant() && loop.last.is_constant() &&
                loop.first.constant > loop.last.constant &&
                !follows_parameter(program.statement(static_cast<int>(i)).loop())) {
                context.warning(
                    context.module.pos_of_statement(i),
                    fmt::format(
                        "loop `{}` has the empty range [{}..{}]: no iteration. Fix: check its bounds.",
                        loop.variable, loop.first.constant, loop.last.constant));
            }
        } else if (program.statement(static_cast<int>(i)).kind_case() == proto::Statement::kLetRegion) {
            const uint32_t region = program.statement(static_cast<int>(i)).let_region();
            seen[region] = true;
            if (!context.region(region).address.is_constant()) check_region(context, region, i, budget);
        } else if (statement.kind == BoundStatement::Kind::task) {
            const BoundTask& task = context.program.tasks[statement.index];
            for (const std::vector<uint32_t>* operands : {&task.inputs, &task.outputs}) {
                for (const uint32_t region : *operands) {  // those written inline
                    if (seen[region] || context.region(region).address.is_constant()) continue;
                    seen[region] = true;
                    check_region(context, region, i, budget);
                }
            }
        }
    }
}

}  // namespace kpu
