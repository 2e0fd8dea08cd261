// Random kernels: the interpreter and the fast path give the same bytes, steps, errors and accesses outside.
#include <cstdlib>

#include "tests/kernel/random_kernel.hpp"
#include "tests/kernel/support.hpp"

namespace kpu::kernel_test {
namespace {

uint64_t kernels_to_run() {
    const char* wanted = std::getenv("KPUSIM_RANDOM_KERNELS");
    return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 3000;
}

TEST(KernelRandom, TheFastPathIsTheInterpreter) {
    uint64_t faults = 0, outside = 0, steps = 0;
    const uint64_t count = kernels_to_run();
    for (uint64_t seed = 0; seed < count && !::testing::Test::HasFailure(); ++seed) {
        const RandomKernel kernel = seed % 4 == 3 ? tame_kernel(seed) : random_kernel(seed);
        SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + kernel.text);
        const auto code = code_of(kernel.text);
        const Launched fast = run_one(*code, kernel.buffers, kernel.grid, kernel.scalars, false, 200000);
        const Launched reference = run_one(*code, kernel.buffers, kernel.grid, kernel.scalars, true, 200000);
        ASSERT_EQ(fast.error.empty(), reference.error.empty()) << fast.error << reference.error;
        faults += fast.error.empty() ? 0 : 1;
        if (!fast.error.empty()) continue;  // of several lanes at fault, another may be named
        ASSERT_EQ(fast.buffers, reference.buffers);
        ASSERT_EQ(fast.result.complete, reference.result.complete);
        ASSERT_EQ(fast.result.steps, reference.result.steps);
        ASSERT_EQ(fast.result.outside.size(), reference.result.outside.size());
        for (size_t i = 0; i < fast.result.outside.size(); ++i) {
            ASSERT_EQ(fast.result.outside[i].statement, reference.result.outside[i].statement);
            ASSERT_EQ(fast.result.outside[i].count, reference.result.outside[i].count);
            ASSERT_EQ(fast.result.outside[i].first_index, reference.result.outside[i].first_index);
        }
        outside += fast.result.outside.size();
        steps += fast.result.steps;
    }
    // the kernels do something
    EXPECT_GT(steps, count * 20);
    EXPECT_GT(outside, count / 10);
    EXPECT_LT(faults, count / 4);
}

}  // namespace
}  // namespace kpu::kernel_test
