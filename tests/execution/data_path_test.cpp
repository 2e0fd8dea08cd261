#include "execution/data_path.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/execution/add_one_backend.hpp"
#include "tests/execution/program_maker.hpp"
#include "tests/execution/stepper.hpp"

namespace kpu::execution::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t size = 64;

/// DDR buffer D (an input), L2 buffers A and B, each of 64 bytes; regions over the whole of each.
struct Scene {
    ProgramMaker m;
    uint32_t buffer_d = m.buffer("D", Level::ddr, size), buffer_a = m.buffer("A", Level::l2, size),
             buffer_b = m.buffer("B", Level::l2, size);
    uint32_t d = m.region("rD", buffer_d, 0, size), a = m.region("rA", buffer_a, 0, size),
             b = m.region("rB", buffer_b, 0, size);

    Scene() {
        TensorSpec input;
        input.name = "D";
        input.buffer = buffer_d;
        input.shape = {size};
        m.program.inputs.push_back(input);
    }
    /// Returns a u8 window of a buffer.
    uint32_t bytes(uint32_t buffer, int64_t offset, int64_t count) {
        return m.typed("r", buffer, offset, ElemType::u8, {count}, {1});
    }
    uint32_t compute(const std::string& name, uint32_t dst, std::vector<uint32_t> src) {
        const uint32_t statement = m.task(name);
        m.at(statement).inputs = std::move(src);
        m.at(statement).outputs = {dst};
        return statement;
    }
};

/// Starts and finishes tasks by name, in whatever order a test wants.
class Flight {
  public:
    Flight(const BoundProgram& program, bool with_values, bool report = true)
        : memory(program.ddr_bytes, program.l2_bytes, program.l1_bytes),
          data(program, with_values ? &memory : nullptr, with_values ? &backend : nullptr, report),
          steps_(program) {
        if (with_values) {
            for (const TensorSpec& input : program.inputs) {
                const std::vector<uint8_t> bytes(program.buffers[input.buffer].size, 7);
                memory.level(Level::ddr, 0)
                    .write(program.buffers[input.buffer].base, bytes.data(), bytes.size());
            }
        }
        steps_.controller.start();
    }
    void start(const std::string& name) {
        TaskInstance& task = find(name);
        steps_.controller.started(task);
        data.task_started(task);
    }
    void finish(const std::string& name) {
        TaskInstance& task = find(name);
        data.task_completed(task);
        steps_.ready.erase(std::find(steps_.ready.begin(), steps_.ready.end(), &task));
        steps_.controller.completed(task);
    }
    void run(const std::string& name) {
        start(name);
        finish(name);
    }
    uint8_t l2(uint64_t address) const { return memory.level(Level::l2, 0).data()[address]; }
    uint64_t count(HazardKind kind) const { return data.hazards().count(kind); }

    AddOneBackend backend;
    values::MemoryImage memory;
    DataPath data;

  private:
    TaskInstance& find(const std::string& name) {
        for (TaskInstance* task : steps_.ready) {
            if (steps_.label(*task) == name) return *task;
        }
        throw std::runtime_error(name + " is not ready");
    }
    Stepper steps_;
};

class DataPathModes : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Values, DataPathModes, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "with_values" : "timing_only"; });

// Tokens order each task after the one before: no hazard, whatever the regions.
TEST_P(DataPathModes, SequenceIsClean) {
    Scene s;
    const uint32_t load = s.m.transfer("load", s.a, s.d);
    const uint32_t copy = s.m.transfer("copy", s.b, s.a);
    s.m.at(copy).deps = {load};
    s.m.at(s.m.transfer("again", s.a, s.d)).deps = {copy};
    Flight f(s.m.program, GetParam());
    for (const char* name : {"load", "copy", "again"}) f.run(name);
    EXPECT_EQ(f.data.hazards().count(), 0u);
}

