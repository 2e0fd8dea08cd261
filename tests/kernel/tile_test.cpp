// Operations on tiles, rule set xla: values of docs/kernels.md and of measured XLA.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "isa/kernel/tile_code.hpp"
#include "tests/kernel/support.hpp"

namespace kpu::kernel_test {
namespace {

/// Returns what `expression` of tiles a and b gives; both are buffers of n elements of a type.
Blob compute(const std::string& expression, const std::string& type, const std::string& result, const Blob& a,
             const Blob& b, size_t n) {
    const std::string text = "kernel k rules(xla) workgroup(1) (a: read " + type + "[" + std::to_string(n) +
                             "], b: read " + type + "[" + std::to_string(n) + "], y: write " + result + "[" +
                             std::to_string(n) + "]):\n let x = a[window{" + std::to_string(n) +
                             "}()]\n let z = b[window{" + std::to_string(n) + "}()]\n y[window{" +
                             std::to_string(n) + "}()] = " + expression + "\nendkernel\n";
    const size_t width = result == "u8" || result == "i8" ? 1 : result == "bf16" || result == "f16" ? 2 : 4;
    const Launched run = run_one(*code_of(text), {a, b, Blob(n * width)}, {1, 1, 1}, {}, false);
    EXPECT_EQ(run.error, "");
    return run.buffers[2];
}
template <typename T>
std::vector<T> compute(const std::string& expression, const std::string& type, const std::vector<T>& a,
                       const std::vector<T>& b = {}) {
    const std::vector<T> second = b.empty() ? a : b;
    return read<T>(compute(expression, type, type, blob(a), blob(second), a.size()));
}
std::vector<uint32_t> floats(const std::string& expression, const std::vector<uint32_t>& a,
                             const std::vector<uint32_t>& b = {}) {
    return compute<uint32_t>(expression, "f32", a, b);
}

constexpr int32_t least = INT32_MIN, most = INT32_MAX;
constexpr uint32_t nan_bits = 0x7fc00000, inf = 0x7f800000, minus = 0x80000000;
uint32_t bits(float value) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    return word;
}

TEST(Tile, ShiftsTakeUnsignedAmounts) {
    const std::vector<int32_t> amounts = {31, 32, 33, -1, 64};
    const std::vector<int32_t> ones(5, 1), eights(5, -8);
    EXPECT_EQ(compute("x << z", "i32", ones, amounts), (std::vector<int32_t>{least, 0, 0, 0, 0}));
    EXPECT_EQ(compute("shr_logical(x, z)", "i32", eights, amounts), (std::vector<int32_t>{1, 0, 0, 0, 0}));
    EXPECT_EQ(compute("x >> z", "i32", eights, amounts), std::vector<int32_t>(5, -1));
    EXPECT_EQ(compute("x << z", "i8", std::vector<int8_t>{1}, {8}), std::vector<int8_t>{0});
    EXPECT_EQ(compute("x >> z", "i8", std::vector<int8_t>{-8}, {8}), std::vector<int8_t>{-1});
}

TEST(Tile, MemoryOfWhatNothingReadsAnyMore) {
    const auto code = code_of(R"(kernel k rules(xla) workgroup(1) (x: read f32[4], y: write f32[4]):
    let a = x[window{4}()]
    let b = a + a
    let unused = b * 2.0
    let c = b - 1.0
    loop i in 0i32..2i32:
        let d = c + b
        c = d * d
    endloop
    let e = 1.0 < 2.0
    if e:
        y[window{4}()] = c
    endif
    y[window{4}()] = c + 1.0
endkernel
)");
    std::map<std::string, std::vector<std::string>> dead;
    for (uint32_t s = 0; s < code->statements.size(); ++s)
        for (uint32_t i = code->tiles->statements[s].dead_begin; i < code->tiles->statements[s].dead_end; ++i)
            dead[kpu::kernel::statement_text(code->body->statement(static_cast<int>(s)))].push_back(
                code->variables[code->tiles->dead[i]].name);
    // b is read in a loop, which begins again, e by a block
    EXPECT_EQ(dead, (decltype(dead){{"let b = a + a", {"a"}},
                                    {"let unused = b * 2.0", {"unused"}},
                                    {"c = d * d", {"d"}},
                                    {"y[window{4}()] = c + 1.0", {"c"}}}));
    EXPECT_EQ(
        read<float>(run_one(*code, {blob(std::vector<float>{0, 1, 2, 3}), Blob(16)}, {1, 1, 1}, {}, false)
                        .buffers[1]),
        (std::vector<float>{2, 122, 2810, 16130}));
}

TEST(Tile, AMistakeIsSaidOnce) {
    const std::string errors =
        errors_of(R"(kernel k rules(xla) workgroup(1) (x: read f32[4], y: write f32[4]):
    let a = x[window{4}()] ^ x[window{4}()]
    let b = a + 1.0
    loop i in 0i32..2i32:
        let c = b * b
        b = c
    endloop
    y[window{4}()] = b
    y[window{4}()] = missing
endkernel
)");
    EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n') + (errors.back() != '\n'), 2) << errors;
    EXPECT_THAT(errors, testing::HasSubstr("`bit_xor`: not defined for `f32`"));
    EXPECT_THAT(errors, testing::HasSubstr("undeclared variable `missing`"));
}

TEST(Tile, QuotientsThatDoNotExist) {
    const std::vector<int32_t> a = {7, -7, 7, -7, 7, 0, least}, b = {2, 2, -2, -2, 0, 0, -1};
    EXPECT_EQ(compute("x / z", "i32", a, b), (std::vector<int32_t>{3, -3, -3, 3, -1, -1, least}));
    EXPECT_EQ(compute("x % z", "i32", a, b), (std::vector<int32_t>{1, -1, 1, -1, 7, 0, 0}));
    EXPECT_EQ(compute("x / z", "u32", std::vector<uint32_t>{9, 0}, {0, 0}),
              (std::vector<uint32_t>{~0u, ~0u}));
}

TEST(Tile, IntegersWrapAtTheirWidth) {
    EXPECT_EQ(compute("x + z", "i8", std::vector<int8_t>{127}, {1}), std::vector<int8_t>{-128});
    EXPECT_EQ(compute("abs(x)", "i32", std::vector<int32_t>{least, -3}), (std::vector<int32_t>{least, 3}));
    EXPECT_EQ(compute("integer_pow{3}(x)", "i32", std::vector<int32_t>{3, 65536}),
              (std::vector<int32_t>{27, 0}));
    EXPECT_EQ(compute("clz(x)", "i8", std::vector<int8_t>{0, 1, -1}), (std::vector<int8_t>{8, 7, 0}));
    EXPECT_EQ(compute("popcount(x)", "i8", std::vector<int8_t>{0, 1, -1}), (std::vector<int8_t>{0, 1, 8}));
}

TEST(Tile, SubnormalsAreZeroInArithmeticAndKeptInMoves) {
    constexpr uint32_t sub = 1, least_normal = 0x00800000;
    EXPECT_EQ(floats("x + z", {sub, minus | sub}, {sub, minus | sub}), (std::vector<uint32_t>{0, minus}));
    EXPECT_EQ(floats("x * 0.5", {least_normal}), std::vector<uint32_t>{0});
    EXPECT_EQ(floats("neg(x)", {sub, nan_bits}), (std::vector<uint32_t>{minus | sub, minus | nan_bits}));
    EXPECT_EQ(floats("max(x, z)", {sub}, {0}), std::vector<uint32_t>{0});
    EXPECT_EQ(floats("select(x == z, x, z)", {sub}, {0}), std::vector<uint32_t>{sub});
    EXPECT_EQ(floats("exp(x)", {bits(-100)}), std::vector<uint32_t>{0});
}

TEST(Tile, OrderOfFloats) {
    EXPECT_EQ(floats("max(x, z)", {0, minus, nan_bits, 0}, {minus, 0, 0, nan_bits}),
              (std::vector<uint32_t>{0, 0, nan_bits, nan_bits}));
    EXPECT_EQ(floats("min(x, z)", {0, minus}, {minus, 0}), (std::vector<uint32_t>{minus, minus}));
    EXPECT_EQ(floats("sign(x)", {minus, nan_bits, bits(-3)}),
              (std::vector<uint32_t>{minus, nan_bits, bits(-1)}));
    const std::vector<uint32_t> mixed = {nan_bits, inf, 0, minus | inf, minus, 1, bits(2), minus | nan_bits};
    EXPECT_EQ(floats("sort{0}(x)", mixed),
              (std::vector<uint32_t>{minus | inf, 0, minus, 1, bits(2), inf, nan_bits, minus | nan_bits}));
}

TEST(Tile, Rounding) {
    std::vector<uint32_t> halves, away, even;
    for (const float value : {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, -0.2F}) halves.push_back(bits(value));
    for (const float value : {1.F, 2.F, 3.F, -1.F, -2.F, -3.F, -0.F}) away.push_back(bits(value));
    for (const float value : {0.F, 2.F, 2.F, -0.F, -2.F, -2.F, -0.F}) even.push_back(bits(value));
    EXPECT_EQ(floats("round(x)", halves), away);
    EXPECT_EQ(floats("round_even(x)", halves), even);
}

TEST(Tile, Conversions) {
    std::vector<float> values = {std::nanf(""), INFINITY, -INFINITY, 3e9F, -3e9F, -1.5F, 1.9F, 300, -129};
    const Blob in = blob(values);
    EXPECT_EQ(read<int32_t>(compute("i32(x)", "f32", "i32", in, in, 9)),
              (std::vector<int32_t>{0, most, least, most, least, -1, 1, 300, -129}));
    EXPECT_EQ(read<uint32_t>(compute("u32(x)", "f32", "u32", in, in, 9)),
              (std::vector<uint32_t>{0, ~0u, 0, 3000000000u, 0, 0, 1, 300, 0}));
    EXPECT_EQ(read<int8_t>(compute("i8(x)", "f32", "i8", in, in, 9)),
              (std::vector<int8_t>{0, 127, -128, 127, -128, -1, 1, 127, -128}));
    EXPECT_EQ(read<uint8_t>(compute("u8(bool(x))", "f32", "u8", words({nan_bits, 0, minus, 1}),
                                    words({0, 0, 0, 0}), 4)),
              (std::vector<uint8_t>{1, 0, 0, 0}));
    EXPECT_EQ(read<int8_t>(compute("i8(x)", "i32", "i8", words({300, static_cast<uint32_t>(-129), 70000}),
                                   words({0, 0, 0}), 3)),
              (std::vector<int8_t>{44, 127, 112}));
    EXPECT_EQ(read<uint32_t>(compute("f32(x)", "i32", "f32", words({16777217, 16777219}), words({0, 0}), 2)),
              (std::vector<uint32_t>{0x4B800000, 0x4B800002}));
    EXPECT_EQ(read<uint16_t>(compute("bf16(x)", "f32", "bf16", words({0x3F808000, 0x3F818000, 0x7f7fffff}),
                                     words({0, 0, 0}), 3)),
              (std::vector<uint16_t>{0x3F80, 0x3F82, 0x7F80}));
    EXPECT_EQ(read<uint16_t>(compute("f16(x)", "f32", "f16",
                                     words({bits(65520), bits(65519), bits(6e-8F), bits(2e-8F)}),
                                     words({0, 0, 0, 0}), 4)),
              (std::vector<uint16_t>{0x7C00, 0x7BFF, 1, 0}));
}

TEST(Tile, FloatsOfEightBits) {
    const auto eighths = [](const std::string& expression, const std::vector<uint8_t>& a,
                            const std::vector<uint8_t>& b = {}) {
        return compute<uint8_t>("bitcast{u8}(" + expression + ")", "u8", a, b);
    };
    const std::string x = "bitcast{f8_e4m3fn}(x)", z = "bitcast{f8_e4m3fn}(z)";
    // 448 + 32 is NaN, 1 + 1/16 is 1 (to even), 1.125 * 1.125 is 1.25, -0 + -0 stays
    EXPECT_EQ(eighths(x + " + " + z, {0x7e, 0x38, 0x80}, {0x60, 0x18, 0x80}),
              (std::vector<uint8_t>{0x7f, 0x38, 0x80}));
    EXPECT_EQ(eighths(x + " * " + z, {0x39, 0x01, 0x7f}, {0x39, 0x30, 0x38}),
              (std::vector<uint8_t>{0x3a, 0, 0x7f}));
    EXPECT_EQ(eighths("neg(" + x + ")", {0x38, 0, 0x80, 1}), (std::vector<uint8_t>{0xb8, 0x80, 0, 0x81}));
    EXPECT_EQ(eighths("select(x == z, " + x + ", " + z + ")", {0xff, 1}, {0xff, 2}),
              (std::vector<uint8_t>{0xff, 2}));
    EXPECT_EQ(compute<uint8_t>("u8(" + x + " < " + z + ")", "u8", {0x80, 0xb8, 0x7f}, {0, 0x38, 0x7f}),
              (std::vector<uint8_t>{0, 1, 0}));
    EXPECT_EQ(eighths("bitcast{f8_e4m3b11fnuz}(x) + bitcast{f8_e4m3b11fnuz}(z)", {0x7f, 1}, {0x7f, 0x81}),
              (std::vector<uint8_t>{0x80, 0}));
    const std::string floats = "bitcast{u8}(f8_e5m2(x))";
    EXPECT_EQ(
        read<uint8_t>(compute(floats, "f32", "u8", words({bits(57344), bits(-1e9F), nan_bits, minus, 1}),
                              words({0, 0, 0, 0, 0}), 5)),
        (std::vector<uint8_t>{0x7b, 0xfc, 0x7e, 0x80, 0}));
}

TEST(Tile, WholeNumbersOfFourBits) {
    const auto nibbles = [](const std::string& expression, const std::vector<int8_t>& a,
                            const std::vector<int8_t>& b = {}) {
        return compute<int8_t>("i8(" + expression + ")", "i8", a, b);
    };
    EXPECT_EQ(nibbles("i4(x)", {7, 8, -9, 16, -128}), (std::vector<int8_t>{7, -8, 7, 0, 0}));
    EXPECT_EQ(nibbles("i4(x) + i4(z)", {7, -8}, {1, -1}), (std::vector<int8_t>{-8, 7}));
    EXPECT_EQ(nibbles("i4(x) / i4(z)", {-8, 5, -7}, {-1, 0, 2}), (std::vector<int8_t>{-8, -1, -3}));
    EXPECT_EQ(nibbles("i4(x) >> i4(z)", {-8, -8, 7}, {1, -1, 5}), (std::vector<int8_t>{-4, -1, 0}));
    EXPECT_EQ(nibbles("shr_logical(i4(x), i4(z))", {-8, -8, -1}, {1, -1, 3}), (std::vector<int8_t>{4, 0, 1}));
    EXPECT_EQ(nibbles("u4(x) >> u4(z)", {8, 7}, {1, 1}), (std::vector<int8_t>{12, 3}));
    EXPECT_EQ(nibbles("u4(x) - u4(z)", {0}, {1}), (std::vector<int8_t>{15}));
    EXPECT_EQ(nibbles("neg(i2(x))", {-2, 1, 3}), (std::vector<int8_t>{-2, -1, 1}));
    const std::vector<float> values = {7.9F, 8, -8.9F, -9, std::nanf(""), INFINITY, -0.9F};
    EXPECT_EQ(read<int8_t>(compute("i8(i4(x))", "f32", "i8", blob(values), blob(values), 7)),
              (std::vector<int8_t>{7, 7, -8, -8, 0, 7, 0}));
    EXPECT_EQ(read<int8_t>(compute("i8(u4(x))", "f32", "i8", blob(values), blob(values), 7)),
              (std::vector<int8_t>{7, 8, 0, 0, 0, 15, 0}));
    // row 2r is the low half of row r
    const std::string rows = "bitcast{i4}(reshape{2, 2}(x))";
    EXPECT_EQ(nibbles("reshape{4}(slice{0, 0, 2, 2, 1, 1}(" + rows + "))", {0x21, 0x43, 0x65, -121}),
              (std::vector<int8_t>{1, 3, 2, 4}));
    EXPECT_EQ(compute<int8_t>("reshape{4}(bitcast{i8}(" + rows + "))", "i8", {0x21, 0x43, 0x65, -121}),
              (std::vector<int8_t>{0x21, 0x43, 0x65, -121}));
}

TEST(Tile, PowersAndRemaindersOfFloats) {
    const auto f = [](std::initializer_list<float> list) {
        std::vector<uint32_t> words;
        for (const float value : list) words.push_back(bits(value));
        return words;
    };
    const float nan = std::nanf("");
    EXPECT_EQ(floats("pow(x, z)", f({0, 0, -2, 1, nan, -0.F}), f({0, -1, 2, nan, 0, -3})),
              f({1, INFINITY, 4, 1, 1, -INFINITY}));
    EXPECT_EQ(floats("x % z", f({5.5, -5.5, 5.5, 2, -0.F}), f({2, 2, -2, INFINITY, 2})),
              f({1.5, -1.5, 1.5, 2, -0.F}));
}

/// Returns a kernel from f32[2, 3] to what `expression` of x is, n elements of a type.
template <typename T>
std::vector<T> shaped(const std::string& expression, const std::string& type, size_t n,
                      const std::string& shape) {
    const std::string text = "kernel k rules(xla) workgroup(1) (a: read i32[6], y: write " + type + "[" +
                             std::to_string(n) + "]):\n let x = a[window{2, 3}()]\n y[window{" + shape +
                             "}()] = " + expression + "\nendkernel\n";
    const Launched run =
        run_one(*code_of(text), {blob(std::vector<int32_t>{0, 1, 2, 3, 4, 5}), Blob(n * sizeof(T))},
                {1, 1, 1}, {}, false);
    EXPECT_EQ(run.error, "");
    return read<T>(run.buffers[1]);
}
using Ints = std::vector<int32_t>;
Ints shaped(const std::string& expression, size_t n, const std::string& shape) {
    return shaped<int32_t>(expression, "i32", n, shape);
}

TEST(Tile, Moves) {
    EXPECT_EQ(shaped("transpose{1, 0}(x)", 6, "3, 2"), (Ints{0, 3, 1, 4, 2, 5}));
    EXPECT_EQ(shaped("reverse{1}(x)", 6, "2, 3"), (Ints{2, 1, 0, 5, 4, 3}));
    EXPECT_EQ(shaped("slice{0, 0, 2, 3, 1, 2}(x)", 4, "2, 2"), (Ints{0, 2, 3, 5}));
    EXPECT_EQ(shaped("broadcast_to{2, 2, 3, 1, 2}(x)", 12, "2, 2, 3"),
              (Ints{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(shaped("concat{0}(x, x)", 12, "4, 3"), (Ints{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(shaped("pad{0, 1, 0, -1, 1, 0}(x, 9i32)", 9, "3, 3"), (Ints{9, 0, 1, 9, 9, 9, 9, 3, 4}));
    EXPECT_EQ(shaped("pad{-1, 0, 0, 0, 0, 0}(x, 9i32)", 3, "1, 3"), (Ints{3, 4, 5}));
    EXPECT_EQ(shaped("dynamic_slice{1, 2}(x, 5i32, 1i32)", 2, "1, 2"), (Ints{4, 5}));
    EXPECT_EQ(shaped("dynamic_update(x, broadcast_to{1, 2}(7i32), 0i32, 9i32)", 6, "2, 3"),
              (Ints{0, 7, 7, 3, 4, 5}));
    EXPECT_EQ(shaped("roll{1, 0, 0}(x, 1i32)", 6, "2, 3"), (Ints{2, 0, 1, 5, 3, 4}));
    EXPECT_EQ(shaped("roll{1, 1, 0}(x, 1i32)", 6, "2, 3"), (Ints{2, 0, 1, 4, 5, 3}));
    EXPECT_EQ(shaped("iota{i32, 1, 2, 3}()", 6, "2, 3"), (Ints{0, 1, 2, 0, 1, 2}));
    EXPECT_EQ(shaped<int16_t>("bitcast{i16}(x)", "i16", 12, "4, 3"),
              (std::vector<int16_t>{0, 1, 2, 0, 0, 0, 3, 4, 5, 0, 0, 0}));
    EXPECT_EQ(shaped("bitcast{i32}(bitcast{u8}(x))", 6, "2, 3"), (Ints{0, 1, 2, 3, 4, 5}));
}

TEST(Tile, Reductions) {
    EXPECT_EQ(shaped("reduce_sum{0}(x)", 3, "3"), (Ints{3, 5, 7}));
    EXPECT_EQ(shaped("reduce_prod{0, 1}(x + 1i32)", 1, ""), (Ints{720}));
    EXPECT_EQ(shaped("reduce_max{1}(x)", 2, "2"), (Ints{2, 5}));
    EXPECT_EQ(shaped("argmax{1}(neg(x))", 2, "2"), (Ints{0, 0}));
    EXPECT_EQ(shaped("cumulative_sum{1, 0}(x)", 6, "2, 3"), (Ints{0, 1, 3, 3, 7, 12}));
    EXPECT_EQ(shaped("cumulative_sum{1, 1}(x)", 6, "2, 3"), (Ints{3, 3, 2, 12, 9, 5}));
    EXPECT_EQ(shaped("sort_index{1, 1}(x)", 6, "2, 3"), (Ints{2, 1, 0, 2, 1, 0}));
    EXPECT_EQ(shaped("dot{i32, 1, 1, 1, 1, 0, 0}(x, x)", 4, "2, 2"), (Ints{5, 14, 14, 50}));
    EXPECT_EQ(shaped("dot{i32, 0, 0, 1, 0, 1, 0}(x, x)", 18, "2, 3, 3"),
              (Ints{0, 0, 0, 0, 1, 2, 0, 2, 4, 9, 12, 15, 12, 16, 20, 15, 20, 25}));
}

TEST(Tile, Gather) {
    // rows 1 and 0, then elements that are outside
    EXPECT_EQ(shaped("gather{0, 1, 1, 1, 0, 1, 0, 0, 0, 2, 1, 3}(x, reshape{2, 1}(slice{0, 1, 2, 2, 1, "
                     "1}(reverse{0}(x)) - 3i32))",
                     6, "2, 3"),
              (Ints{3, 4, 5, 0, 1, 2}));
    EXPECT_EQ(
        shaped("gather{1, 0, 2, 0, 1, 2, 0, 1, 0, 0, 2, 1, 1}(x, slice{0, 0, 2, 2, 1, 1}(x), -1i32)", 2, "2"),
        (Ints{1, -1}));
    EXPECT_EQ(shaped("permute{1}(x, reverse{1}(iota{i32, 1, 2, 3}()))", 6, "2, 3"), (Ints{2, 1, 0, 5, 4, 3}));
}

/// Returns everything that is wrong with a kernel of one statement on x: f32[8], y.
std::string mistakes(const std::string& statement) {
    return errors_of(
        "kernel k rules(xla) workgroup(1) (x: read f32[8], y: write f32[8], s: workgroup u32[2]):\n " +
        statement + "\nendkernel\n");
}

TEST(Tile, MistakesAreNamed) {
    EXPECT_THAT(mistakes("let a = x[window{4}()] + x[window{8}()]"),
                testing::HasSubstr("operands of shapes [8] and [4]. Fix: broadcast"));
    EXPECT_THAT(mistakes("let a = x[window{4}()] + 1"),
                testing::HasSubstr("operands of types `f32` and `u32`. Fix: cast"));
    EXPECT_THAT(mistakes("let a = rotate_left(1, 2)"),
                testing::HasSubstr("`rotate_left`: rule set `xla` has no such operation. Fix: see docs/"));
    EXPECT_THAT(mistakes("let a = x[window{9}()]"), testing::HasSubstr("in buffer `x` of 8 elements. Fix:"));
    EXPECT_THAT(mistakes("x[window{8}()] = x[window{8}()]"),
                testing::HasSubstr("store target `x` is not writable. Fix:"));
    EXPECT_THAT(mistakes("y[window{8}()] = 1.0"), testing::HasSubstr("store of f32[] to f32[8]. Fix:"));
    EXPECT_THAT(mistakes("let a = gid.x"), testing::HasSubstr("rule set gpu. Fix:"));
    EXPECT_THAT(mistakes("barrier"), testing::HasSubstr("rule set gpu. Fix:"));
    EXPECT_THAT(mistakes("if x[0i32]:\n endif"), testing::HasSubstr("not a bool scalar. Fix:"));
    EXPECT_THAT(mistakes("wait(x, 0i32, 4i32)"), testing::HasSubstr("not a semaphore. Fix:"));
}

/// Copies and semaphores: a kernel that ends well, or how it does not.
Launched copies(const std::string& statements) {
    return run_one(*code_of("kernel k rules(xla) workgroup(1) (x: read i32[8], y: write i32[8], t: workgroup "
                            "i32[8], s: workgroup u32[2]):\n" +
                            statements + "\nendkernel\n"),
                   {blob(Ints{0, 1, 2, 3, 4, 5, 6, 7}), Blob(32)}, {1, 1, 1}, {}, false);
}

TEST(Tile, CopiesArriveAtTheirWait) {
    const Launched run = copies(
        "async_copy(x, t, window{2, 4, 2, 2}(0i32, 1i32), window{4, 2, 2, 2}(2i32, 0i32), s[1])\n"
        "wait(s, 1i32, 16i32)\nasync_copy(t, y, window{8}(), window{8}(), s[0])\nwait(s, 0i32, 32i32)");
    EXPECT_EQ(run.error, "");
    EXPECT_EQ(read<int32_t>(run.buffers[1]), (Ints{0, 0, 0, 0, 1, 2, 5, 6}));
}

TEST(Tile, ClippedCopiesMoveWhatIsInside) {
    const Launched run = copies(
        "async_copy(x, t, clipped{8, 4}(6i32), window{8, 4}(0i32), s[0])\nwait(s, 0i32, 16i32)\n"
        "async_copy(t, y, window{8, 4}(0i32), clipped{8, 4}(6i32), s[0])\nwait(s, 0i32, 16i32)");
    EXPECT_EQ(run.error, "");
    EXPECT_EQ(read<int32_t>(run.buffers[1]), (Ints{0, 0, 0, 0, 0, 0, 6, 7}));
}

TEST(Tile, FaultsOfCopies) {
    const std::string start = "async_copy(x, t, window{8}(), window{8}(), s[0])\n";
    EXPECT_THAT(copies(start).error, testing::HasSubstr("nobody waits for this copy. Fix:"));
    EXPECT_THAT(copies("wait(s, 0i32, 4i32)").error,
                testing::HasSubstr("deadlock: it waits until semaphore `s[0]` is 4, but it is 0"));
    EXPECT_THAT(
        copies("signal(s, 1i32, 3i32)").error,
        testing::HasSubstr("it counts at semaphore `s[1]`, which is 3 at the end of the kernel. Fix:"));
    EXPECT_THAT(copies("async_copy(x, t, window{8, 4}(6i32), window{8, 4}(0i32), s[0])").error,
                testing::HasSubstr("index 6 of dimension 0, 4 elements, is outside"));
    EXPECT_THAT(copies("async_copy(x, t, clipped{8, 4}(8i32), window{8, 4}(0i32), s[0])").error,
                testing::HasSubstr("is outside"));
    EXPECT_THAT(copies("let a = t[8i32]").error,
                testing::HasSubstr("index 8 is outside of buffer `t` of 8 elements. Fix:"));
}

/// Every statement from there on; no step of its own, not even in loops that have nothing else.
TEST(Tile, LinesStandBeforeStatementsInMessages) {
    const Launched run = copies(
        "line(\"a.py:1\")\nlet n = 0i32\nloop i in 0i32..3i32:\nline(\"a.py:2\")\nendloop\n"
        "loop i in 0i32..3i32:\nline(\"a.py:3\")\nlet a = t[i + 6i32]\nline(\"a.py:4\")\nendloop");
    EXPECT_THAT(run.error,
                testing::StartsWith("a.py:3, kernel `k`, `let a = t[i + 6i32]`: index 8 is outside"));
    EXPECT_THAT(errors_of("kernel k workgroup(1) ():\nline(\"a.py:1\")\nendkernel\n"),
                testing::HasSubstr("belongs to rule set xla. Fix:"));
}

TEST(Tile, WaitsWithoutEndNameWhatCounts) {
    const std::string copy = "async_copy(x, t, window{8}(), window{8}(), s[0])\n";
    EXPECT_THAT(copies("line(\"a.py:1\")\n" + copy + "line(\"a.py:2\")\nwait(s, 1i32, 32i32)").error,
                testing::MatchesRegex("a.py:2, .*deadlock: .*; a.py:1, .* counts at `s.0.`. Fix: .*"));
    EXPECT_THAT(copies("line(\"a.py:1\")\n" + copy + "line(\"a.py:2\")\nwait(s, 0i32, 36i32)").error,
                testing::MatchesRegex("a.py:2, .*deadlock: .*; last that counted was a.py:1, .*. Fix: .*"));
    EXPECT_THAT(
        copies("line(\"a.py:1\")\nasync_copy(x, t, window{8, 2}(0i32), window{8, 2}(0i32), s[0])\n"
               "line(\"a.py:2\")\nasync_copy(x, t, window{8, 4}(4i32), window{8, 4}(4i32), s[0])\n"
               "wait(s, 0i32, 16i32)\nline(\"a.py:3\")\nwait(s, 1i32, 8i32)")
            .error,
        testing::MatchesRegex("a.py:3, .*deadlock: .*; a.py:1, .* counts at `s.0.`; a.py:2, .* counts at "
                              "`s.0.`. Fix: .*"));
    EXPECT_THAT(copies("wait(s, 0i32, -4i32)").error, testing::HasSubstr("it waits for -4. Fix:"));
}

TEST(Tile, RacesWithCopiesNameBothStatements) {
    const auto code = code_of(
        "kernel k rules(xla) workgroup(1) (x: read i32[8], y: write i32[4], t: workgroup i32[8], s: "
        "workgroup u32[2]):\n"
        "async_copy(x, t, window{8}(), window{8}(), s[0])\nlet a = t[window{8}()]\nwait(s, 0i32, 32i32)\n"
        "async_copy(t, y, window{8, 4}(0i32), window{4}(), s[0])\nt[3i32] = 5i32\nt[4i32] = "
        "5i32\nwait(s, 0i32, 16i32)\nendkernel\n");
    Blob x(32), y(16);
    values::kernel::LaunchLimits limits;
    limits.races = true;
    const auto result = run_launch(*code, {1, 1, 1}, {}, {{x.data(), 32}, {y.data(), 16}}, limits);
    ASSERT_EQ(result.races.size(), 2u);
    using RaceKind = values::kernel::KernelRace::Kind;
    EXPECT_EQ(result.races[0].kind, RaceKind::copy_destination);
    EXPECT_EQ(result.races[0].statement, 1u);
    EXPECT_EQ(result.races[0].other, 0u);
    EXPECT_EQ(result.races[1].kind, RaceKind::copy_source);
    EXPECT_EQ(result.races[1].statement, 4u);
    EXPECT_EQ(result.races[1].count, 1u);
}

TEST(Tile, ControlFlow) {
    const std::string head = "kernel k rules(xla) workgroup(1) (x: read i32[8], y: write i32[1]):\n";
    const auto run = [&](const std::string& body) {
        const Launched launched =
            run_one(*code_of(head + body + "\nendkernel\n"), {blob(Ints{0, 1, 2, 3, 4, 5, 6, 7}), Blob(4)},
                    {1, 1, 1}, {}, false);
        EXPECT_EQ(launched.error, "");
        return read<int32_t>(launched.buffers[1])[0];
    };
    EXPECT_EQ(run("let n = 0i32\nloop i in 2i32..5i32:\nloop j in 0i32..i:\nif j == 1i32:\nn = n + "
                  "x[i]\nelse:\nn = n + 100i32\nendif\nendloop\nendloop\ny[0i32] = n"),
              609);
    EXPECT_EQ(run("let n = 1i32\nwhile n < 100i32:\nn = n * 3i32\nendwhile\ny[0i32] = n"), 243);
    EXPECT_EQ(run("loop i in 5i32..5i32:\ny[0i32] = 9i32\nendloop\ny[0i32] = y[0i32] + 1i32\nreturn"), 1);
    EXPECT_EQ(run("loop i in 0i32..2147483647i32:\nendloop\ny[0i32] = 4i32"), 4);
}

TEST(Tile, EndlessLoopsRunIntoTheLimit) {
    const auto code =
        code_of("kernel k rules(xla) workgroup(1) (y: write i32[1]):\nwhile true:\nendwhile\nendkernel\n");
    EXPECT_FALSE(run_one(*code, {Blob(4)}, {1, 1, 1}, {}, false, 1000).result.complete);
}

TEST(Tile, TextIsLossless) {
    const std::string text =
        "kernel k rules(xla) workgroup(1) (x: read f32[8], s: workgroup u32[1], t: workgroup f32[8]):\n"
        "    line(\"k.py:3 (k)\")\n    let a = reduce_sum{0}(bitcast{f32}(iota{i32, 0, 8}()))\n"
        "    async_copy(x, t, clipped{8, 4}(6i32), window{8, 4}(0i32), s[0i32])\n"
        "    signal(s, 0i32, 1i32)\n    wait(s, 0i32, 17i32)\nendkernel\n";
    EXPECT_EQ(kpu::kernel::print(*code_of(text)->body), text);
}

/// At multiples of the power of two that holds them, of 64 at least and of 512 at most; without holes in rule set gpu.
TEST(Tile, WorkgroupBuffersBeginWhereTheirBurstsAreWhole) {
    const auto begins = [](const std::string& rules) {
        const auto code =
            code_of("kernel k " + rules +
                    "workgroup(1) (s: workgroup u32[1], a: workgroup f32[33], r: workgroup u32[2], b: "
                    "workgroup f32[16384], c: workgroup i8[65]):\nendkernel\n");
        std::vector<uint64_t> found;
        uint64_t used = 0;
        for (const kpu::kernel::CodeBuffer& buffer : code->buffers) {
            found.push_back(code->begin_of(buffer, used));
            used = found.back() + buffer.declared_bytes();
        }
        EXPECT_EQ(code->workgroup_bytes(), used);
        return found;
    };
    EXPECT_EQ(begins("rules(xla) "), (std::vector<uint64_t>{0, 256, 448, 512, 66048}));
    EXPECT_EQ(begins(""), (std::vector<uint64_t>{0, 4, 136, 144, 65680}));
}

}  // namespace
}  // namespace kpu::kernel_test
