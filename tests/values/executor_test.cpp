#include <gtest/gtest.h>

#include "base/diagnostics.hpp"
#include "tests/values/helpers.hpp"
#include "values/compute.hpp"
#include "values/convert.hpp"

namespace kpu::values {
namespace {

using testing::pick;
using testing::Random;

class ExecutorTest : public ::testing::Test {
  protected:
    void randomise(Level level) {
        MemoryLevel& memory = memory_.level(level, 0);
        for (uint64_t i = 0; i < memory.size(); ++i) memory.data()[i] = static_cast<uint8_t>(random_());
    }
    std::vector<uint8_t> snapshot(Level level) {
        const MemoryLevel& memory = memory_.level(level, 0);
        return {memory.data(), memory.data() + memory.size()};
    }
    std::vector<uint8_t> written(Level level) {
        std::vector<uint8_t> map;
        for (uint64_t i = 0; i < memory_.level(level, 0).size(); ++i) {
            map.push_back(memory_.level(level, 0).all_written(i, 1) ? 1 : 0);
        }
        return map;
    }
    BoundTask compute(const char* opcode) {
        BoundTask task;
        task.kind = proto::Task::COMPUTE;
        task.opcode = testing::op(opcode);
        return task;
    }

    Random random_{21};
    BoundProgram program_;
    MemoryImage memory_{2048, 2048, {2048}};
    std::unique_ptr<ComputeBackend> backend_ = make_fast_backend();
    Executor executor_{program_, *backend_};
};

// A typed transfer copies elements in index order between different strides, by execute() as by evaluate +
// commit.
TEST_F(ExecutorTest, TypedTransferThroughStrides) {
    const ElemType types[] = {ElemType::i4, ElemType::i8, ElemType::f16, ElemType::f32};
    for (int round = 0; round < 400; ++round) {
        BoundRegion source = testing::random_region(random_, types[round % 4]);
        BoundRegion target = round % 5 == 0 ? testing::region(source.elem, {}) : source;
        target.shape = source.shape;
        target.strides = row_major(source.shape);
        target.dense = true;
        if (round % 3 == 0) std::swap(source, target);
        target.level = round % 2 == 0 ? Level::l2 : Level::ddr;  // the same level: the regions may overlap
        const RegionView from{&source, static_cast<uint64_t>(pick(random_, 0, 30))};
        const RegionView to{&target, static_cast<uint64_t>(pick(random_, 0, 30))};
        memory_.reset();
        randomise(Level::ddr);
        const auto before = snapshot(Level::ddr);
        const auto before_l2 = snapshot(Level::l2);
        std::vector<uint8_t> expected(dense_bytes(source));
        gather(memory_, from, expected.data());

        BoundTask task;
        executor_.execute(memory_, task, {from}, {to});
        std::vector<uint8_t> got(dense_bytes(target));
        gather(memory_, to, got.data());
        ASSERT_EQ(got, expected);
        const auto after = snapshot(target.level);
        const auto marks = written(target.level);

        memory_.reset();
        std::copy(before.begin(), before.end(), memory_.level(Level::ddr, 0).data());
        std::copy(before_l2.begin(), before_l2.end(), memory_.level(Level::l2, 0).data());
        std::vector<PendingWrite> pending;
        executor_.evaluate(memory_, task, {from}, {to}, pending);
        ASSERT_EQ(snapshot(target.level), target.level == Level::l2 ? before_l2 : before);
        executor_.commit(memory_, pending);
        ASSERT_EQ(snapshot(target.level), after);
        ASSERT_EQ(written(target.level), marks);
    }
}

// With an untyped side a transfer copies the whole extent, gaps included; unequal extents are refused.
TEST_F(ExecutorTest, UntypedTransferCopiesBytes) {
    randomise(Level::ddr);
    BoundRegion bytes;
    bytes.extent = 100;
    BoundRegion typed = testing::region(ElemType::f16, {5, 2}, Level::l1);
    typed.strides = testing::dims({10, 1});
    typed.dense = false;
    typed.extent = 100;
    executor_.execute(memory_, {}, {{&bytes, 7}}, {{&typed, 3}});
    const auto from = snapshot(Level::ddr);
    const auto to = snapshot(Level::l1);
    EXPECT_TRUE(std::equal(from.begin() + 7, from.begin() + 107, to.begin() + 3));
    EXPECT_TRUE(memory_.level(Level::l1, 0).all_written(3, 100));
    bytes.extent = 99;
    EXPECT_THROW(executor_.execute(memory_, {}, {{&bytes, 7}}, {{&typed, 3}}), UserError);
    const BoundRegion other = testing::region(ElemType::f16, {2, 5});
    EXPECT_THROW(executor_.execute(memory_, {}, {{&other, 0}}, {{&typed, 3}}), UserError);
}

// A task sees its inputs as of its evaluation: what is written between evaluation and commit does not change
// it.
TEST_F(ExecutorTest, EvaluationTakesASnapshot) {
    const BoundRegion x = testing::region(ElemType::i8, {4}, Level::l2);
    const BoundRegion y = testing::region(ElemType::i8, {4}, Level::l1);
    memory_.level(Level::l2, 0).write(0, "\x01\xff\x03\x80", 4);
    std::vector<PendingWrite> pending;
    executor_.evaluate(memory_, compute("relu"), {{&x, 0}}, {{&y, 8}}, pending);
    memory_.level(Level::l2, 0).write(0, "\x7f\x7f\x7f\x7f", 4);
    EXPECT_FALSE(memory_.level(Level::l1, 0).all_written(8, 1));
    executor_.commit(memory_, pending);
    const uint8_t expected[4] = {1, 0, 3, 0};
    EXPECT_EQ(std::memcmp(memory_.level(Level::l1, 0).data() + 8, expected, 4), 0);
    EXPECT_TRUE(memory_.level(Level::l1, 0).all_written(8, 4));
}

// Inputs and outputs may be strided, misaligned, half bytes, or the same region (gemm.acc into its addend).
TEST_F(ExecutorTest, ComputeOnAwkwardRegions) {
    BoundRegion a = testing::region(ElemType::f16, {2, 2}, Level::l1);
    a.strides = testing::dims({1, 2});  // a transposed view
    a.dense = false;
    const BoundRegion b = testing::region(ElemType::f16, {2, 2}, Level::l1);
    const BoundRegion c = testing::region(ElemType::f32, {2, 2}, Level::l1);
    const uint16_t elements[4] = {f16_of(1), f16_of(2), f16_of(3), f16_of(4)};
    const float start[4] = {10, 20, 30, 40};
    MemoryLevel& l1 = memory_.level(Level::l1, 0);
    l1.write(1, elements, 8);  // misaligned
    l1.write(16, elements, 8);
    l1.write(33, start, 16);  // misaligned, addend and output
    executor_.execute(memory_, compute("gemm.acc"), {{&a, 1}, {&b, 16}, {&c, 33}}, {{&c, 33}});
    // [[1,3],[2,4]] x [[1,2],[3,4]] = [[10,14],[14,20]]
    float result[4];
    std::memcpy(result, l1.data() + 33, 16);
    EXPECT_EQ(std::vector<float>(result, result + 4), (std::vector<float>{20, 34, 44, 60}));
}

// An i4 operand is unpacked low half first and packed again the same way.
TEST_F(ExecutorTest, HalfBytesInAndOut) {
    const BoundRegion x = testing::region(ElemType::i4, {3}, Level::l2);
    memory_.level(Level::l2, 0).write(0, "\x8f\xa7", 2);  // -1, -8, 7; the last half byte is a gap
    memory_.level(Level::l1, 0).write(0, "\xff\xff", 2);
    const BoundRegion y = testing::region(ElemType::i4, {3}, Level::l1);
    executor_.execute(memory_, compute("relu"), {{&x, 0}}, {{&y, 0}});
    EXPECT_EQ(memory_.level(Level::l1, 0).data()[0], 0x00);
    EXPECT_EQ(memory_.level(Level::l1, 0).data()[1], 0xf7);
}

// The float environment is the definition's inside, and the caller's again afterwards.
TEST(FloatEnvironmentTest, RestoresTheCallersMode) {
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8040);  // flush to zero, denormals are zero
    volatile float tiny = 1e-40F;
    {
        const FloatEnvironment environment;
        const volatile float kept = tiny * 0.5F;  // volatile: computed here, not where the compiler likes
        EXPECT_EQ(kept, 5e-41F);
    }
    const volatile float flushed = tiny * 0.5F;
    __builtin_ia32_ldmxcsr(before);
    EXPECT_EQ(bits_of(flushed), 0U);
}

}  // namespace
}  // namespace kpu::values