// The same without tokens, one after the other in this run: each pair is a race all the same.
TEST_P(DataPathModes, SequenceWithoutTokensRaces) {
    Scene s;
    s.m.transfer("load", s.a, s.d);
    s.m.transfer("copy", s.b, s.a);
    s.m.transfer("again", s.a, s.d);
    Flight f(s.m.program, GetParam());
    for (const char* name : {"load", "copy", "again"}) f.run(name);
    EXPECT_EQ(f.count(HazardKind::raw), 1u) << "copy reads what load wrote";
    EXPECT_EQ(f.count(HazardKind::war), 1u) << "again writes what copy read";
    EXPECT_EQ(f.count(HazardKind::waw), 1u) << "again writes what load wrote";
    EXPECT_EQ(f.data.hazards().count(), 3u);
}

// A reader that came before the write that the text has before it: stale. What it read was there before.
TEST_P(DataPathModes, ReadBeforeItsWriteIsStale) {
    Scene s;
    const uint32_t load = s.m.transfer("load", s.a, s.d);
    s.m.at(s.m.transfer("reload", s.a, s.d)).deps = {load};
    s.m.at(s.m.transfer("copy", s.b, s.a)).deps = {load};
    Flight f(s.m.program, GetParam());
    for (const char* name : {"load", "copy", "reload"}) f.run(name);
    EXPECT_EQ(f.count(HazardKind::stale), 1u);
    EXPECT_EQ(f.data.hazards().count(), 1u);
    EXPECT_THAT(to_string(f.data.hazards().findings()[0]),
                HasSubstr("task `reload` writes bytes 0..63 of L2 buffer `A` after task `copy`"));
}

// Every second byte of 200,000: too many runs to remember, so only tasks in flight together are compared, and
// the log says why.
TEST_P(DataPathModes, TooManyRunsAreComparedInFlightOnly) {
    constexpr int64_t runs = 100'000;
    Scene s;
    const uint32_t large = s.m.buffer("large", Level::l2, 2 * runs);
    const uint32_t sparse = s.m.typed("sparse", large, 0, ElemType::u8, {runs}, {2});
    const uint32_t dense = s.bytes(s.m.buffer("dense", Level::ddr, runs), 0, runs);
    for (const char* name : {"one", "two", "three"}) s.m.transfer(name, sparse, dense);
    Flight f(s.m.program, GetParam());
    f.run("one");
    EXPECT_THAT(f.data.hazards().limited(), HasSubstr("from task `one` on"));
    f.start("two");
    f.start("three");
    EXPECT_EQ(f.count(HazardKind::waw), 1u) << "two and three; one is over";
}

// The same in order: no run can have a race, so that none is looked for, and nothing is left out.
TEST_P(DataPathModes, ManyRunsInOrderAreRuledOutBefore) {
    constexpr int64_t runs = 100'000;
    Scene s;
    const uint32_t large = s.m.buffer("large", Level::l2, 2 * runs);
    const uint32_t sparse = s.m.typed("sparse", large, 0, ElemType::u8, {runs}, {2});
    const uint32_t dense = s.bytes(s.m.buffer("dense", Level::ddr, runs), 0, runs);
    uint32_t last = s.m.transfer("one", sparse, dense);
    for (const char* name : {"two", "three"}) {
        const uint32_t next = s.m.transfer(name, sparse, dense);
        s.m.at(next).deps = {last};
        last = next;
    }
    Flight f(s.m.program, GetParam());
    for (const char* name : {"one", "two", "three"}) f.run(name);
    EXPECT_EQ(f.data.hazards().limited(), "");
    EXPECT_EQ(f.count(HazardKind::waw), 0u);
}

// Preparation of race detection takes its time for long programs, and can be interrupted, and asked for
// again.
TEST_P(DataPathModes, PreparationCanBeInterrupted) {
    Scene s;
    s.m.transfer("load", s.a, s.d);
    s.m.transfer("again", s.a, s.d);
    Flight f(s.m.program, GetParam());
    std::atomic<bool> interrupt{true};
    EXPECT_FALSE(f.data.prepare(&interrupt));
    interrupt = false;
    EXPECT_TRUE(f.data.prepare(&interrupt));
    for (const char* name : {"load", "again"}) f.run(name);
    EXPECT_EQ(f.count(HazardKind::waw), 1u);
}

