// Invariants of an explanation: sums that close, and a critical path that is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/explain/run.hpp"
#include "traces/report.hpp"

namespace kpu::explain {
namespace {

using test::example;
using test::random_module;
using test::traced_run;
using test::TracedRun;
using testing::HasSubstr;
using testing::ThrowsMessage;
using traces::no_task;

constexpr uint64_t seeds = 40;

/// Calls `check` with a run of each example and of random programs on several platforms.
void for_each_run(const std::function<void(const TracedRun&, const Explanation&)>& check) {
    const auto explained = [&](const TracedRun& run, const std::string& what) {
        SCOPED_TRACE(what);
        const RunGraph graph(run.recording, what);
        check(run, Explanation(graph));
    };
    const platforms::Platform lite = platforms::load("npm_lite");
    for (const char* name : {"gemm_relu", "conv_pool", "gemm_rmsnorm"})
        explained(traced_run(example(name), lite), name);
    const std::vector<platforms::Platform> devices{lite, platforms::load("npm_mid"),
                                                   platforms::load("edge16")};
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
        const platforms::Platform& platform = devices[seed % devices.size()];
        explained(traced_run(random_module(platform, seed), platform), "seed " + std::to_string(seed));
    }
}

// The critical path tiles the run: segments follow each other from 0 to the last cycle, without gap or
// overlap, and what a unit did in a segment sums to it.
TEST(CriticalPath, IsAsLongAsTheRun) {
    for_each_run([](const TracedRun& run, const Explanation& explanation) {
        Cycles at = 0;
        for (const PathSegment& segment : explanation.path.segments()) {
            ASSERT_EQ(segment.from, at);
            ASSERT_GT(segment.to, segment.from);
            at = segment.to;
            Cycles sum = 0;
            for (const auto& [cause, cycles] : segment.causes) sum += cycles;
            if (segment.unit != traces::no_unit) {
                ASSERT_EQ(sum, segment.to - segment.from);
            }
        }
        EXPECT_EQ(at, run.total());
        Cycles shares = 0;
        for (const PathShare& share : explanation.shares) shares += share.cycles;
        EXPECT_EQ(shares, run.total());
    });
}

// Every segment begins because of what it says: its predecessor is that task, and ends where it begins.
TEST(CriticalPath, NamesWhyItCouldNotBeginEarlier) {
    for_each_run([](const TracedRun&, const Explanation& explanation) {
        const auto& segments = explanation.path.segments();
        const auto& tasks = explanation.graph.tasks();
        for (size_t i = 0; i < segments.size(); ++i) {
            const PathSegment& segment = segments[i];
            ASSERT_NE(segment.because, Because::unknown);
            ASSERT_NE(segment.kind, PathSegment::Kind::stands);
            if (i == 0) {
                EXPECT_EQ(segment.because, Because::start);
                continue;
            }
            ASSERT_EQ(segment.because_task, segments[i - 1].task);
            const TaskRun& before = tasks[segment.because_task];
            if (segment.because == Because::dependency || segment.because == Because::carried) {
                EXPECT_EQ(segment.because == Because::carried,
                          explanation.graph.carries_token(segment.because_task, segment.task));
                const TaskRun& task = tasks[segment.task];
                const auto& graph = explanation.graph;
                EXPECT_EQ(before.end, segment.from);
                // of a loop's token, tasks that are issued later are not listed
                const bool listed = std::find(graph.producers_begin(task), graph.producers_end(task),
                                              segment.because_task) != graph.producers_end(task);
                EXPECT_TRUE(listed || segment.because_task > segment.task);
            }
        }
    });
}

// Every cycle is charged to one operation, as in ops.csv, and the terms of an operation sum to its charge.
TEST(OpTerms, SumToTheRun) {
    for_each_run([](const TracedRun& run, const Explanation& explanation) {
        ASSERT_EQ(explanation.ops.size(), run.ops.size());
        Cycles total = 0;
        for (size_t i = 0; i < run.ops.size(); ++i) {
            const OpTerms& op = explanation.ops[i];
            EXPECT_EQ(op.charged, run.ops[i].charged_cycles) << run.ops[i].id;
            EXPECT_EQ(op.span, run.ops[i].span_cycles) << run.ops[i].id;
            EXPECT_EQ(op.macs, run.ops[i].macs) << run.ops[i].id;
            EXPECT_EQ(op.bytes[static_cast<size_t>(Level::ddr)], run.ops[i].bytes_dram) << run.ops[i].id;
            EXPECT_EQ(op.bytes[static_cast<size_t>(Level::l2)], run.ops[i].bytes_l2) << run.ops[i].id;
            EXPECT_EQ(op.bytes[static_cast<size_t>(Level::l1)], run.ops[i].bytes_l1) << run.ops[i].id;
            Cycles terms = 0;
            for (const Term& term : op.terms) terms += term.cycles;
            EXPECT_EQ(terms, op.charged) << run.ops[i].id;
            total += op.charged;
        }
        EXPECT_EQ(total, run.total());
    });
}

// A run that is cut off, or that deadlocks, is explained up to there, and the text says so.
TEST(Explanation, SaysThatARunIsIncomplete) {
    const platforms::Platform lite = platforms::load("npm_lite");
    for (const Cycles limit : {Cycles{1}, Cycles{1000}, Cycles{30'000}}) {
        const TracedRun run = traced_run(example("gemm_relu"), lite, limit);
        ASSERT_EQ(run.status, runtime::RunStatus::limit_reached);
        const RunGraph graph(run.recording, "cut");
        const Explanation explanation(graph);
        ASSERT_FALSE(explanation.path.segments().empty());
        EXPECT_EQ(explanation.path.segments().back().to, limit);
        EXPECT_EQ(explanation.path.segments().front().from, 0u);
        EXPECT_THAT(text_of_run(explanation, {}), HasSubstr("INCOMPLETE"));
    }
}

// Nothing on the path has slack; a task that could end later has as much as lies between it and what follows.
TEST(CriticalPath, SlackIsZeroOnThePath) {
    for_each_run([](const TracedRun& run, const Explanation& explanation) {
        const auto& tasks = explanation.graph.tasks();
        for (uint32_t t = 0; t < tasks.size(); ++t) {
            const Cycles slack = explanation.path.slack()[t];
            if (explanation.path.is_on_path(t)) {
                EXPECT_EQ(slack, 0u);
            }
            EXPECT_LE(tasks[t].end + slack, run.total());
        }
    });
}

// Records that contradict each other are a user's error that names the file, never a crash.
TEST(RunGraph, RefusesContradictions) {
    const platforms::Platform lite = platforms::load("npm_lite");
    const TracedRun run = traced_run(example("conv_pool"), lite);
    const auto broken = [&](const std::function<bool(traces::Event&)>& change) {
        std::vector<traces::Event> events = run.recording.events.to_vector();
        for (traces::Event& event : events)
            if (change(event)) break;
        return traces::Recording{run.recording.info, std::move(events)};
    };
    const auto of_kind = [](traces::EventKind kind, const std::function<void(traces::Event&)>& change) {
        return [=](traces::Event& event) {
            if (event.kind != kind || event.task < 3) return false;
            change(event);
            return true;
        };
    };
    const std::vector<traces::Recording> recordings{
        broken(of_kind(traces::EventKind::issue, [](traces::Event& e) { e.kind = traces::EventKind::op; })),
        broken(of_kind(traces::EventKind::begin, [](traces::Event& e) { e.kind = traces::EventKind::op; })),
        broken(of_kind(traces::EventKind::ready, [](traces::Event& e) { e.reserved = e.task + 2; })),
        broken(of_kind(traces::EventKind::flow, [](traces::Event& e) { e.value = e.task; })),
        broken(of_kind(traces::EventKind::begin, [](traces::Event& e) { e.value = -1; })),
        broken(of_kind(traces::EventKind::end, [](traces::Event& e) { e.task = 1'000'000; }))};
    for (size_t i = 0; i < recordings.size(); ++i) {
        SCOPED_TRACE(i);
        EXPECT_THAT([&] { RunGraph(recordings[i], "bad.kpuev"); },
                    ThrowsMessage<UserError>(HasSubstr("bad.kpuev")));
    }
}

// A task by its label: its times are those of the records, what it needs ended before it was ready.
TEST(Explanation, TellsOfOneTask) {
    const TracedRun run = traced_run(example("gemm_relu"), platforms::load("npm_lite"));
    const RunGraph graph(run.recording, "test");
    size_t told = 0;
    for (uint32_t serial = 0; serial < graph.tasks().size(); serial += 7) {
        const TaskRun& task = graph.tasks()[serial];
        const std::string label = graph.label(serial), text = text_of_task(graph, label);
        EXPECT_THAT(text, HasSubstr(label + " ("));
        EXPECT_THAT(text, HasSubstr(fmt::format("ends     {:>12}  after {} cycles", traces::grouped(task.end),
                                                traces::grouped(task.end - task.begin))));
        for (const uint32_t* p = graph.producers_begin(task); p != graph.producers_end(task); ++p)
            EXPECT_THAT(text, HasSubstr(fmt::format("{:>12}  {}", traces::grouped(graph.tasks()[*p].end),
                                                    graph.label(*p))));
        told += label.back() == ']' && text_of(graph, label, {}) == text ? 1 : 0;
    }
    EXPECT_GT(told, 10u);
    EXPECT_EQ(text_of_task(graph, "g[t=1,k=2]"), text_of_task(graph, "g[t=1 k=2]"));
    EXPECT_THAT(text_of_task(graph, "g[t=1 k=2]"), HasSubstr("g[t=1 k=1], an earlier iteration"));
    EXPECT_THAT([&] { text_of_task(graph, "g[k=2]"); },
                ::testing::ThrowsMessage<UserError>(HasSubstr("give all loops, as in `g[t=0 k=0]`")));
    EXPECT_THAT([&] { text_of_task(graph, "no[k=2]"); },
                ::testing::ThrowsMessage<UserError>(HasSubstr("give a name of the critical path")));
}

// An unknown operation is refused with the nearest name.
TEST(Explanation, NamesTheNearestOperation) {
    const platforms::Platform lite = platforms::load("npm_lite");
    const TracedRun run = traced_run(example("gemm_relu"), lite);
    const RunGraph graph(run.recording, "run");
    const Explanation explanation(graph);
    EXPECT_THAT(text_of_op(explanation, "g", {}), HasSubstr("charged"));
    EXPECT_THAT([&] { text_of_op(explanation, "narow", {}); },
                ThrowsMessage<UserError>(HasSubstr("`narrow`")));
}

}  // namespace
}  // namespace kpu::explain
