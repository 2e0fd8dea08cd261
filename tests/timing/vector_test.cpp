#include "model/timing/vector.hpp"

#include <gtest/gtest.h>

namespace kpu::timing {
namespace {

proto::Vector unit() {
    proto::Vector vector;
    vector.set_lanes(16);
    vector.set_pipeline_latency_cycles(5);
    auto* cost = vector.add_cost();
    cost->set_opcode("softmax");
    cost->set_cycles_per_element(1.5);
    cost->set_passes(3);
    return vector;
}

// An opcode without a row has the cost of the opcode table: relu one cycle per group of lanes, exp four,
// layernorm three passes; plus the latency once.
TEST(VectorTiming, OneCyclePerGroupOfLanes) {
    EXPECT_EQ(vector_time(unit(), "relu", {64}).total(), 4u + 5);
    EXPECT_EQ(vector_time(unit(), "relu", {65}).total(), 5u + 5);
    EXPECT_EQ(vector_time(unit(), "relu", {0}).total(), 5u);
    EXPECT_EQ(vector_time(unit(), "exp", {64}).total(), 4u * 4 + 5);
    EXPECT_EQ(vector_time(unit(), "layernorm", {64}).total(), 3u * 4 + 5);
}

// Cost rows scale with cycles per element and with passes; the fraction is rounded up once, at the end.
TEST(VectorTiming, CostRowsScaleTheSteadyState) {
    const VectorTime time = vector_time(unit(), "softmax", {33});
    EXPECT_EQ(time.steady, 14u);  // ceil(3 groups * 1.5 * 3) = ceil(13.5)
    EXPECT_EQ(time.passes, 3u);
}

// A view moves bytes at the narrower of its ports, whatever the lanes.
TEST(VectorTiming, ViewsMoveBytes) {
    proto::Vector vector = unit();
    vector.set_operand_bytes_per_cycle(32);
    vector.set_result_bytes_per_cycle(8);
    EXPECT_EQ(vector_time(vector, "transpose", {100, true}).total(), 13u + 5);
    vector.set_result_bytes_per_cycle(64);
    EXPECT_EQ(vector_time(vector, "transpose", {100, true}).total(), 4u + 5);
}

// More elements never take less time, and never less than elements / lanes.
TEST(VectorTiming, MonotoneAndBounded) {
    Cycles last = 0;
    for (uint64_t elements = 0; elements < 200; ++elements) {
        const Cycles total = vector_time(unit(), "softmax", {elements}).total();
        EXPECT_GE(total, last);
        EXPECT_GE(total * 16, elements);
        last = total;
    }
}

}  // namespace
}  // namespace kpu::timing
