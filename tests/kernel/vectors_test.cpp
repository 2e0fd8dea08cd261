// Published vectors of the rule set gpu: what each operation gives at the edges.
#include <cmath>
#include <limits>

#include "tests/kernel/support.hpp"

namespace kpu::kernel_test::vectors {
namespace {

using List = std::vector<uint32_t>;

/// out[0] = expression over x[0], x[1], ... (loads, so that nothing is a literal).
uint32_t word(const std::string& expression, const std::string& type, const Blob& x,
              const std::string& result) {
    const Launched r = run("kernel k workgroup(1) (x: read " + type + "[], o: output " + result +
                               "[1]): o[0] = " + expression + " endkernel",
                           {x, Blob(4)});
    EXPECT_EQ(r.error, "");
    return read(r.buffers[1])[0];
}
uint32_t f(const std::string& expression, const List& bits, const std::string& result = "f32") {
    return word(expression, "f32", words(bits), result);
}
uint32_t u(const std::string& expression, const List& x) { return word(expression, "u32", words(x), "u32"); }
uint32_t i(const std::string& expression, const std::vector<int32_t>& x) {
    return word(expression, "i32", blob(x), "i32");
}
uint64_t w(const std::string& expression, const std::vector<uint64_t>& x) {
    const Launched r =
        run("kernel k workgroup(1) (x: read u64[], o: output u64[1]): o[0] = " + expression + " endkernel",
            {blob(x), Blob(8)});
    EXPECT_EQ(r.error, "");
    return read<uint64_t>(r.buffers[1])[0];
}
std::string i_error(const std::string& expression, const std::vector<int32_t>& x) {
    return run("kernel k workgroup(1) (x: read i32[], o: output i32[1]): o[0] = " + expression + " endkernel",
               {blob(x), Blob(4)})
        .error;
}

constexpr int32_t least = std::numeric_limits<int32_t>::min();

TEST(KernelVectors, FloatsAreStoredCanonical) {
    const Launched r =
        run("kernel k workgroup(7) (x: read u32[], o: output f32[7]): o[gid.x] = x[gid.x] endkernel",
            {words({1, 0x80000001, 0x7fa12345, 0xffa12345, 0xff800000, 0x80000002, 0xffc00000}), Blob(28)});
    EXPECT_EQ(read(r.buffers[1]),
              (List{0, 0x80000000, 0x7fc00000, 0x7fc00000, 0xff800000, 0x80000000, 0x7fc00000}));
    EXPECT_EQ(f("x[0] + x[0]", {0x80000001}), 0x80000000u);  // -sub + -sub
    EXPECT_EQ(f("sqrt(x[0])", {0xbf800000}), 0x7fc00000u);
    EXPECT_EQ(f("x[0] + x[0]", {1}), 0u);
    EXPECT_EQ(f("x[0] * x[1]", {0x80000001, 0x3f800000}), 0x80000000u);
    EXPECT_EQ(f("x[0] / x[1]", {0x00800000, 0x40000000}), 0u);
    EXPECT_EQ(f("x[0] / x[1]", {0x80800000, 0x40000000}), 0x80000000u);
}

TEST(KernelVectors, FloatsAreClassifiedAndCompared) {
    const uint32_t nan = 0x7fc00000, inf = 0x7f800000;
    EXPECT_EQ(f("u32(is_nan(x[0]))", {nan}, "u32"), 1u);
    EXPECT_EQ(f("u32(is_inf(x[0]))", {0xff800000}, "u32"), 1u);
    EXPECT_EQ(f("u32(is_finite(x[0]))", {0x80000001}, "u32"), 1u);
    EXPECT_EQ(f("u32(is_finite(x[0]))", {inf}, "u32"), 0u);
    EXPECT_EQ(f("u32(x[0] == x[1])", {0, 0x80000001}, "u32"), 1u);
    EXPECT_EQ(f("u32(x[0] < x[1])", {nan, 0x3f800000}, "u32"), 0u);
    EXPECT_EQ(f("u32(x[0] == x[1])", {1, 0}, "u32"), 1u);
    EXPECT_EQ(f("u32(x[0] == x[1])", {nan, nan}, "u32"), 0u);
    EXPECT_EQ(f("u32(x[0] != x[1])", {nan, nan}, "u32"), 1u);
    EXPECT_EQ(f("min(x[0], x[1])", {nan, 0x3f800000}), 0x3f800000u);  // the operand that is not NaN
    EXPECT_EQ(f("max(x[0], x[1])", {0x3f800000, nan}), 0x3f800000u);
    EXPECT_EQ(f("sign(x[0])", {0x80000000}), 0u);
    EXPECT_EQ(f("sign(x[0])", {nan}), nan);
    EXPECT_EQ(f("round(x[0])", {0x3f000000}), 0x3f800000u);  // 0.5: away from zero
    EXPECT_EQ(f("round(x[0])", {0xc0200000}), 0xc0400000u);  // -2.5
}

TEST(KernelVectors, UnsignedWords) {
    EXPECT_EQ(u("x[0] / x[1]", {42, 0}), 0xffffffffu);
    EXPECT_EQ(u("x[0] % x[1]", {42, 0}), 0u);
    EXPECT_EQ(u("x[0] << x[1]", {1, 32}), 1u);
    EXPECT_EQ(u("x[0] << x[1]", {1, 33}), 2u);
    EXPECT_EQ(u("x[0] >> x[1]", {0x80000000, 32}), 0x80000000u);
    EXPECT_EQ(u("abs_diff(x[0], x[1])", {0, UINT32_MAX}), UINT32_MAX);
    EXPECT_EQ(u("x[0] + x[1]", {UINT32_MAX, 1}), 0u);
    EXPECT_EQ(u("x[0] * x[1]", {UINT32_MAX, 2}), 0xfffffffeu);
    EXPECT_EQ(u("mul_high(x[0], x[1])", {0xffffffff, 0xfffffffe}), 0xfffffffdu);
    EXPECT_EQ(u("saturating_sub(x[0], x[1])", {1, 2}), 0u);
    EXPECT_EQ(u("saturating_mul(x[0], x[1])", {1u << 31, 2}), UINT32_MAX);
    EXPECT_EQ(u("rotate_left(x[0], x[1])", {0x80000001, 33}), 3u);
    EXPECT_EQ(u("rotate_right(x[0], x[1])", {3, 1}), 0x80000001u);
    EXPECT_EQ(u("rotate_right(x[0], x[1])", {3, 32}), 3u);
    EXPECT_EQ(u("clz(x[0]) + ctz(x[0])", {0}), 64u);
    EXPECT_EQ(u("reverse_bits(x[0])", {1}), 0x80000000u);
    EXPECT_EQ(u("neg(x[0])", {1}), UINT32_MAX);
    EXPECT_EQ(u("popcount(~x[0])", {0}), 32u);
    EXPECT_EQ(u("u32(x[0] && x[1]) + u32(x[0] || x[1])", {5, 0}), 1u);
}

TEST(KernelVectors, WideWords) {
    EXPECT_EQ(w("x[0] / x[1]", {123, 0}), UINT64_MAX);
    EXPECT_EQ(w("x[0] % x[1]", {123, 0}), 0u);
    EXPECT_EQ(w("mul_high(x[0], x[1])", {UINT64_MAX, UINT64_MAX - 1}), 0xfffffffffffffffdu);
    EXPECT_EQ(w("x[0] << x[1]", {1, 65}), 2u);
    EXPECT_EQ(w("clz(x[0])", {1}), 63u);
    EXPECT_EQ(w("select(x[0] > x[1], x[0], x[1])", {uint64_t{1} << 40, 5}), uint64_t{1} << 40);
    EXPECT_EQ(w("saturating_add(x[0], x[1])", {UINT64_MAX, 5}), UINT64_MAX);
}

TEST(KernelVectors, SignedWords) {
    EXPECT_EQ(static_cast<int32_t>(i("x[0] / x[1]", {-7, 3})), -2);
    EXPECT_EQ(static_cast<int32_t>(i("x[0] % x[1]", {-7, 3})), -1);
    EXPECT_EQ(static_cast<int32_t>(i("x[0] / x[1]", {least, 1})), least);
    EXPECT_EQ(i("x[0] % x[1]", {least, 1}), 0u);
    EXPECT_EQ(static_cast<int32_t>(i("x[0] >> x[1]", {-8, 33})), -4);
    EXPECT_EQ(static_cast<int32_t>(i("saturating_add(x[0], x[1])", {least, -1})), least);
    EXPECT_EQ(static_cast<int32_t>(i("saturating_sub(x[0], x[1])", {0, least})), INT32_MAX);
    EXPECT_EQ(static_cast<int32_t>(i("saturating_mul(x[0], x[1])", {least, 2})), least);
    EXPECT_EQ(i("abs_diff(x[0], x[1])", {least, INT32_MAX}), UINT32_MAX);
    EXPECT_EQ(i("clz(x[0])", {-1}), 0u);
    const std::string tail =
        "has undefined backend semantics. Fix: guard the signed divisor/overflow case before lowering, or "
        "use unsigned "
        "operands when zero-divisor semantics must produce 0.";
    const std::pair<std::string, std::vector<int32_t>> wrong[] = {
        {"division `7 / 0` ", {7, 0}}, {"division overflow `-2147483648 / -1` ", {least, -1}}};
    for (const auto& [kind, operands] : wrong)
        EXPECT_NE(i_error("x[0] / x[1]", operands).find("i32 " + kind + tail), std::string::npos) << kind;
    EXPECT_NE(i_error("x[0] % x[1]", {7, 0}).find("i32 remainder `7 / 0` " + tail), std::string::npos);
    EXPECT_NE(i_error("x[0] % x[1]", {least, -1}).find("i32 remainder overflow `-2147483648 / -1` " + tail),
              std::string::npos);
}

TEST(KernelVectors, Casts) {
    EXPECT_EQ(f("u32(x[0])", {0x7fc00000}, "u32"), 0u);
    EXPECT_EQ(f("u32(x[0])", {0xbf800000}, "u32"), 0u);
    EXPECT_EQ(f("u32(x[0])", {0x7f800000}, "u32"), UINT32_MAX);
    EXPECT_EQ(f("i32(x[0])", {0xcf800000}, "i32"), 0x80000000u);
    EXPECT_EQ(f("i32(x[0])", {0xbfc00000}, "i32"), 0xffffffffu);  // -1.5
    EXPECT_EQ(f("u32(bool(x[0]))", {0x7fc00000}, "u32"), 1u);     // NaN is true
    EXPECT_EQ(u("u32(f32(x[0]))", {16777217}), 16777216u);
    EXPECT_EQ(word("u32(x[0])", "u8", Blob{200}, "u32"), 200u);
    EXPECT_EQ(word("i32(x[0])", "i8", Blob{200}, "i32"), 0xffffffc8u);
    EXPECT_EQ(word("f32(x[0])", "f16", blob<uint16_t>({0x3c00}), "f32"), 0x3f800000u);
    EXPECT_EQ(word("f32(x[0])", "bf16", blob<uint16_t>({0x3fc0}), "f32"), 0x3fc00000u);
    const Launched lossy =
        run("kernel k workgroup(1) (x: read i32[], o: output u64[1]): o[0] = u64(x[0]) endkernel",
            {blob<int32_t>({-3}), Blob(8)});
    EXPECT_NE(
        lossy.error.find(
            "cast to u64 cannot represent I32(-3) losslessly. Fix: cast from an in-range scalar value."),
        std::string::npos)
        << lossy.error;
}

TEST(KernelVectors, ALoopOf131072Trips) {
    const Launched r =
        run("kernel k workgroup(1) (o: output u32[1]): let s = 0 loop i in 0..131072: s = s + i endloop "
            "o[0] = s endkernel",
            {Blob(4)});
    EXPECT_EQ(read(r.buffers[0])[0], static_cast<uint32_t>(uint64_t{131072} * 131071 / 2));
}

TEST(KernelVectors, TheWaitPublishesLast) {
    const Launched r =
        run("kernel k workgroup(1) (s: read u32[2], d: read_write u32[2]): async_load(s, d, 0, 8, \"t\") "
            "d[0] = 0xDEADBEEF async_wait(\"t\") endkernel",
            {words({11, 22}), Blob(8)});
    EXPECT_EQ(read(r.buffers[1]), (List{11, 22}));
    const Launched lost =
        run("kernel k workgroup(1) (s: read u32[2], d: read_write u32[2]): async_load(s, d, 0, 8, \"t\") "
            "endkernel",
            {words({11, 22}), Blob(8)});
    EXPECT_NE(
        lost.error.find("invocation (0, 0, 0) completed with async transfer tag `t` still pending. Fix: add "
                        "AsyncWait for every AsyncLoad/AsyncStore tag before Return or end-of-program."),
        std::string::npos);
}

TEST(KernelVectors, TheInputDrivesTheGridBecauseOfTheAtomic) {
    const auto code = code_of(
        "kernel k workgroup(256) (x: read u8[4097], flag: output u32[1]): let i = gid.x if i < len(x): if "
        "u32(x[i]) != 0: "
        "let old = atomic_or(flag[0], 1) endif endif endkernel");
    const Grid grid = values::kernel::inferred_grid(*code, {4097, 1});
    EXPECT_EQ(grid, (Grid{17, 1, 1}));
    Blob x(4097);
    x.back() = 1;
    EXPECT_EQ(read(run(*code, {x, Blob(4)}, grid).buffers[1])[0], 1u);
    x.back() = 0;
    EXPECT_EQ(read(run(*code, {x, Blob(4)}, grid).buffers[1])[0], 0u);
}

TEST(KernelVectors, GridsAreInferredByTheOutputs) {
    const auto plain = code_of("kernel k workgroup(32) (x: read u32[], o: output u32[]): o[0] = 1 endkernel");
    EXPECT_EQ(values::kernel::inferred_grid(*plain, {1000, 33}), (Grid{2, 1, 1}));
    const auto square = code_of("kernel k workgroup(8, 8) (o: output u32[]): o[0] = 1 endkernel");
    EXPECT_EQ(values::kernel::inferred_grid(*square, {640}),
              (Grid{4, 4, 1}));  // 10 in all, 4 along each axis
    const auto single = code_of("kernel k workgroup(1) (o: output u32[]): o[0] = 1 endkernel");
    EXPECT_EQ(values::kernel::inferred_grid(*single, {5}), (Grid{5, 1, 1}));
}

TEST(KernelVectors, Subgroups) {
    const Launched r =
        run("kernel k workgroup(32) (o: output u32[32]): let v = 0 if lid.x == 0: v = 0xFEEDCAFE endif "
            "let w = shuffle(v, 0) o[gid.x] = w endkernel",
            {Blob(128)});
    EXPECT_EQ(read(r.buffers[0]), List(32, 0xFEEDCAFE));
    const Launched b =
        run("kernel k workgroup(4) (x: read u32[4], l: read u32[4], o: output u32[12]): let i = lid.x "
            "o[i] = ballot(i != 1) o[4 + i] = shuffle(x[i], l[i]) o[8 + i] = subgroup_add(x[i]) endkernel",
            {words({10, 20, 30, 40}), words({0, 2, 5, 1}), Blob(48)});
    EXPECT_EQ(read(b.buffers[2]), (List{13, 13, 13, 13, 10, 30, 0, 20, 100, 100, 100, 100}));
    const Launched two =
        run("kernel k workgroup(40) (o: output u32[40]): o[gid.x] = subgroup_add(1) * 100 + subgroup_id() "
            "endkernel",
            {Blob(160)});
    EXPECT_EQ(read(two.buffers[0])[31], 3231u);
    EXPECT_EQ(read(two.buffers[0])[39], 807u);  // the last subgroup is short
}

TEST(KernelVectors, Atomics) {
    const Launched r =
        run("kernel k workgroup(4) (m: read_write u32[8], o: output u32[4]): let old = atomic_add(m[0], "
            "lid.x + 1) "
            "o[lid.x] = old let a = atomic_max(m[1], lid.x) let b = atomic_min(m[2], lid.x) "
            "let c = atomic_compare_exchange(m[3], lid.x, lid.x + 1) let d = atomic_exchange(m[4], lid.x) "
            "let e = atomic_lru_update(m[5], 7) let g = atomic_and(m[6], 6) let h = atomic_xor(m[7], 1) "
            "endkernel",
            {words({0, 0, 9, 0, 5, 3, 15, 0}), Blob(16)});
    EXPECT_EQ(read(r.buffers[0]), (List{10, 3, 0, 4, 3, 7, 6, 0}));
    EXPECT_EQ(read(r.buffers[1]), (List{0, 1, 3, 6}));
    const Launched out = run(
        "kernel k workgroup(1) (m: read_write u32[1]): let old = atomic_add(m[5], 1) m[0] = old endkernel",
        {words({3})});
    EXPECT_EQ(read(out.buffers[0])[0], 0u);
    ASSERT_EQ(out.result.outside.size(), 1u);
    EXPECT_EQ(out.result.outside[0].first_index, 5u);
}

TEST(KernelVectors, OutOfBounds) {
    const Launched r =
        run("kernel k workgroup(4) (x: read u32[2], o: read_write u32[2]): o[lid.x] = x[lid.x] + 1 endkernel",
            {words({5, 6}), words({0, 0})});
    EXPECT_EQ(read(r.buffers[1]), (List{6, 7}));
    ASSERT_EQ(r.result.outside.size(), 2u);  // the load, the store
    for (const auto& access : r.result.outside) {
        EXPECT_EQ(access.count, 2u);
        EXPECT_EQ(access.first_index, 2u);
    }
    const Launched copy =
        run("kernel k workgroup(1) (s: read bytes[4], d: output bytes[4]): async_load(s, d, 2, 8, \"t\") "
            "async_wait(\"t\") endkernel",
            {{1, 2, 3, 4}, {9, 9, 9, 9}});
    EXPECT_EQ(copy.buffers[1], (Blob{3, 4, 0, 0}));  // filled with zeros, and cut
    EXPECT_EQ(copy.result.outside.size(), 2u);
}

TEST(KernelVectors, LengthsCountWhatIsBound) {
    const Launched r =
        run("kernel k workgroup(1) (a: read i4[], b: read u32[2], c: read u64[], o: output u32[3]): "
            "o[0] = len(a) o[1] = len(b) o[2] = len(c) endkernel",
            {Blob(3), Blob(20), Blob(17), Blob(12)});
    EXPECT_EQ(read(r.buffers[3]), (List{6, 5, 2}));
}

TEST(KernelVectors, FunctionsAreWithinHalfAnUlp) {
    const std::pair<const char*, double (*)(double)> functions[] = {
        {"sin", std::sin},     {"cos", std::cos},   {"tan", std::tan},    {"exp", std::exp},
        {"exp2", std::exp2},   {"log", std::log},   {"log2", std::log2},  {"sinh", std::sinh},
        {"cosh", std::cosh},   {"tanh", std::tanh}, {"atan", std::atan},  {"sqrt", std::sqrt},
        {"floor", std::floor}, {"ceil", std::ceil}, {"trunc", std::trunc}};
    std::vector<float> x;
    for (int k = -40; k < 40; ++k) x.push_back(static_cast<float>(k) * 0.37F + 0.01F);
    for (const auto& [name, function] : functions) {
        const Launched r =
            run(std::string("kernel k workgroup(80) (x: read f32[], o: output f32[80]): o[gid.x] = ") + name +
                    "(x[gid.x]) endkernel",
                {blob(x), Blob(320)});
        const auto results = read<float>(r.buffers[1]);
        for (size_t k = 0; k < x.size(); ++k) {
            const auto expected = static_cast<float>(function(double{x[k]}));
            if (std::isnan(expected))
                EXPECT_TRUE(std::isnan(results[k])) << name << x[k];
            else
                EXPECT_LE(std::fabs(results[k] - expected), std::fabs(expected) * 1.2e-7F)
                    << name << " " << x[k];
        }
    }
}

}  // namespace
}  // namespace kpu::kernel_test::vectors