// Many unordered readers of the same bytes are each a race of their own with the writer after them.
TEST_P(DataPathModes, EveryUnorderedReaderRaces) {
    Scene s;
    const uint32_t load = s.m.transfer("load", s.a, s.d);
    const uint32_t first = s.m.transfer("first", s.b, s.a);
    s.m.at(first).deps = {load};
    s.m.at(s.m.transfer("second", s.bytes(s.buffer_d, 0, size), s.a)).deps = {load};
    s.m.at(s.m.transfer("again", s.a, s.d)).deps = {first};
    Flight f(s.m.program, GetParam());
    for (const char* name : {"load", "first", "second", "again"}) f.run(name);
    EXPECT_EQ(f.count(HazardKind::war), 1u) << "second, not first";
    EXPECT_EQ(f.count(HazardKind::raw), 1u) << "again reads D, which second writes";
}

// A read of what is still being written: raw, once, and not reported as unwritten as well.
TEST_P(DataPathModes, ReadOfInFlightWrite) {
    Scene s;
    s.m.transfer("load", s.a, s.d);
    s.m.transfer("copy", s.b, s.a);
    Flight f(s.m.program, GetParam());
    f.start("load");
    f.start("copy");
    EXPECT_EQ(f.count(HazardKind::raw), 1u);
    EXPECT_EQ(f.data.hazards().count(), 1u);
}

// A write of what is still being read: war.
TEST_P(DataPathModes, WriteOfInFlightRead) {
    Scene s;
    const uint32_t load = s.m.transfer("load", s.a, s.d);
    s.m.at(s.m.transfer("copy", s.b, s.a)).deps = {load};
    s.m.at(s.m.transfer("again", s.a, s.d)).deps = {load};
    Flight f(s.m.program, GetParam());
    f.run("load");
    f.start("copy");
    f.start("again");
    EXPECT_EQ(f.count(HazardKind::war), 1u);
    EXPECT_EQ(f.data.hazards().count(), 1u);
}

// Two writes of the same bytes in flight: waw.
TEST_P(DataPathModes, WriteOfInFlightWrite) {
    Scene s;
    s.m.transfer("load", s.a, s.d);
    s.m.transfer("again", s.a, s.d);
    Flight f(s.m.program, GetParam());
    f.start("load");
    f.start("again");
    EXPECT_EQ(f.count(HazardKind::waw), 1u);
    EXPECT_EQ(f.data.hazards().count(), 1u);
}

// Neighbours, readers of the same bytes, equal addresses in other levels, and interleaved columns share no
// byte.
TEST_P(DataPathModes, NoCommonByteNoHazard) {
    Scene s;
    const auto even = s.m.typed("even", s.buffer_a, 0, ElemType::u8, {32}, {2});
    const auto odd = s.m.typed("odd", s.buffer_a, 1, ElemType::u8, {32}, {2});
    const auto source = s.bytes(s.buffer_d, 0, 32);
    s.m.transfer("even", even, source);
    s.m.transfer("odd", odd, source);
    s.m.transfer("low", s.bytes(s.buffer_b, 0, 32), source);
    s.m.transfer("high", s.bytes(s.buffer_b, 32, 32), source);
    Flight f(s.m.program, GetParam());
    for (const char* name : {"even", "odd", "low", "high"}) f.start(name);
    for (const char* name : {"high", "odd", "low", "even"}) f.finish(name);
    EXPECT_EQ(f.data.hazards().count(), 0u);
}

// One shared element of two strided regions is enough.
TEST_P(DataPathModes, OneCommonByteIsAHazard) {
    Scene s;
    const auto even = s.m.typed("even", s.buffer_a, 0, ElemType::u8, {32}, {2});
    s.m.transfer("even", even, s.bytes(s.buffer_d, 0, 32));
    s.m.transfer("one", s.bytes(s.buffer_a, 62, 1), s.bytes(s.buffer_d, 0, 1));
    Flight f(s.m.program, GetParam());
    f.start("even");
    f.start("one");
    EXPECT_EQ(f.count(HazardKind::waw), 1u);
    EXPECT_EQ(f.data.hazards().findings().at(0).first, 62u);
    EXPECT_EQ(f.data.hazards().findings().at(0).last, 62u);
}

