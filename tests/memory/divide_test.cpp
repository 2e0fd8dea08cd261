#include "model/memory/divide.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace kpu::model {
namespace {

/// Without a division the quotients are those of the division: for every divisor up to 300, random ones of
/// every length, at random numbers of every length and at both sides of multiples.
TEST(Divisor, DividesExactly) {
    std::mt19937_64 random(5);
    const auto any_length = [&] { return random() >> random() % 64; };
    const auto check = [](const Divisor& divisor, uint64_t x) {
        const uint64_t by = divisor.value();
        ASSERT_EQ(divisor.quotient(x), x / by) << x << " / " << by;
        ASSERT_EQ(divisor.remainder(x), x % by) << x << " / " << by;
        if (x <= ~uint64_t{0} - by) {
            ASSERT_EQ(divisor.ceil(x), (x + by - 1) / by) << x << " / " << by;
        }
    };
    for (uint64_t i = 1; i < 3000; ++i) {
        const Divisor divisor(i <= 300 ? i : std::max<uint64_t>(1, any_length()));
        for (int k = 0; k < 50; ++k) {
            const uint64_t x = any_length(), multiple = x - x % divisor.value();
            check(divisor, x);
            check(divisor, multiple);
            check(divisor, multiple - 1);
        }
        check(divisor, ~uint64_t{0});
        check(divisor, 0);
    }
}

}  // namespace
}  // namespace kpu::model
