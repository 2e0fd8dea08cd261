#include "base/parallel.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace kpu {
namespace {

TEST(Parallel, EachPieceIsDoneOnceByAKnownWorker) {
    for (const size_t workers : {size_t{1}, size_t{2}, size_t{7}}) {
        std::vector<size_t> times(100, 0), of_worker(workers, 0);
        parallel_for(times.size(), workers, [&](size_t worker, size_t i) {
            ++times[i];
            ++of_worker[worker];  // a worker does one piece at a time
        });
        EXPECT_EQ(times, std::vector<size_t>(100, 1));
        EXPECT_EQ(std::accumulate(of_worker.begin(), of_worker.end(), size_t{0}), 100u);
    }
}

TEST(Parallel, NothingIsNoWork) {
    EXPECT_EQ(workers_for(0, 8), 0u);
    EXPECT_EQ(workers_for(5, 1), 1u);
    EXPECT_LE(workers_for(1000, 3), 3u);
    parallel_for(0, 0, [](size_t, size_t) { FAIL(); });
}

TEST(Parallel, TheFirstErrorIsThrown) {
    for (int round = 0; round < 50; ++round) {
        std::atomic<int> begun{0};
        const auto body = [&](size_t, size_t i) {
            ++begun;
            if (i >= 3) throw std::runtime_error(std::to_string(i));
        };
        try {
            parallel_for(1000, 4, body);
            FAIL() << "nothing was thrown";
        } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "3");
        }
        EXPECT_LT(begun, 1000);
    }
}

/// Ends its process: 0 where work is done by a user (root has no such limit) who may have no further threads.
void work_without_threads() {
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_NPROC, &none) != 0 || (getuid() == 0 && setuid(65534) != 0)) _exit(1);
    std::atomic<size_t> done{0};
    parallel_for(100, 4, [&](size_t worker, size_t) { done += worker == 0 ? 1 : 1000; });
    _exit(done == 100 ? 0 : 2);
}

TEST(ParallelDeathTest, WithoutThreadsTheCallerDoesAll) {
    EXPECT_EXIT(work_without_threads(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace kpu
