// Time, bytes and energy of vector opcodes: passes, functions, views that move bytes, several results.
#include <gtest/gtest.h>

#include "tests/model/device_fixture.hpp"
#include "traces/ledger.hpp"

namespace kpu::model {
namespace {

using builder::Program;
using builder::Region;
using builder::Task;
using builder::tensor;

constexpr ElemType i8 = ElemType::i8, f16 = ElemType::f16, i32 = ElemType::i32;

struct Result {
    Outcome outcome;
    std::map<std::string, uint64_t> actions;  ///< counts by component.action
    uint64_t busy = 0;                        ///< cycles of the unit in group busy
    uint64_t read = 0, written = 0;           ///< bytes of L1
};

struct Operand {
    ElemType elem;
    std::vector<int64_t> shape;
    std::vector<int64_t> strides = {};  ///< elements; empty: row-major
};

/// Returns one task whose operands lie in L1 of tile32: 32 lanes, ports of 128 bytes, latency 8.
Result run_one(const std::string& opcode, const std::vector<Operand>& inputs,
               const std::vector<Operand>& outputs, const std::function<void(Task&)>& attrs = {},
               const std::string& unit = "e0_cstl0") {
    const auto platform = platform_with("tile32");
    Program p("one");
    int64_t offset = 0;
    const auto buffer = p.l1_buffer("all", 0, 1 << 17);
    const auto regions = [&](const std::vector<Operand>& operands) {
        std::vector<Region> list;
        for (const Operand& operand : operands) {
            std::vector<builder::Expr> shape(operand.shape.begin(), operand.shape.end());
            int64_t bytes = bit_width(operand.elem) / 8;
            for (const int64_t size : operand.shape) bytes *= size;
            builder::TensorType type = tensor(operand.elem, shape);
            if (!operand.strides.empty())
                type = type.strides({operand.strides.begin(), operand.strides.end()});
            list.push_back(p.region("r" + std::to_string(offset), buffer, offset, type));
            offset += (bytes + 63) / 64 * 64;
        }
        return list;
    };
    Task task = p.compute(opcode, regions(inputs), regions(outputs), "task");
    if (attrs) attrs(task);
    const BoundProgram program = bound(p, platform);
    DeviceOptions options;
    options.hazards = false;
    Device device(platform, program, nullptr, options);
    Result r;
    r.outcome.stop = device.run();
    EXPECT_EQ(r.outcome.stop, RunStatus::finished);
    r.outcome.cycles = device.now();
    device.finish(r.outcome.stats);
    for (const traces::EnergyLedger::Row& row : device.ledger().summary())
        r.actions[row.component + "." + row.action] = row.count;
    for (const char* cause : {"useful", "fill_drain", "padding"})
        r.busy += stat(r.outcome, "units." + unit + ".busy." + cause);
    r.read = stat(r.outcome, "bytes.l1.read");
    r.written = stat(r.outcome, "bytes.l1.write");
    EXPECT_EQ(cause_sum(r.outcome, unit), r.outcome.cycles);
    return r;
}

void last_axis(Task& task) { task.attr("axis", -1); }

// Passes multiply work, operand reads and operations; functions take four cycles an element and lane.
TEST(VectorOps, PassesAndFunctions) {
    const Operand x{f16, {16, 64}};
    const Result exp = run_one("exp", {x}, {x});
    EXPECT_EQ(exp.busy, 1024u / 32 * 4 + 8);
    EXPECT_EQ(exp.actions.at("vector.op.transcendental"), 1024u);
    const Result sub = run_one("sub", {x, x}, {x});
    EXPECT_EQ(sub.busy, 1024u / 32 + 8);
    EXPECT_EQ(sub.actions.at("vector.op.f16"), 1024u);
    EXPECT_EQ(sub.read, 2u * 2048);
    const Result softmax = run_one("softmax", {x}, {x}, last_axis);
    EXPECT_EQ(softmax.busy, 1024u / 32 * 2 * 3 + 8);
    EXPECT_EQ(softmax.actions.at("vector.op.transcendental"), 3u * 1024);
    EXPECT_EQ(softmax.read, 3u * 2048);
    EXPECT_EQ(softmax.written, 2048u);
}

// A reduction works on what it reads, by its type, on the VPU.
TEST(VectorOps, ReductionsCountTheirInput) {
    const Result r = run_one(
        "argmax", {{f16, {16, 64}}}, {{i32, {16}}},
        [](Task& t) { t.attr("axis", -1).attr("keepdims", "false"); }, "e0_vpu0");
    EXPECT_EQ(r.busy, 1024u / 32 + 8);
    EXPECT_EQ(r.actions.at("vector.op.f16"), 1024u);
    EXPECT_EQ(r.written, 64u);
}

// A comparison works on what it reads, by its type, and writes a byte for each element.
TEST(VectorOps, ComparisonsCountTheirOperands) {
    const Operand in{f16, {16, 64}}, flags{ElemType::u8, {16, 64}};
    const Result r = run_one("less", {in, in}, {flags});
    EXPECT_EQ(r.busy, 1024u / 32 + 8);
    EXPECT_EQ(r.actions.at("vector.op.f16"), 1024u);
    EXPECT_EQ(r.read, 2u * 2048);
    EXPECT_EQ(r.written, 1024u);
    const Result chosen = run_one("where", {flags, in, {f16, {16, 64}, {0, 0}}}, {in});
    EXPECT_EQ(chosen.actions.at("vector.op.f16"), 1024u);
    EXPECT_EQ(chosen.read, 1024u + 2048 + 2);
}

// Views move bytes at the port's width, 128 a cycle, and are charged by the byte.
TEST(VectorOps, ViewsMoveBytes) {
    const auto perm = [](Task& t) { t.attr("perm", {1, 0}); };
    const Result narrow = run_one("transpose", {{i8, {64, 32}}}, {{i8, {32, 64}}}, perm);
    EXPECT_EQ(narrow.busy, 2048u / 128 + 8);
    EXPECT_EQ(narrow.actions.at("vector.move"), 2048u);
    const Result wide = run_one("transpose", {{i32, {64, 32}}}, {{i32, {32, 64}}}, perm);
    EXPECT_EQ(wide.busy, 4u * 2048 / 128 + 8);
    EXPECT_EQ(wide.actions.at("vector.move"), 4u * 2048);
}

// Every result of split is written through the unit's port.
TEST(VectorOps, EveryResultIsAStream) {
    const Result r =
        run_one("split", {{i8, {64, 64}}}, {{i8, {16, 64}}, {i8, {40, 64}}, {i8, {8, 64}}}, [](Task& t) {
            t.attr("axis", 0).attr("split_sizes", {16, 40, 8});
        });
    EXPECT_EQ(r.read, 4096u);
    EXPECT_EQ(r.written, 4096u);
    EXPECT_EQ(r.busy, 4096u / 128 + 8);
    EXPECT_LE(r.outcome.cycles, 4096u / 128 + 8 + 12);
}

// An operand that repeats is read once, byte by byte as it is stored; the work is that of all elements. i8,
// 64 x 32 elements on 32 lanes: 64 cycles and 8 of latency, whatever repeats. A holds 2048 bytes, a row 32, a
// column 64, a scalar 1.
TEST(VectorOps, RepeatedOperandsAreReadOnce) {
    const Operand whole{i8, {64, 32}};
    const auto add = [&](const std::vector<int64_t>& strides) {
        return run_one("add", {whole, {i8, {64, 32}, strides}}, {whole});
    };
    const std::pair<std::vector<int64_t>, uint64_t> cases[] = {
        {{32, 1}, 2048}, {{0, 1}, 32}, {{1, 0}, 64}, {{0, 0}, 1}};
    for (const auto& [strides, bytes] : cases) {
        const Result r = add(strides);
        EXPECT_EQ(r.read, 2048 + bytes);
        EXPECT_EQ(r.written, 2048u);
        EXPECT_EQ(r.busy, 64u + 8);
    }
    const Result sum = run_one(
        "reduce_sum", {{f16, {16, 64}, {0, 1}}}, {{f16, {16}}},
        [](Task& t) { t.attr("axes", {1}).attr("keepdims", "false"); }, "e0_vpu0");
    EXPECT_EQ(sum.read, 2u * 64);
    EXPECT_EQ(sum.busy, 1024u / 32 + 8);
}

// slice and gather read what they take, not all of their operand; a gather of more rows than there are reads
// on.
TEST(VectorOps, PartsOfOperandsAreRead) {
    const Result slice = run_one("slice", {{i8, {64, 64}}}, {{i8, {8, 32}}}, [](Task& t) {
        t.attr("starts", {8, -1}).attr("ends", {16, 31}).attr("axes", {0, 1}).attr("steps", {1, -1});
    });
    EXPECT_EQ(slice.read, 8u * 32);
    const auto rows = [](Task& t) { t.attr("axis", 0); };
    const Result few = run_one("gather", {{i8, {64, 64}}, {i32, {4}}}, {{i8, {4, 64}}}, rows);
    EXPECT_EQ(few.read, 4u * 64 + 4 * 4);
    const Result many = run_one("gather", {{i8, {8, 64}}, {i32, {16}}}, {{i8, {16, 64}}}, rows);
    EXPECT_EQ(many.read, 16u * 64 + 16 * 4);
}

}  // namespace
}  // namespace kpu::model