// A read of bytes that nobody wrote names them; host inputs count as written.
TEST_P(DataPathModes, UnwrittenRead) {
    Scene s;
    const uint32_t half = s.m.transfer("half", s.bytes(s.buffer_a, 0, 32), s.bytes(s.buffer_d, 0, 32));
    s.m.at(s.m.transfer("copy", s.b, s.a)).deps = {half};
    s.m.add_positions();
    Flight f(s.m.program, GetParam());
    f.run("half");
    EXPECT_EQ(f.data.hazards().count(), 0u);
    f.run("copy");
    ASSERT_EQ(f.count(HazardKind::unwritten), 1u);
    EXPECT_EQ(to_string(f.data.hazards().findings().at(0)),
              "hazard (unwritten): task `copy` at p.nem:2:1 reads bytes 32..63 of L2 buffer `A`, which "
              "nobody wrote. "
              "Fix: wait for the task that writes them, or give the buffer an input.");
}

// A task that reads and writes the same region does not conflict with itself.
TEST_P(DataPathModes, InPlaceIsNoHazard) {
    Scene s;
    const uint32_t load = s.m.transfer("load", s.a, s.d);
    const auto in_place = s.bytes(s.buffer_a, 0, size);
    s.m.at(s.compute("inc", in_place, {in_place})).deps = {load};
    Flight f(s.m.program, GetParam());
    f.run("load");
    f.run("inc");
    EXPECT_EQ(f.data.hazards().count(), 0u);
    if (!GetParam()) return;
    EXPECT_EQ(f.l2(5), 8);
}

// The same pair again and again is one finding with a count.
TEST_P(DataPathModes, FindingsAreDeduplicated) {
    Scene s;
    s.m.loop("i", 0, 2, 3);
    s.m.transfer("load", s.a, s.d);
    s.m.end();
    s.m.add_positions();
    Flight f(s.m.program, GetParam());
    for (const char* name : {"load(i=0)", "load(i=1)", "load(i=2)"}) f.start(name);
    ASSERT_EQ(f.data.hazards().findings().size(), 1u);
    EXPECT_EQ(f.data.hazards().findings()[0].count, 2u) << "each with the writer before it";
    EXPECT_EQ(f.data.hazards().count(), 2u);
    EXPECT_THAT(
        to_string(f.data.hazards().findings()[0]),
        HasSubstr(
            "task `load` (i=1) at p.nem:2:1 writes bytes 0..63 of L2 buffer `A`, which task `load` (i=0) at "
            "p.nem:2:1 writes too; nothing orders the two; 2 times"));
}

// A reader that started before a writer commits sees the old bytes, however late it completes.
TEST(DataPath, ReaderSeesItsInputsAsOfItsStart) {
    Scene s;
    s.m.transfer("load", s.a, s.d);
    s.m.transfer("copy", s.b, s.a);
    const auto typed = s.bytes(s.buffer_a, 0, size);
    s.compute("overwrite", typed, {s.bytes(s.buffer_d, 0, size)});
    Flight f(s.m.program, true);
    f.run("load");
    f.start("copy");
    f.start("overwrite");
    f.finish("overwrite");
    EXPECT_EQ(f.l2(0), 8) << "the writer has published";
    f.finish("copy");
    EXPECT_EQ(f.l2(size), 7) << "the reader copied what it saw at its start";
    EXPECT_EQ(f.count(HazardKind::war), 1u);
}

// A reader that starts while a writer is in flight sees the bytes from before the writer publishes.
TEST(DataPath, ReaderOfInFlightWriteSeesOldBytes) {
    Scene s;
    s.m.transfer("load", s.a, s.d);
    s.compute("overwrite", s.bytes(s.buffer_a, 0, size), {s.bytes(s.buffer_d, 0, size)});
    s.m.transfer("copy", s.b, s.a);
    Flight f(s.m.program, true);
    f.run("load");
    f.start("overwrite");
    f.start("copy");
    f.finish("overwrite");
    f.finish("copy");
    EXPECT_EQ(f.l2(0), 8);
    EXPECT_EQ(f.l2(size), 7);
}

// Values do not depend on whether hazards are reported.
TEST(DataPath, LateEvaluationIsExactWithoutReports) {
    Scene s;
    s.m.transfer("load", s.a, s.d);
    s.m.transfer("copy", s.b, s.a);
    s.compute("overwrite", s.bytes(s.buffer_a, 0, size), {s.bytes(s.buffer_d, 0, size)});
    Flight f(s.m.program, true, false);
    f.run("load");
    f.start("copy");
    f.run("overwrite");
    f.finish("copy");
    EXPECT_EQ(f.l2(size), 7);
    EXPECT_EQ(f.data.hazards().count(), 0u);
}

