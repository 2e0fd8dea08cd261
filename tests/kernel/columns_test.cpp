// Columns give the same bits whatever instructions their loops are compiled for.
#include "values/kernel/columns.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "values/kernel/lanes/arithmetic.hpp"

namespace kpu::values::kernel {
namespace {

TEST(Columns, WideAndNarrowLoopsGiveTheSameBits) {
    if (!has_wide_instructions()) GTEST_SKIP() << "this machine has narrow loops only";
    std::mt19937 random(1);
    const uint32_t edges[] = {0,           0x80000000u, 1,           0x807fffffu, 0x00800000u,
                              0x3f800000u, 0x7f7fffffu, 0x7f800000u, 0xff800000u, 0x7fa12345u};
    const auto word = [&] {
        return random() % 4 == 0 ? edges[random() % 10] : static_cast<uint32_t>(random());
    };
    constexpr size_t count = 4099;  // no multiple of a vector
    std::vector<uint32_t> a(count), b(count), c(count);
    for (std::vector<uint32_t>* column : {&a, &b, &c})
        for (uint32_t& value : *column) value = word();
    const auto same = [&](auto f) {
        std::vector<uint32_t> wide(count), narrow(count);
        each_wide(count, [&](size_t i) { wide[i] = f(i); });
        each_narrow(count, [&](size_t i) { narrow[i] = f(i); });
        EXPECT_EQ(wide, narrow);
    };
    const auto real = [](uint32_t bits) { return float_of(kpu::kernel::canonical(bits)); };
    same([&](size_t i) { return static_cast<uint32_t>(fused(a[i], b[i], c[i])); });
    same([&](size_t i) { return word_of(real(a[i]) + real(b[i])); });
    same([&](size_t i) { return word_of(real(a[i]) * real(b[i])); });
    same([&](size_t i) { return word_of(real(a[i]) / real(b[i])); });
    same([&](size_t i) { return word_of(std::sqrt(real(a[i]))); });
    same([&](size_t i) { return word_of(std::round(real(a[i]))); });
    same([&](size_t i) { return word_of(std::floor(real(a[i]))); });
    same([&](size_t i) { return bits_of(static_cast<float>(a[i])); });
    same([&](size_t i) { return bits_of(static_cast<float>(static_cast<int32_t>(a[i]))); });
    same([&](size_t i) { return a[i] * b[i] + c[i]; });
}

TEST(Columns, ConsecutiveElementsDoNotWrap) {
    const uint32_t row[] = {7, 8, 9}, twice[] = {7, 8, 8}, last[] = {UINT32_MAX - 1, UINT32_MAX, 0};
    EXPECT_TRUE(consecutive(row, 3));
    EXPECT_FALSE(consecutive(twice, 3));
    EXPECT_FALSE(consecutive(last, 3));
    EXPECT_FALSE(consecutive(row, 0));
}

}  // namespace
}  // namespace kpu::values::kernel
