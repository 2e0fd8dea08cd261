// Overlaps in a timed run are reported, and nothing else is.
#include <gtest/gtest.h>

#include "execution/hazards.hpp"
#include "tests/model/device_fixture.hpp"

namespace kpu::model {
namespace {

using builder::Program;
using builder::Task;
using builder::tensor;
using execution::HazardKind;

constexpr int64_t bytes_each = 4096;

/// Two tasks on common bytes, unordered unless `ordered`; which bytes is the kind's.
std::array<uint64_t, execution::hazard_kind_count> hazards_of(HazardKind kind, bool ordered, bool values) {
    const auto platform = platform_with("tile32");
    Program p("race");
    const auto l2 = p.buffer("L2", Level::l2, 4 * bytes_each), l1 = p.l1_buffer("L1", 0, 4 * bytes_each);
    int regions = 0;
    const auto at = [&](builder::Buffer buffer, int64_t slot) {
        return p.region("r" + std::to_string(regions++), buffer, slot * bytes_each,
                        tensor(ElemType::i8, {bytes_each}));
    };
    const Task first = p.transfer("first", at(l1, 0), at(l2, 0));
    std::optional<Task> a, b;
    switch (kind) {
        case HazardKind::raw:  // b reads what a writes
            a = p.transfer("a", at(l1, 1), at(l2, 1)).after({first});
            b = p.compute("relu", {at(l1, 1)}, {at(l1, 2)}, "b");
            break;
        case HazardKind::war:  // b writes what a reads
            a = p.compute("relu", {at(l1, 0)}, {at(l1, 2)}, "a").after({first});
            b = p.transfer("b", at(l1, 0), at(l2, 1));
            break;
        default:  // both write
            a = p.transfer("a", at(l1, 1), at(l2, 1)).after({first});
            b = p.transfer("b", at(l1, 1), at(l2, 2));
            break;
    }
    b->after(ordered ? std::vector<Task>{first, *a} : std::vector<Task>{first});
    const BoundProgram program = bound(p, platform);
    values::MemoryImage image(program.ddr_bytes, program.l2_bytes, program.l1_bytes);
    for (const TensorSpec& input : program.inputs) {
        const BoundBuffer& buffer = program.buffers[input.buffer];
        std::vector<uint8_t> bytes(buffer.size);
        for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 256);
        image.level(buffer.level, buffer.engine).write(buffer.base, bytes.data(), bytes.size());
    }
    const auto backend = values::make_fast_backend();
    DeviceOptions options;
    if (values) options.backend = backend.get();
    Device device(platform, program, values ? &image : nullptr, options);
    EXPECT_EQ(device.run(), RunStatus::finished);
    std::array<uint64_t, execution::hazard_kind_count> counts{};
    for (int k = 0; k < execution::hazard_kind_count; ++k)
        counts[static_cast<size_t>(k)] = device.hazards()->count(static_cast<HazardKind>(k));
    return counts;
}

class Hazards : public ::testing::TestWithParam<std::tuple<HazardKind, bool>> {};

// Two unordered tasks that overlap in time are reported once, under their kind, with and without values.
TEST_P(Hazards, AnOverlapInTimeIsReported) {
    const auto [kind, values] = GetParam();
    std::array<uint64_t, execution::hazard_kind_count> expected{};
    expected[static_cast<size_t>(kind)] = 1;
    EXPECT_EQ(hazards_of(kind, false, values), expected);
}

// With a token between them there is no overlap, and no report.
TEST_P(Hazards, AnOverlapThatATokenClearsIsNot) {
    const auto [kind, values] = GetParam();
    EXPECT_EQ(hazards_of(kind, true, values), (std::array<uint64_t, execution::hazard_kind_count>{}));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Hazards,
                         ::testing::Combine(::testing::Values(HazardKind::raw, HazardKind::war,
                                                              HazardKind::waw),
                                            ::testing::Bool()));

}  // namespace
}  // namespace kpu::model
