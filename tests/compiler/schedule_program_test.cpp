// Schedules as programs: what runs is what the schedule means, bit for bit, whatever overlaps in time.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "tests/compiler/plain_machine.hpp"
#include "tests/compiler/schedule_test.hpp"

namespace kpu::tile_schedule {
namespace {

using runtime::Mode;
using runtime::RunStatus;

std::vector<float> floats(const std::string& bytes) {
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

/// Returns a row-major product in double, ReLU where asked.
std::vector<double> layer(const std::vector<double>& x, const std::vector<double>& w, size_t k, size_t n,
                          bool relu) {
    std::vector<double> y(x.size() / k * n);
    for (size_t i = 0; i < y.size(); ++i) {
        for (size_t j = 0; j < k; ++j) y[i] += x[i / n * k + j] * w[j * n + i % n];
        if (relu) y[i] = std::max(y[i], 0.0);
    }
    return y;
}

// The original's schedule runs unmodified with a header beside it: its numbers of ops, its peak of SRAM,
// values equal to accumulation in order of k bit for bit and to double within 1e-6 of the largest.
TEST(TileSchedule, ReferenceMlp) {
    const Schedule schedule = reference_mlp();
    const Analysis analysis = analyse(schedule, {});
    EXPECT_EQ(analysis.loads, 39u);
    EXPECT_EQ(analysis.executes, 44u);
    EXPECT_EQ(analysis.stores, 16u);
    EXPECT_EQ(analysis.peak_bytes, 53248u);
    EXPECT_TRUE(analysis.faults.empty());

    SplitMix64 random(5);
    plain::Machine plain(schedule.header, 256 * 1024);
    std::map<std::string, std::vector<double>> data;
    runtime::Simulation simulation = simulation_of(schedule, 256 * 1024, Mode::values_timing);
    for (const uint32_t id : {0u, 1u, 4u, 7u}) {
        const Tensor& tensor = *schedule.header.find(id);
        const std::string dense =
            plain::random_data(ElemType::f32, uint64_t{tensor.rows} * tensor.cols, random);
        plain.set(tensor.name, dense);
        bind(simulation, tensor, dense);
        const auto values = floats(dense);
        data[tensor.name].assign(values.begin(), values.end());
    }
    ASSERT_EQ(simulation.run(), RunStatus::finished);
    EXPECT_EQ(simulation.hazards().count(), 0u);
    EXPECT_EQ(simulation.stats().integer("memory.l1.peak_bytes"), 53248u);
    plain.run(schedule.ops);
    const std::string out = simulation.output("out").data;
    EXPECT_EQ(out, plain.get("out"));

    const auto exact = layer(layer(layer(data["x"], data["w1"], 128, 64, true), data["w2"], 64, 32, true),
                             data["w3"], 32, 32, false);
    double largest = 0, worst = 0;
    const auto values = floats(out);
    ASSERT_EQ(values.size(), exact.size());
    for (size_t i = 0; i < exact.size(); ++i) {
        largest = std::max(largest, std::fabs(exact[i]));
        worst = std::max(worst, std::fabs(exact[i] - static_cast<double>(values[i])));
    }
    EXPECT_LE(worst / largest, 1e-6);
}

/// Runs a random legal schedule in the model and on the plain machine; all outputs must be equal.
void expect_same_values(uint64_t seed, Mode mode) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const auto random = plain::random_schedule(seed);
    const Schedule& schedule = random.schedule;
    runtime::Simulation simulation = simulation_of(schedule, random.arena_bytes, mode);
    plain::Machine plain(schedule.header, random.arena_bytes);
    for (const Tensor& tensor : schedule.header.tensors) {
        const auto data = random.inputs.find(tensor.name);
        if (data == random.inputs.end()) continue;
        plain.set(tensor.name, data->second);
        bind(simulation, tensor, data->second);
    }
    ASSERT_EQ(simulation.run(), RunStatus::finished) << simulation.deadlock_report();
    for (const auto& finding : simulation.hazards().findings()) ADD_FAILURE() << to_string(finding);
    plain.run(schedule.ops);
    for (const Tensor& tensor : schedule.header.tensors) {
        if (tensor.role != Role::output) continue;
        ASSERT_EQ(simulation.output(tensor.name).data, plain.get(tensor.name))
            << tensor.name << "\n"
            << write_schedule(schedule, Form::text);
    }
}

/// KPUSIM_SCHEDULES=N: that many instead.
uint64_t count_or(uint64_t usual) {
    const char* count = std::getenv("KPUSIM_SCHEDULES");
    return count != nullptr ? std::strtoull(count, nullptr, 10) : usual;
}

// Random legal schedules of all types finish, without hazards, and give what their ops give one after
// another.
TEST(TileSchedule, RandomLegalOnesEqualTheirSequentialMeaning) {
    const uint64_t count = count_or(2000);
    for (uint64_t seed = 0; seed < count && !HasFatalFailure(); ++seed)
        expect_same_values(seed, Mode::functional);
}

// The same with the model of time, which overlaps what does not depend on each other.
TEST(TileSchedule, RandomLegalOnesWithTiming) {
    for (uint64_t seed = 0; seed < 200 && !HasFatalFailure(); ++seed)
        expect_same_values(seed, Mode::values_timing);
}

// One change makes a legal schedule illegal: the first fault is the right one, at the right op, and no
// program is made of it.
TEST(TileSchedule, RandomIllegalOnesAreRefusedWithTheRightFault) {
    const uint64_t count = count_or(2000);
    for (uint64_t seed = 0; seed < count; ++seed) {
        SplitMix64 random(seed);
        const auto legal = plain::random_schedule(seed);
        FaultKind expected{};
        uint32_t op = 0;
        const Schedule schedule = plain::make_illegal(legal, random, expected, op);
        try {
            lowered(schedule, legal.arena_bytes);
            FAIL() << "seed " << seed << ": accepted, expected " << name_of(expected);
        } catch (const ScheduleError& error) {
            ASSERT_EQ(name_of(error.kind()), name_of(expected)) << "seed " << seed << ": " << error.what();
            ASSERT_EQ(error.op(), op) << "seed " << seed;
            EXPECT_THAT(error.what(), testing::HasSubstr(fmt::format("op {}, ", op)));
        }
    }
}

// Twelve accumulators live at once through the 64 entries of the token table, for 20,000 ops: it ends.
TEST(TileSchedule, ManyAccumulatorsAndAnyLengthDoNotDeadlock) {
    Schedule schedule;
    schedule.has_header = true;
    schedule.header.format.tile = 4;
    schedule.header.tensors = {{0, "x", 4, 4, Role::input, ElemType::f32, 0},
                               {1, "y", 4, 48, Role::output, ElemType::f32, 0}};
    for (uint32_t k = 0; k < 1500; ++k) {
        schedule.ops.push_back(Load{0, 0, 0, 64 * (k % 2), 64, -1});
        for (uint32_t n = 0; n < 12; ++n)
            schedule.ops.push_back(Execute{0, n, k, 64 * (k % 2), 64 * (k % 2), 1024 + 64 * n, -1});
    }
    for (uint32_t n = 0; n < 12; ++n)
        schedule.ops.push_back(Store{1, 0, n, 1024 + 64 * n, 64, Activation::none, -1});
    auto simulation = simulation_of(schedule, 4096, Mode::timing);
    EXPECT_EQ(simulation.run(), RunStatus::finished) << simulation.deadlock_report();
    EXPECT_EQ(simulation.stats().integer("ops.macs"), 1500u * 12 * 64);
}

}  // namespace
}  // namespace kpu::tile_schedule