// Two tasks that swap through each other's inputs both see the bytes as of their start.
TEST(DataPath, CrossedTasksBothSeeTheirStart) {
    Scene s;
    const auto a = s.bytes(s.buffer_a, 0, size), b = s.bytes(s.buffer_b, 0, size);
    s.m.transfer("load", s.a, s.d);
    s.compute("one", b, {a});
    s.compute("left", a, {b});
    s.compute("right", b, {a});
    Flight f(s.m.program, true);
    f.run("load");
    f.run("one");  // A = 7, B = 8
    f.start("left");
    f.start("right");
    f.finish("right");
    f.finish("left");
    EXPECT_EQ(f.l2(0), 9) << "left read B before right wrote it";
    EXPECT_EQ(f.l2(size), 8) << "right read A before left wrote it";
}

// A rewrite of the bytes that are there already is benign: weights reloaded under a reader.
TEST(DataPath, RewriteOfTheSameBytesIsBenign) {
    Scene s;
    const uint32_t load = s.m.transfer("load", s.a, s.d);
    s.m.at(s.m.transfer("use", s.b, s.a)).deps = {load};
    s.m.at(s.m.transfer("reload", s.a, s.d)).deps = {load};
    Flight f(s.m.program, true);
    f.run("load");
    f.start("use");
    f.start("reload");
    EXPECT_EQ(f.data.hazards().benign(), 0u) << "not known before the commit";
    f.finish("reload");
    f.finish("use");
    EXPECT_EQ(f.data.hazards().count(), 1u);
    EXPECT_EQ(f.data.hazards().benign(), 1u);
    EXPECT_THAT(to_string(f.data.hazards().findings()[0]), HasSubstr("benign"));
}

// Equal bytes of two writers in flight are benign although the first changed them: the second decides.
TEST(DataPath, EqualWritersAreBenign) {
    Scene s;
    s.m.transfer("load", s.a, s.d);
    s.m.transfer("again", s.a, s.d);
    s.compute("other", s.bytes(s.buffer_a, 0, size), {s.bytes(s.buffer_d, 0, size)});
    Flight f(s.m.program, true);
    f.start("load");
    f.start("again");
    f.finish("load");
    EXPECT_EQ(f.data.hazards().benign(), 0u);
    f.finish("again");
    EXPECT_EQ(f.data.hazards().benign(), 1u);
}

// Different bytes are never benign, in either order of completion.
TEST(DataPath, UnequalWritersAreNotBenign) {
    for (const bool swap : {false, true}) {
        Scene s;
        s.m.transfer("load", s.a, s.d);
        s.compute("other", s.bytes(s.buffer_a, 0, size), {s.bytes(s.buffer_d, 0, size)});
        Flight f(s.m.program, true);
        f.start("load");
        f.start("other");
        f.finish(swap ? "other" : "load");
        f.finish(swap ? "load" : "other");
        EXPECT_EQ(f.data.hazards().count(), 1u);
        EXPECT_EQ(f.data.hazards().benign(), 0u);
        EXPECT_THAT(to_string(f.data.hazards().findings()[0]), Not(HasSubstr("benign")));
        EXPECT_EQ(f.l2(0), swap ? 7 : 8) << "the last to complete wins";
    }
}

// Work of a task: bytes of elements, not of gaps, per level.
TEST(DataPath, WorkCountsElements) {
    Scene s;
    const auto gaps = s.m.typed("gaps", s.buffer_a, 0, ElemType::u8, {16}, {2});
    const auto load = s.m.transfer("load", gaps, s.bytes(s.buffer_d, 0, 16));
    s.m.at(load).macs = 3;
    const TaskTraffic work = traffic_of(s.m.program, s.m.at(load));
    EXPECT_THAT(work.read, ElementsAre(16, 0, 0));
    EXPECT_THAT(work.written, ElementsAre(0, 16, 0));
    EXPECT_EQ(work.macs, 3u);
}

}  // namespace
}  // namespace kpu::execution::test
