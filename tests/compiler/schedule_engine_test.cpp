// The engine: arena, tensor store, and ops one after another.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>

#include "runtime/schedule_engine/engine.hpp"
#include "tests/compiler/plain_machine.hpp"
#include "tests/compiler/schedule_test.hpp"

namespace kpu::tile_schedule {
namespace {

using testing::HasSubstr;
using Matrix = std::vector<float>;

template <class Call>
std::string message_of(Call&& call) {
    try {
        call();
    } catch (const UserError& error) {
        return error.what();
    }
    return "accepted";
}

// Aligned to a cache line and zero at first; clear makes it zero again.
TEST(SramArena, AllocatesAndClears) {
    SramArena arena(1000);
    EXPECT_EQ(arena.total_bytes(), 1000u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.ptr(0)) % 64, 0u);
    EXPECT_EQ(arena.ptr(128) - arena.ptr(0), 128);
    for (uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(*arena.ptr(i), 0);
    *arena.ptr(999) = 7;
    arena.clear();
    EXPECT_EQ(*arena.ptr(999), 0);
}

// The last byte is inside, the next is not, and nothing wraps around.
TEST(SramArena, ChecksBounds) {
    SramArena arena(4096);
    EXPECT_NO_THROW(arena.validate(0, 4096));
    EXPECT_NO_THROW(arena.validate(4095, 1));
    EXPECT_THAT(message_of([&] { arena.ptr(4095, 2); }),
                HasSubstr("address 4095 and 2 bytes leave the arena, which has 4096"));
    EXPECT_THROW(arena.ptr(4096), UserError);
    EXPECT_THROW(arena.validate(8, UINT64_MAX), UserError);
    EXPECT_THROW(SramArena(0), UserError);
    EXPECT_THROW(SramArena((uint64_t{1} << 32) + 1), UserError);
}

// Ids count from 0; names are unique and found again, with the nearest one named when not.
TEST(TensorStore, Registers) {
    TensorStore store{Format{}};
    EXPECT_EQ(store.register_tensor("x", 128, 100), 0u);
    EXPECT_EQ(store.register_tensor("w1", 100, 64), 1u);
    EXPECT_EQ(store.name_to_id("w1"), 1u);
    EXPECT_THAT(message_of([&] { store.name_to_id("w2"); }), HasSubstr("did you mean `w1`"));
    EXPECT_THAT(message_of([&] { store.register_tensor("x", 1, 1); }), HasSubstr("registered already"));
    EXPECT_THROW(store.register_tensor("", 1, 1), UserError);
    EXPECT_THROW(store.register_tensor("y", 0, 1), UserError);
    EXPECT_THROW(store.register_tensor("y", uint64_t{1} << 32, 1), UserError);
    EXPECT_THROW(store.tensor(2), UserError);
}

// Tiles of a row-major tensor padded to whole tiles: row * tile * padded columns + col * tile elements.
TEST(TensorStore, TilePointers) {
    TensorStore store{Format{}};
    const uint32_t id = store.register_tensor("x", 33, 65);  // 2 x 3 tiles
    EXPECT_EQ(store.row_bytes(id), 96u * 4);
    uint8_t* const base = store.tile_ptr(id, 0, 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(base) % 64, 0u);
    EXPECT_EQ(store.tile_ptr(id, 1, 2) - base, (32 * 96 + 2 * 32) * 4);
    EXPECT_THROW(store.tile_ptr(id, 2, 0), UserError);
    EXPECT_THROW(store.tile_ptr(id, 0, 3), UserError);
}

// Elements come out as they went in; the padding around them is zero.
TEST(TensorStore, RoundTripWithZeroPadding) {
    TensorStore store{Format{}};
    const uint32_t id = store.register_tensor("x", 3, 5);
    Matrix in(15), out(15);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) + 1;
    store.set_data(id, in.data(), 60);
    store.get_data(id, out.data(), 60);
    EXPECT_EQ(in, out);
    const auto* tile = reinterpret_cast<const float*>(store.tile_ptr(id, 0, 0));
    EXPECT_EQ(tile[4], 5);
    EXPECT_EQ(tile[5], 0);
    EXPECT_EQ(tile[32 * 3], 0);
    EXPECT_THROW(store.set_data(id, in.data(), 56), UserError);
    EXPECT_THROW(store.get_data(id, out.data(), 64), UserError);
}

class EngineTest : public testing::Test {
  protected:
    EngineTest() : engine_(EngineConfig{}) {
        for (const char* name : {"A", "B", "C"}) engine_.register_tensor(name, 32, 32);
        engine_.set_tensor("A", a_.data(), a_.size());
        engine_.set_tensor("B", b_.data(), b_.size());
    }
    static Matrix matrix(float (*value)(size_t row, size_t col)) {
        Matrix m(32 * 32);
        for (size_t i = 0; i < m.size(); ++i) m[i] = value(i / 32, i % 32);
        return m;
    }
    Matrix result() {
        Matrix c(32 * 32);
        engine_.get_tensor("C", c.data(), c.size());
        return c;
    }
    static std::vector<Op> product(Activation activation = Activation::none) {
        return {Load{0, 0, 0, 0, 4096, -1}, Load{1, 0, 0, 4096, 4096, -1},
                Execute{0, 0, 0, 0, 4096, 8192, -1}, Store{2, 0, 0, 8192, 4096, activation, -1}};
    }
    Matrix a_ = matrix([](size_t r, size_t c) { return r == c ? 1.0F : 0.0F; });
    Matrix b_ = matrix([](size_t r, size_t c) { return static_cast<float>(r) - static_cast<float>(c); });
    Engine engine_;
};

// The identity leaves the other operand as it is.
TEST_F(EngineTest, IdentityProduct) {
    engine_.execute(product());
    EXPECT_EQ(result(), b_);
    EXPECT_EQ(engine_.stats().loads, 2u);
    EXPECT_EQ(engine_.stats().executes, 1u);
    EXPECT_EQ(engine_.stats().stores, 1u);
}

// Row sums known by hand: all ones times (r - c) has 32 * 31 / 2 - 32 c in column c.
TEST_F(EngineTest, KnownProduct) {
    const Matrix ones(32 * 32, 1.0F);
    engine_.set_tensor("A", ones.data(), ones.size());
    engine_.execute(product());
    EXPECT_EQ(result(), matrix([](size_t, size_t c) { return 496.0F - 32.0F * static_cast<float>(c); }));
}

// k > 0 adds to what is there; k == 0 begins again; the arena is zero at each execute.
TEST_F(EngineTest, Accumulates) {
    auto ops = product();
    ops.insert(ops.begin() + 3, Execute{0, 0, 1, 0, 4096, 8192, -1});
    engine_.execute(ops);
    EXPECT_EQ(result(),
              matrix([](size_t r, size_t c) { return 2 * (static_cast<float>(r) - static_cast<float>(c)); }));
    ops = product();
    std::get<Execute>(ops[2]).k = 5;  // an accumulator that nobody has touched is zero
    engine_.execute(ops);
    EXPECT_EQ(result(), b_);
}

// Negative values become zero, the others stay.
TEST_F(EngineTest, ReluOnStore) {
    engine_.execute(product(Activation::relu));
    EXPECT_EQ(result(), matrix([](size_t r, size_t c) { return r > c ? static_cast<float>(r - c) : 0.0F; }));
}

// The packed form executes as the list does; the same list again counts again, and takes the same time.
TEST_F(EngineTest, PackedFormStatsAndTiming) {
    Schedule schedule;
    schedule.ops = product();
    engine_.execute_packed(write_schedule(schedule, Form::packed));
    EXPECT_EQ(result(), b_);
    const ScheduleTiming once = engine_.timing();
    EXPECT_GT(once.dma_busy, 0u);
    EXPECT_GT(once.compute_busy, 0u);
    EXPECT_LE(once.dma_busy + once.compute_busy, once.cycles);  // nothing to overlap with
    engine_.execute(product());
    EXPECT_EQ(engine_.timing().cycles, 2 * once.cycles);
    EXPECT_EQ(engine_.stats().loads, 4u);
    EXPECT_THAT(message_of([&] { engine_.execute_packed("tile 32 f32\n"); }),
                HasSubstr("not a schedule in the packed form"));
}

// An illegal op anywhere: the right error, and nothing has run.
TEST_F(EngineTest, NothingRunsOfAnIllegalSchedule) {
    auto ops = product();
    ops.push_back(Load{9, 0, 0, 0, 4096, -1});
    EXPECT_THAT(message_of([&] { engine_.execute(ops); }),
                HasSubstr("op 4, LOAD tensor 9[0,0]: there is no tensor 9"));
    EXPECT_EQ(result(), Matrix(32 * 32, 0.0F));
    EXPECT_EQ(engine_.stats().loads, 0u);
    ops.back() = Load{0, 0, 0, 262144 - 4096 + 64, 4096, -1};
    EXPECT_THAT(message_of([&] { engine_.execute(ops); }),
                HasSubstr("address 258112 and 4096 bytes leave the arena, which has 262144 bytes"));
    ops = product();
    ops.insert(ops.begin() + 3, Execute{0, 0, 0, 0, 4096, 8192, -1});
    EXPECT_THAT(message_of([&] { engine_.execute(ops); }),
                HasSubstr("op 3, EXECUTE (0,0,0): k = 0 clears the partial sum of op 2, EXECUTE (0,0,0)"));
}

// A trace has a line for each op of the last execute.
TEST(Engine, Traces) {
    EngineConfig config;
    config.trace = true;
    Engine engine(config);
    engine.register_tensor("x", 32, 32);
    engine.execute({Load{0, 0, 0, 0, 4096, -1}});
    EXPECT_THAT(engine.trace(), testing::ElementsAre("0 LOAD x[0,0]"));
}

// Random legal schedules of all types: the engine gives what the plain machine gives, in every tensor.
TEST(Engine, RandomSchedulesEqualThePlainMachine) {
    for (uint64_t seed = 0; seed < 1000 && !HasFatalFailure(); ++seed) {
        SCOPED_TRACE(fmt::format("seed {}", seed));
        const auto random = plain::random_schedule(seed);
        EngineConfig config;
        config.sram_bytes = random.arena_bytes;
        config.tile = random.schedule.header.format.tile;
        config.elem = random.schedule.header.format.elem;
        Engine engine(config);
        plain::Machine plain(random.schedule.header, random.arena_bytes);
        for (const Tensor& tensor : random.schedule.header.tensors) {
            engine.register_tensor(tensor.name, tensor.rows, tensor.cols, tensor.elem, tensor.scale);
            const auto data = random.inputs.find(tensor.name);
            if (data == random.inputs.end()) continue;
            engine.set_tensor(tensor.name, data->second.data(), uint64_t{tensor.rows} * tensor.cols);
            plain.set(tensor.name, data->second);
        }
        for (int round = 0; round < 2; ++round) {  // the second finds what the first has left in DRAM
            engine.execute(random.schedule.ops);
            plain.run(random.schedule.ops);
            for (const Tensor& tensor : random.schedule.header.tensors) {
                const std::string expected = plain.get(tensor.name);
                std::string found(expected.size(), '\0');
                engine.get_tensor(tensor.name, found.data(), uint64_t{tensor.rows} * tensor.cols);
                ASSERT_EQ(found, expected) << tensor.name;
            }
        }
    }
}

}  // namespace
}  // namespace kpu::tile_schedule
