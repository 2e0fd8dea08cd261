// The order in which the invocations of a workgroup go, and what happens at barriers, tags and faults.
#include "tests/kernel/support.hpp"

namespace kpu::kernel_test {
namespace {

using List = std::vector<uint32_t>;

TEST(KernelSchedule, ARacyKernelHasOneResult) {
    // a statement is atomic, lanes go in order: each sees what the one before stored
    const Launched r = run(
        "kernel k workgroup(8) (o: read_write u32[9]): o[lid.x + 1] = o[lid.x] + 1 endkernel", {Blob(36)});
    EXPECT_EQ(read(r.buffers[0]), (List{0, 1, 2, 3, 4, 5, 6, 7, 8}));
    const Launched sum =
        run("kernel k workgroup(8) (o: read_write u32[1]): o[0] = o[0] + lid.x endkernel", {Blob(4)});
    EXPECT_EQ(read(sum.buffers[0])[0], 28u);
    // a later lane's element is read before that lane stores it
    const Launched shifted =
        run("kernel k workgroup(4) (o: read_write u32[5]): o[lid.x] = o[lid.x + 1] endkernel",
            {words({1, 2, 3, 4, 5})});
    EXPECT_EQ(read(shifted.buffers[0]), (List{2, 3, 4, 5, 5}));
    const Launched indexed = run(
        "kernel k workgroup(4) (o: read_write u32[4]): o[o[lid.x]] = lid.x endkernel", {words({1, 2, 3, 0})});
    EXPECT_EQ(read(indexed.buffers[0]), (List{1, 0, 3, 2}));
}

TEST(KernelSchedule, TheThenSideGoesFirstAndLanesMeetBehind) {
    const Launched r =
        run("kernel k workgroup(4) (c: read_write u32[1], o: output u32[8]): "
            "if lid.x >= 2: let a = atomic_add(c[0], 1) o[lid.x] = a else: let b = atomic_add(c[0], 1) "
            "o[lid.x] = b "
            "endif let d = atomic_add(c[0], 1) o[4 + lid.x] = d endkernel",
            {Blob(4), Blob(32)});
    EXPECT_EQ(read(r.buffers[1]), (List{2, 3, 0, 1, 4, 5, 6, 7}));
}

TEST(KernelSchedule, LanesMeetBehindLoops) {
    const Launched r =
        run("kernel k workgroup(4) (c: read_write u32[1], o: output u32[4]): "
            "loop i in 0..lid.x: let a = atomic_add(c[0], 1) endloop let d = atomic_add(c[0], 100) o[lid.x] "
            "= d endkernel",
            {Blob(4), Blob(16)});
    EXPECT_EQ(read(r.buffers[1]), (List{6, 106, 206, 306}));  // no lane leaves before the last trip of any
    const Launched w = run(
        "kernel k workgroup(4) (o: output u32[4]): let n = lid.x let t = 0 while n != 0: n = n - 1 t = t + 2 "
        "endwhile o[lid.x] = t endkernel",
        {Blob(16)});
    EXPECT_EQ(read(w.buffers[0]), (List{0, 2, 4, 6}));
}

/// Checks that statements of an empty loop take no steps, so nothing would end it.
TEST(KernelSchedule, TripsOfAnEmptyLoopTakeNoTime) {
    const Launched r = run(
        "kernel k workgroup(4) (c: read_write u32[1], o: output u32[4]): "
        "loop i in 0..4294967295: endloop if lid.x != 1: loop i in lid.x..4294967290 + lid.x: endloop endif "
        "let d = atomic_add(c[0], 1) loop i in atomic_add(c[0], 10)..4294967295: endloop o[lid.x] = d "
        "endkernel",
        {Blob(4), Blob(16)});
    EXPECT_EQ(read(r.buffers[1]), (List{0, 1, 2, 3}));
    EXPECT_EQ(read(r.buffers[0])[0], 44u);  // bounds are read once
}

TEST(KernelSchedule, LanesThatReturnedDoNotCount) {
    const Launched r =
        run("kernel k workgroup(8) (o: output u32[8], t: workgroup u32[8]): if lid.x >= 4: return endif "
            "t[lid.x] = lid.x barrier o[lid.x] = t[3 - lid.x] loop i in 0..3: if i == 1: return endif "
            "o[lid.x + 4] = i + 7 "
            "endloop endkernel",
            {Blob(32)});
    EXPECT_EQ(read(r.buffers[0]), (List{3, 2, 1, 0, 7, 7, 7, 7}));
}

TEST(KernelSchedule, AUniformBranchMayChangeBetweenTrips) {
    const Launched r =
        run("kernel k workgroup(4) (o: output u32[4], t: workgroup u32[4]): let s = 0 loop i in 0..4: "
            "if (i & 1) == 1: t[lid.x] = i + lid.x barrier s = s + t[3 - lid.x] barrier endif endloop "
            "o[lid.x] = s endkernel",
            {Blob(16)});
    EXPECT_EQ(r.error, "");
    EXPECT_EQ(read(r.buffers[0]), (List{10, 8, 6, 4}));
}

TEST(KernelSchedule, ABranchThatDivergesAtABarrierIsAnError) {
    // the value of c is uniform wherever it is assigned; who assigns it is not
    const std::string text =
        "kernel k workgroup(4) (o: output u32[4]): let c = 0 if lid.x == 2: c = 1 endif ";
    const Launched branch = run(text + "if c == 1: barrier endif endkernel", {Blob(16)});
    EXPECT_NE(branch.error.find(
                  "program violates uniform-control-flow rule: Barrier appears inside an If whose condition "
                  "differs across the workgroup. Fix: make the condition uniform or move Barrier outside the "
                  "branch."),
              std::string::npos)
        << branch.error;
    const Launched otherwise = run(text + "if c == 1: else: barrier endif endkernel", {Blob(16)});
    EXPECT_NE(otherwise.error.find("Barrier appears inside an If"), std::string::npos) << otherwise.error;
    const Launched loop = run(text + "loop i in 0..c: barrier endloop endkernel", {Blob(16)});
    EXPECT_NE(loop.error.find(
                  "invocation (2, 0, 0) waits, invocation (0, 0, 0) does not: program violates "
                  "uniform-control-flow rule: not every live invocation reached the same barrier. Fix: move "
                  "Barrier to uniform control flow."),
              std::string::npos)
        << loop.error;
}

TEST(KernelSchedule, WorkgroupMemoryStartsAsZerosEachTime) {
    const Launched r =
        run("kernel k workgroup(2) (o: output u32[6], t: workgroup u32[2]): o[gid.x] = t[lid.x] t[lid.x] = 5 "
            "endkernel",
            {Blob(24)}, {3, 1, 1});
    EXPECT_EQ(read(r.buffers[0]), List(6, 0));
}

TEST(KernelSchedule, WorkgroupsGoXFastest) {
    const Launched r =
        run("kernel k workgroup(1) (c: read_write u32[1], o: output u32[8]): let a = atomic_add(c[0], 1) "
            "o[a] = wgid.x + 2 * wgid.y + 4 * wgid.z endkernel",
            {Blob(4), Blob(32)}, {2, 2, 2});
    EXPECT_EQ(read(r.buffers[1]), (List{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(KernelSchedule, IdsOfThreeAxes) {
    const Launched r =
        run("kernel k workgroup(2, 3, 2) (o: output u32[24]): o[gid.x + 2 * gid.y + 6 * gid.z] = lid.x + 10 "
            "* lid.y + "
            "100 * lid.z + 1000 * wgid.z endkernel",
            {Blob(96)}, {1, 1, 2});
    EXPECT_EQ(read(r.buffers[0])[0], 0u);
    EXPECT_EQ(read(r.buffers[0])[11], 121u);
    EXPECT_EQ(read(r.buffers[0])[23], 1121u);
}

TEST(KernelSchedule, TagsArePrivateAndPaired) {
    const std::string buffers = "kernel k workgroup(2) (s: read u32[4], d: read_write u32[4]): ";
    EXPECT_EQ(read(run(buffers + "async_store(s, d, lid.x * 8, 8, \"t\") async_wait(\"t\") endkernel",
                       {words({1, 2, 3, 4}), Blob(16)})
                       .buffers[1]),
              (List{1, 2, 1, 2}));
    const Launched twice =
        run(buffers + "async_load(s, d, 0, 4, \"t\") async_load(s, d, 0, 4, \"t\") endkernel",
            {words({1, 2, 3, 4}), Blob(16)});
    EXPECT_NE(
        twice.error.find(
            "async transfer tag `t` was started more than once before a matching wait. Fix: reuse the tag "
            "only after AsyncWait completes."),
        std::string::npos);
    const Launched lone = run(buffers + "async_wait(\"t\") endkernel", {words({1, 2, 3, 4}), Blob(16)});
    EXPECT_NE(
        lone.error.find(
            "async wait for tag `t` has no matching async transfer. Fix: emit AsyncLoad or AsyncStore before "
            "AsyncWait."),
        std::string::npos);
    const Launched large =
        run("kernel k workgroup(1) (s: read u64[1], d: read_write u32[4]): async_load(s, d, 0, s[0], \"t\") "
            "endkernel",
            {blob<uint64_t>({uint64_t{1} << 60}), Blob(16)});
    EXPECT_NE(large.error.find("async load size exceeds host usize."), std::string::npos) << large.error;
}

TEST(KernelSchedule, ATrapNamesItsInvocationAndRegion) {
    const Launched r =
        run("kernel k workgroup(4) (o: output u32[4]):\n region \"outer\":\n region \"check\":\n if lid.x == "
            "3:\n trap(7, \"bad\")\n"
            " endif endregion endregion endkernel",
            {Blob(16)}, {2, 1, 1});
    EXPECT_EQ(r.error,
              "kernel `k`, region outer/check, line 5, `trap(7, \"bad\")`, invocation (3, 0, 0): reference "
              "dispatch trapped: "
              "address=7, tag=`bad`. Fix: handle the trap condition or route this Program through a "
              "backend/runtime with replay "
              "support.");
}

TEST(KernelSchedule, AnEndlessLoopStopsAtItsLimit) {
    const auto code = code_of(
        "kernel k workgroup(4) (o: output u32[4]): while true: o[lid.x] = o[lid.x] + 1 endwhile endkernel");
    for (const bool reference : {false, true}) {
        const Launched r = run_one(*code, {Blob(16)}, {1, 1, 1}, {}, reference, 1000);
        EXPECT_FALSE(r.result.complete);
        EXPECT_EQ(r.result.steps, 1000u);
        EXPECT_EQ(read(r.buffers[0]), List(4, 125));
    }
}

TEST(KernelSchedule, ScalarsAreVariablesOfTheLaunch) {
    const Launched r =
        run("kernel k workgroup(1) (o: output u32[2], n: u32, m: i32): o[0] = n * 2 o[1] = u32(m) endkernel",
            {Blob(8)}, {1, 1, 1}, {21, static_cast<uint32_t>(-1)});
    EXPECT_EQ(read(r.buffers[0]), (List{42, UINT32_MAX}));
}

TEST(KernelSchedule, ExchangesSeeTheStartOfTheRound) {
    const Launched r =
        run("kernel k workgroup(8) (o: output u32[8]): let v = lid.x v = shuffle(v, (lid.x + 1) % 8) "
            "o[lid.x] = v endkernel",
            {Blob(32)});
    EXPECT_EQ(read(r.buffers[0]), (List{1, 2, 3, 4, 5, 6, 7, 0}));
    // lanes that are elsewhere do not take part
    const Launched part =
        run("kernel k workgroup(8) (o: output u32[8]): if lid.x % 2 == 1: o[lid.x] = ballot(true) else: "
            "o[lid.x] = "
            "subgroup_add(lid.x) endif endkernel",
            {Blob(32)});
    EXPECT_EQ(read(part.buffers[0]), (List{12, 0xaa, 12, 0xaa, 12, 0xaa, 12, 0xaa}));
    const Launched nested =
        run("kernel k workgroup(4) (m: read_write u32[4]): m[lid.x] = subgroup_add(shuffle(m[lid.x], 3 - "
            "lid.x) * lid.x) + "
            "atomic_add(m[3], 0) endkernel",
            {words({1, 2, 3, 4})});
    EXPECT_EQ(nested.error, "");
}

}  // namespace
}  // namespace kpu::kernel_test
