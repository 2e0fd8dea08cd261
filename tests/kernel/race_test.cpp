// Races inside kernels, copies that are touched too early, and the order of workgroups.
#include "tests/kernel/support.hpp"

namespace kpu::kernel_test {
namespace {

using values::kernel::KernelRace;
using Kind = KernelRace::Kind;

struct Watched {
    values::kernel::LaunchResult result;
    std::vector<Blob> buffers;
    std::shared_ptr<const Code> code;

    std::string text() const {
        std::string all;
        for (const KernelRace& race : result.races) {
            const values::kernel::RaceText text = race_text(*code, result.grid, race);
            all += text.sentence + ". Fix: " + text.fix + ".\n";
        }
        return all;
    }
};

Watched watch(const std::string& text, std::vector<Blob> buffers, const Grid& grid = {1, 1, 1},
              uint64_t order = 0) {
    Watched run;
    run.code = code_of(text);
    run.buffers = std::move(buffers);
    std::vector<Bytes> storage;
    for (Blob& blob : run.buffers) storage.push_back({blob.data(), blob.size()});
    values::kernel::LaunchLimits limits;
    limits.races = true;
    limits.order_seed = order;
    run.result = run_launch(*run.code, grid, {}, storage, limits);
    return run;
}

TEST(KernelRace, AMissingBarrierNamesBothStatements) {
    const std::string good =
        "kernel k workgroup(8) (o: output u32[8], t: workgroup u32[8]): t[lid.x] = lid.x barrier "
        "o[lid.x] = t[7 - lid.x] endkernel";
    EXPECT_EQ(watch(good, {Blob(32)}).text(), "");
    std::string bad = good;
    bad.erase(bad.find("barrier "), 8);
    const Watched run = watch(bad, {Blob(32)});
    ASSERT_EQ(run.result.races.size(), 1u);
    EXPECT_EQ(run.result.races[0].count, 8u);
    EXPECT_EQ(run.text(),
              "kernel `k`, line 1, `o[lid.x] = t[7 - lid.x]`, invocation (0, 0, 0), reads `t[7]`, which "
              "kernel `k`, "
              "line 1, `t[lid.x] = lid.x`, invocation (7, 0, 0), writes; nothing orders the two. Fix: put a "
              "barrier "
              "between them, or use an atomic.\n");
}

TEST(KernelRace, OfOneStatement) {
    // each lane reads what the next one writes in the same statement
    const Watched shifted =
        watch("kernel k workgroup(4) (o: read_write u32[5]): o[lid.x] = o[lid.x + 1] endkernel", {Blob(20)});
    ASSERT_EQ(shifted.result.races.size(), 1u);
    EXPECT_EQ(shifted.result.races[0].statement, shifted.result.races[0].other);
    const Watched same = watch("kernel k workgroup(4) (o: output u32[1]): o[0] = lid.x endkernel", {Blob(4)});
    ASSERT_EQ(same.result.races.size(), 1u);
    EXPECT_EQ(same.result.races[0].kind, Kind::write_after_write);
    EXPECT_EQ(
        watch("kernel k workgroup(4) (o: read_write u32[4]): o[lid.x] = o[lid.x] + 1 endkernel", {Blob(16)})
            .text(),
        "");
}

TEST(KernelRace, BetweenWorkgroupsABarrierDoesNotHelp) {
    const Watched run = watch("kernel k workgroup(2) (o: output u32[2]): o[lid.x] = wgid.x barrier endkernel",
                              {Blob(8)}, {3, 1, 1});
    ASSERT_EQ(run.result.races.size(), 1u);
    EXPECT_TRUE(run.result.races[0].between_workgroups);
    EXPECT_NE(run.text().find("workgroups have no order"), std::string::npos);
}

TEST(KernelRace, AccessesBehindOthersAreRemembered) {
    // the read of workgroup 0, after two of workgroup 1 that a barrier orders
    const Watched reads = watch(
        "kernel k workgroup(2) (x: read_write u32[1], o: output u32[4]): o[gid.x] = x[0] barrier "
        "if wgid.x == 1: if lid.x == 0: x[0] = 1 endif endif endkernel",
        {Blob(4), Blob(16)}, {2, 1, 1});
    ASSERT_EQ(reads.result.races.size(), 1u);
    EXPECT_EQ(reads.result.races[0].kind, Kind::write_after_read);
    EXPECT_TRUE(reads.result.races[0].between_workgroups);
    // the atomic of lane 0, after that of the lane which reads
    const Watched atomics = watch(
        "kernel k workgroup(2) (x: read_write u32[1], o: output u32[2]): let a = atomic_add(x[0], 1) "
        "if lid.x == 1: o[1] = x[0] endif endkernel",
        {Blob(4), Blob(8)});
    ASSERT_EQ(atomics.result.races.size(), 1u);
    EXPECT_EQ(atomics.result.races[0].kind, Kind::read_after_write);
}

TEST(KernelRace, AtomicsDoNotRaceWithEachOther) {
    EXPECT_EQ(watch("kernel k workgroup(4) (o: read_write u32[1]): let a = atomic_add(o[0], 1) endkernel",
                    {Blob(4)}, {3, 1, 1})
                  .text(),
              "");
    const Watched mixed = watch(
        "kernel k workgroup(4) (o: read_write u32[1]): let a = atomic_add(o[0], 1) let b = o[0] endkernel",
        {Blob(4)});
    EXPECT_EQ(mixed.result.races.size(), 1u);
}

TEST(KernelRace, CopiesInFlight) {
    const std::string kernel =
        "kernel k workgroup(1) (s: read_write u32[4], d: output u32[4]): async_load(s, d, 0, 16, \"t\") {} "
        "async_wait(\"t\") let z = d[0] s[1] = z endkernel";
    const auto with = [&](const std::string& between) {
        std::string text = kernel;
        return watch(text.replace(text.find("{}"), 2, between), {Blob(16), Blob(16)});
    };
    EXPECT_EQ(with("").text(), "");
    const Watched store = with("s[2] = 1");
    ASSERT_EQ(store.result.races.size(), 1u);
    EXPECT_EQ(store.result.races[0].kind, Kind::copy_source);
    EXPECT_EQ(store.result.races[0].element, 2u);
    const Watched load = with("let a = d[3]");
    ASSERT_EQ(load.result.races.size(), 1u);
    EXPECT_EQ(load.result.races[0].kind, Kind::copy_destination);
    EXPECT_NE(load.text().find(
                  "touches `d[3]`, which the copy of kernel `k`, line 1, `async_load(s, d, 0, 16, \"t\")`"),
              std::string::npos);
    EXPECT_EQ(with("let a = s[3]").text(), "");  // reading what is read is no race
    // a second copy into the same bytes
    const Watched twice = with("async_load(s, d, 0, 16, \"u\") async_wait(\"u\")");
    ASSERT_EQ(twice.result.races.size(), 1u);
    EXPECT_EQ(twice.result.races[0].kind, Kind::copy_destination);
}

/// Race-free kernels give the same bytes whatever the order of their workgroups is.
TEST(KernelRace, TheOrderOfWorkgroupsDoesNotMatterWithoutRaces) {
    const std::string kernel =
        "kernel k workgroup(16) (x: read u32[], o: output u32[], c: read_write u32[4], t: workgroup "
        "u32[16]): "
        "t[lid.x] = x[gid.x] * 3 barrier o[gid.x] = t[15 - lid.x] + wgid.x let a = atomic_add(c[x[gid.x] & "
        "3], "
        "gid.x) endkernel";
    std::vector<uint32_t> x;
    for (uint32_t i = 0; i < 512; ++i) x.push_back(i * 2654435761u);
    const std::vector<Blob> buffers = {words(x), Blob(2048), Blob(16)};
    const Watched first = watch(kernel, buffers, {32, 1, 1});
    EXPECT_EQ(first.text(), "");
    for (uint64_t order = 1; order <= 100; ++order)
        ASSERT_EQ(watch(kernel, buffers, {32, 1, 1}, order).buffers, first.buffers) << order;
}

}  // namespace
}  // namespace kpu::kernel_test
