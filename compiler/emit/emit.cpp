#include "compiler/emit/emit.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/emit/op_records.hpp"
#include "compiler/emit/stages.hpp"
#include "compiler/emit/tensors.hpp"
#include "compiler/plan/table.hpp"
#include "isa/device_limits.hpp"

namespace kpu::compiler {
namespace {

void load_table(Emission& out, uint32_t op) {
    for (const Block& block : read_of_table(out.plan)) {
        const builder::TensorType type = builder::tensor(block.elem, {block.count.product()});
        const builder::Region from =
            out.program.region("", out.buffers.weights, out.constants.place(block), type);
        const builder::Region to =
            out.program.region("", out.buffers.table, out.plan.table.places.at(block), type);
        builder::Task task = out.program.transfer("", to, from).op(op);
        out.order.add_free(task, {Span{out.buffers.table.index, 0, 1, false, 0, {}, {}}});
    }
}

/// Constants of the next stage come while this one computes.
void add_stages(const std::vector<Stage>& stages) {
    if (!stages.empty()) stages[0].prologue();
    for (size_t s = 0; s < stages.size(); ++s) {
        const bool more = s + 1 < stages.size(), alone = stages[s].alone || (more && stages[s + 1].alone);
        if (more && !alone) stages[s + 1].prologue();
        stages[s].body();
        if (more && alone) stages[s + 1].prologue();
    }
}

/// Returns 1 at positions of which the caches' last row is read by this form, else 0.
builder::Expr is_wanted(const Emission& out, uint32_t form) {
    using builder::Expr;
    const graph::Positions& of = out.graph.positions;
    const Expr wanted = (out.position + Expr(of.rows - 1)) / Expr(of.step);
    const int64_t number = form, many = of.count + of.rows;  // more than there are forms
    return (wanted + Expr(many - number)) / Expr(many) * ((Expr(many + number) - wanted) / Expr(many));
}

/// Adds a loop of one iteration, or of none.
void add_form(Emission& out, uint32_t form, const std::vector<Stage>& stages) {
    out.order.begin_form();
    out.throttle.begin_form();
    out.in_form = true;
    out.program.loop("form", 0, is_wanted(out, form) - builder::Expr(1), 1,
                     [&](const builder::Expr&) { add_stages(stages); });
    out.in_form = false;
    out.throttle.end_form(form, out.order.end_form());
}

void add_tasks(Emission& out) {
    load_table(out, out.program.op("__setup", "Setup"));
    OpRecords records(out);
    for (const PlannedOp& op : out.plan.ops) records.add(op);
    std::vector<Stage> stages;
    std::optional<uint32_t> form;
    const auto write = [&](std::optional<uint32_t> next) {
        if (form == next) return;
        form ? add_form(out, *form, stages) : add_stages(stages);
        stages.clear();
        form = next;
    };
    for (uint64_t inference = 0; inference < out.plan.inferences; ++inference) {
        for (size_t number = 0; number < out.plan.ops.size(); ++number) {
            write(out.plan.ops[number].form);
            for (Stage& stage : stages_of(out, number, inference)) stages.push_back(std::move(stage));
        }
    }
    form ? add_form(out, *form, stages) : add_stages(stages);
}

/// Returns the most bytes of L1 and L2 at a time.
uint64_t peak_sram(const Plan& plan) {
    uint64_t tiles = 0;
    for (const PlannedOp& op : plan.ops) {
        const auto lanes = static_cast<uint64_t>(std::max<int64_t>(op.tiling.lanes(), 1));
        tiles = std::max(tiles, lanes * op.tiling.l1_bytes() + op.tiling.kept_bytes);
    }
    return plan.resident_bytes + plan.held_bytes + plan.table.bytes + tiles;
}

void describe_program(Emission& out) {
    const Plan& plan = out.plan;
    KPUProgram& message = out.program.message();
    const uint64_t weights = out.constants.size();
    proto::Buffer& buffer = *message.mutable_buffer(static_cast<int>(out.buffers.weights.index));
    buffer.clear_size();
    builder::Expr(static_cast<int64_t>(std::max<uint64_t>(weights, tile_align)))
        .write(*buffer.mutable_size());
    message.set_weight_bytes(weights);
    if (plan.inferences > 1) message.set_inferences(plan.inferences);
    message.set_peak_sram_bytes(peak_sram(plan));
    uint64_t host = 0;
    for (const Storage& storage : plan.memory.storages)
        host += storage.input || storage.output ? host_bytes(storage, plan.inferences) : 0;
    message.set_peak_dram_bytes(plan.memory.ddr_bytes + host + weights);
    message.set_activation_bytes(plan.memory.ddr_bytes + host + plan.resident_bytes);
    message.set_target_name(out.target.platform.name());
    message.set_target_version(out.target.platform.version());
    message.set_target_hash(legality_hash(out.target.limits));
}

}  // namespace

Emitted emit(const Plan& plan, const Target& target) {
    Emission out(plan, target);
    add_tasks(out);
    add_tensors(out);
    describe_program(out);
    const uint64_t weight_bytes = out.constants.size();
    return {std::move(out.program).build(), weight_bytes, out.constants.take(),
            std::move(out.kernels.launches), out.kernels.needs_values};
}

Lowered lower(Plan plan, const Target& target) {
    Emitted emitted = emit(plan, target);
    return {std::move(plan), std::move(emitted)};
}

void add_weights(Lowered& lowered) {
    Emitted& emitted = lowered.emitted;
    if (emitted.weight_bytes == 0) return;
    builder::add_data(emitted.module, "weights", "weights", bytes_of(*lowered.plan.graph, emitted.weights));
}

void promise_weights(Lowered& lowered) {
    Emitted& emitted = lowered.emitted;
    if (emitted.weight_bytes > 0)
        builder::promise_data(emitted.module, "weights", "weights", emitted.weight_bytes);
}

}  // namespace kpu::compiler
