// A unit that executes step by step, in a time that depends on data, beside those with a formula.
#include <gtest/gtest.h>

#include "isa/opcodes.hpp"
#include "model/unit/unit_module.hpp"
#include "tests/model/device_fixture.hpp"
#include "values/compute.hpp"

namespace kpu::model {
namespace {

constexpr Cycles round_cycles = 10;

/// Reads its operand, takes as many rounds as its first byte says, writes its result.
class RoundsUnit : public Unit {
  public:
    using Unit::Unit;
    const char* kind() const override { return "rounds_unit"; }

    void stream_completed(StreamTransaction& transaction) override {
        note_completed(*command_, transaction);
        if (result_ != nullptr) return complete();
        const values::RegionView& view = command_->task->inputs[0];
        const values::MemoryLevel& level = command_->memory->level(view.region->level, view.region->engine);
        const uint8_t rounds = level.data()[view.address];
        plan_.work = rounds;
        plan_.energy = {{traces::Component::vector, "op.i8", rounds}};
        step(traces::Cause::busy_useful);
        wake_at(now_cycle() + rounds * round_cycles);
    }

  protected:
    void start(TaskCommand& given) override {
        const BoundTask& task = *given.task->task;
        command_ = &given;
        plan_ = {};
        plan_.course = TaskPlan::Course::steps;
        plan_.operands.push_back(memory_stream(task, input(0), true, 64));
        plan_.results.push_back(memory_stream(task, output(0), false, 64));
        given.plan = &plan_;
        if (operand_ != nullptr) recycle(std::move(operand_));
        if (result_ != nullptr) recycle(std::move(result_));
        step(traces::Cause::stalled_operand_interconnect);
        operand_ = post(plan_.operands[0], given, nullptr);
    }
    void wake() override {
        step(traces::Cause::busy_fill_drain);
        result_ = post(plan_.results[0], *command_, nullptr);
        command_->report.streams.back().is_result = true;
    }

  private:
    void step(traces::Cause cause) { command_->report.steps.push_back({now_cycle(), cause}); }
    void complete() {
        command_->report.end = now_cycle();
        answer_complete(*command_);
    }

    TaskCommand* command_ = nullptr;
    TaskPlan plan_;  ///< plan of the task that executes: filled in as it goes on
    std::unique_ptr<StreamTransaction> operand_, result_;
};

/// Adds a load into L1, then two tasks of the unit, one after the other.
void add_tasks(builder::Program& p) {
    const auto type = builder::tensor(ElemType::i8, {64});
    const auto in = p.buffer("in", Level::l2, 64);
    const auto l1 = p.l1_buffer("l1", 0, 192);
    const auto x = p.region("x", l1, 0, type), y = p.region("y", l1, 64, type),
               z = p.region("z", l1, 128, type);
    const auto load = p.transfer("load", x, p.region("from", in, 0, type));
    const auto first = p.compute("relu", {x}, {y}, "first").resource(UnitKind::vpu, 0).after({load});
    p.compute("relu", {y}, {z}, "second").resource(UnitKind::vpu, 0).after({first});
}

struct Result {
    Outcome outcome;
    uint8_t first_result = 0;
};

Result run_with(uint8_t rounds, Cycles until = Device::no_limit) {
    const platforms::Platform platform = platforms::load("npm_lite");
    builder::Program tasks("rounds");
    add_tasks(tasks);
    const BoundProgram program = bound(tasks, platform);
    values::MemoryImage memory(program.ddr_bytes, program.l2_bytes, program.l1_bytes);
    const std::vector<uint8_t> bytes(64, rounds);
    memory.level(Level::l2, 0).write(0, bytes.data(), bytes.size());
    const auto backend = values::make_fast_backend();
    traces::EventLog log;
    DeviceOptions options;
    options.backend = backend.get();
    options.sink = &log;
    Device device(platform, program, &memory, options);
    Result run;
    run.outcome.stop = device.run(until);
    for (const Device::UnitState& unit : device.state().units)
        EXPECT_NE(unit.cause, traces::Cause::unattributed);
    device.finish(run.outcome.stats);
    run.outcome.ops = device.op_rows();
    run.outcome.cycles = device.now();
    run.first_result = memory.level(Level::l1, 0).data()[64];
    return run;
}

TEST(StepUnit, TakesTheTimeThatItsDataAskFor) {
    const Result few = run_with(3), many = run_with(20);
    EXPECT_EQ(few.outcome.stop, RunStatus::finished);
    EXPECT_EQ(few.first_result, 3);  // the value came through the unit's memory socket
    // two tasks of so many rounds each; all else takes the same time
    EXPECT_EQ(stat(few.outcome, "units.e0_vpu0.busy.useful"), 2 * 3 * round_cycles);
    EXPECT_EQ(stat(many.outcome, "units.e0_vpu0.busy.useful"), 2 * 20 * round_cycles);
    EXPECT_EQ(many.outcome.cycles - few.outcome.cycles, 2 * (20 - 3) * round_cycles);
}

TEST(StepUnit, ItsCausesSumToTheRunAndItsEnergyIsBooked) {
    const Result run = run_with(7);
    Cycles sum = 0;
    for (int c = 0; c < traces::unit_cause_count; ++c)
        sum += stat(run.outcome,
                    "units.e0_vpu0." + std::string(traces::full_name_of(static_cast<traces::Cause>(c))));
    EXPECT_EQ(sum, run.outcome.cycles);
    EXPECT_EQ(stat(run.outcome, "cycles.unattributed"), 0u);
    EXPECT_EQ(stat(run.outcome, "energy.count.vector.op.i8"), 14u);
    Cycles charged = 0;
    for (const traces::OpRow& row : run.outcome.ops) charged += row.charged_cycles;
    EXPECT_EQ(charged, run.outcome.cycles);
}

TEST(StepUnit, MayBeCutOffInTheMiddle) {
    for (const Cycles until : {20, 60, 75, 110, 130}) {
        const Result run = run_with(5, until);
        EXPECT_EQ(stat(run.outcome, "cycles.unattributed"), 0u) << until;
        EXPECT_EQ(run.outcome.cycles, until);
    }
}

}  // namespace

extern const UnitModule rounds_unit_module;
const UnitModule rounds_unit_module{{UnitKind::vpu}, make_unit<RoundsUnit>};

}  // namespace kpu::model
