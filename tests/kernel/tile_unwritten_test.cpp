// Memory that nobody wrote: what depends on it, and where that matters.
#include "values/kernel/tiles/tile_unwritten.hpp"

#include <gmock/gmock.h>

#include <random>

#include "isa/kernel/tile_code.hpp"
#include "tests/kernel/support.hpp"

namespace kpu::kernel_test {
namespace {

using values::kernel::KernelRace;
using values::kernel::Tile;
using values::kernel::Unwritten;
using Kind = KernelRace::Kind;
using Mask = std::vector<uint8_t>;

// ---- operations: results that change with unwritten elements are marked

/// An operation on tiles x, z of i32[4, 6], f, g of f32[4, 6], c of bool[4, 6], n an i32 scalar.
struct Trial {
    std::shared_ptr<const Code> code;
    const kpu::kernel::TileExpr* root = nullptr;
    std::vector<Tile> in;
    std::vector<Mask> masks;
};

uint32_t word_of(kpu::kernel::Type type, std::mt19937& random) {
    const uint32_t number = random() % 4;  // indices inside too
    if (type != kpu::kernel::Type::f32) return number;
    const float value = static_cast<float>(number) - 2;
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}

Tile random_tile(kpu::kernel::Type type, const kpu::kernel::Shape& shape, std::mt19937& random) {
    Tile tile(type, shape);
    for (size_t i = 0; i < tile.count(); ++i)
        if (type == kpu::kernel::Type::boolean)
            tile.make()[i] = random() % 2;
        else
            tile.make_as<uint32_t>()[i] = word_of(type, random);
    return tile;
}

Trial trial_of(const std::string& expression, std::mt19937& random) {
    Trial trial;
    trial.code = code_of(
        "kernel k rules(xla) workgroup(1) (a: read i32[24], b: read f32[24]):\n let x = a[window{4, 6}()]\n "
        "let z = x\n"
        " let f = b[window{4, 6}()]\n let g = f\n let c = x == z\n let n = 1i32\n let r = " +
        expression + "\nendkernel\n");
    const kpu::kernel::TileCode& tiles = *trial.code->tiles;
    trial.root = &tiles.exprs[tiles.statements.back().expr[0]];
    for (const kpu::kernel::ExprIndex operand : trial.root->operands) {
        const kpu::kernel::TileExpr& expr = tiles.exprs[operand];
        trial.in.push_back(random_tile(expr.type, expr.shape, random));
        Mask mask(trial.in.back().count());
        const uint32_t share = random() % 3;  // none, some, more
        for (uint8_t& one : mask) one = random() % 6 < share;
        trial.masks.push_back(mask);
    }
    return trial;
}

/// Returns the operation's result, and its mask, with unwritten elements of other values.
Tile result_of(const Trial& trial, std::mt19937* refill) {
    std::vector<Tile> in;
    for (size_t i = 0; i < trial.in.size(); ++i) {
        Tile tile(trial.in[i].type, trial.in[i].shape);
        std::memcpy(tile.make(), trial.in[i].bytes(), tile.count() * tile.element_bytes());
        for (size_t k = 0; refill != nullptr && k < tile.count(); ++k) {
            if (trial.masks[i][k] == 0) continue;
            if (tile.element_bytes() == 1)
                tile.make()[k] = (*refill)() % 2;
            else
                tile.make_as<uint32_t>()[k] = word_of(tile.type, *refill);
        }
        if (std::count(trial.masks[i].begin(), trial.masks[i].end(), 0) !=
            static_cast<ptrdiff_t>(tile.count()))
            tile.unwritten = std::make_shared<Unwritten>(Unwritten{trial.masks[i], 3, 1, 5});
        in.push_back(tile);
    }
    const auto unwritten = unwritten_of(*trial.root, in);
    Tile result = values::kernel::operate(*trial.root, in);
    result.unwritten = unwritten;
    return result;
}

/// Returns the elements that differ in any of `times` fills of the unwritten ones.
Mask changing(const Trial& trial, const Tile& first, int times, std::mt19937& random) {
    Mask changed(first.count());
    const unsigned bytes = first.element_bytes();
    for (int k = 0; k < times; ++k) {
        const Tile other = result_of(trial, &random);
        for (size_t i = 0; i < changed.size(); ++i)
            changed[i] |= std::memcmp(first.bytes() + i * bytes, other.bytes() + i * bytes, bytes) != 0;
    }
    return changed;
}

/// `exact`: nothing else is marked.
void check_marks(const std::string& expression, bool exact) {
    std::mt19937 random(7);
    for (int round = 0; round < 40; ++round) {
        const Trial trial = trial_of(expression, random);
        const Tile result = result_of(trial, nullptr);
        const Mask marked = result.unwritten == nullptr ? Mask(result.count()) : result.unwritten->elements;
        ASSERT_EQ(marked.size(), result.count()) << expression;
        const Mask changed = changing(trial, result, 30, random);
        for (size_t i = 0; i < changed.size(); ++i) {
            EXPECT_GE(marked[i], changed[i]) << expression << " element " << i;
            if (exact) {
                EXPECT_EQ(marked[i], changed[i]) << expression << " element " << i;
            }
        }
    }
}

TEST(TileUnwritten, MovesMarkWhatTheyMove) {
    for (const char* expression :
         {"reshape{24}(x)", "transpose{1, 0}(x)", "broadcast_to{2, 4, 6, 1, 2}(x)",
          "slice{1, 0, 4, 6, 2, 3}(x)", "concat{0}(x, z)", "pad{1, -1, 0, 2, 0, 1}(x, n)", "reverse{1}(x)",
          "bitcast{f32}(x)", "neg(x)", "x + z", "x + n", "f32(x)"})
        check_marks(expression, true);
}

TEST(TileUnwritten, ResultsThatDependOnManyAreMarked) {
    for (const char* expression : {"x * z",
                                   "x < z",
                                   "c & c",
                                   "c | c",
                                   "!c",
                                   "f * g",
                                   "max(f, g)",
                                   "exp(f)",
                                   "dynamic_slice{2, 3}(x, n, n)",
                                   "dynamic_update(x, z, n, n)",
                                   "roll{1, 0, 0}(x, n)",
                                   "permute{1}(x, z)",
                                   "reduce_sum{1}(x)",
                                   "reduce_max{0}(f)",
                                   "reduce_and{1}(c)",
                                   "argmax{1}(f)",
                                   "argmin{0}(x)",
                                   "cumulative_sum{1, 0}(x)",
                                   "cumulative_max{0, 1}(f)",
                                   "sort{1}(x)",
                                   "sort{0}(f)",
                                   "sort_index{1, 1}(x)",
                                   "sort_index{0, 0}(x, z)",
                                   "dot{f32, 1, 1, 1, 1, 0, 0}(f, g)",
                                   "dot{f32, 1, 0, 1, 0, 0, 0}(f, g)"})
        check_marks(expression, false);
}

// ---- kernels: where it matters

/// `of_outputs`: those of outputs that are left, else the others.
std::vector<KernelRace> reports(const std::string& statements, std::string* sentence = nullptr,
                                bool of_outputs = false) {
    const auto code = code_of(
        "kernel k rules(xla) workgroup(1) (x: read i32[8], y: write i32[8], t: workgroup i32[8], u: "
        "workgroup i32[8], "
        "s: workgroup u32[1]):\n" +
        statements + "\nendkernel\n");
    Blob x(32, 1), y(32);
    values::kernel::LaunchLimits limits;
    limits.races = true;
    std::vector<KernelRace> races =
        run_launch(*code, {1, 1, 1}, {}, {{x.data(), 32}, {y.data(), 32}}, limits).races;
    const auto other = [&](const KernelRace& race) {
        return (race.kind == Kind::unwritten_output) != of_outputs;
    };
    races.erase(std::remove_if(races.begin(), races.end(), other), races.end());
    if (sentence != nullptr && !races.empty()) *sentence = race_text(*code, {1, 1, 1}, races[0]).sentence;
    return races;
}
const std::string out = "\nasync_copy(u, y, window{8}(), window{8}(), s[0])\nwait(s, 0i32, 32i32)";
const std::string first_half = "t[window{8, 4}(0i32)] = iota{i32, 0, 4}()\n";

TEST(TileUnwritten, MattersWhereItLeaves) {
    EXPECT_EQ(reports("let a = t[window{8}()]\nlet b = reduce_sum{0}(a)").size(), 0u);
    EXPECT_EQ(reports(first_half + "let a = t[window{8}()]\nu[window{8}()] = iota{i32, 0, 8}()" + out).size(),
              0u);
    EXPECT_EQ(
        reports(first_half + "u[window{8}()] = select(iota{i32, 0, 8}() < 4i32, t[window{8}()], 7i32)" + out)
            .size(),
        0u);
    std::string sentence;
    const auto found =
        reports("line(\"a.py:1\")\n" + first_half +
                    "line(\"a.py:2\")\nu[window{8}()] = t[window{8}()] * 0i32\nline(\"a.py:3\")" + out,
                &sentence);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].kind, Kind::unwritten_leaves);
    EXPECT_EQ(found[0].element, 4u);
    EXPECT_THAT(sentence,
                testing::MatchesRegex("a.py:3, kernel `k`, `async_copy.*`, writes back what depends on "
                                      "`t.4.`, which a.py:2, .*, reads and nobody wrote"));
    reports("u[window{8, 7}(0i32)] = iota{i32, 0, 7}()" + out, &sentence);
    EXPECT_THAT(sentence,
                testing::MatchesRegex(".*writes back `u.7.`, which nobody wrote; kernel `k`, line .*, "
                                      "`u.window.8, 7..0i32.. = .*` writes others of it"));
    EXPECT_EQ(reports("y[window{8}()] = t[window{8}()]").size(), 1u);
    EXPECT_EQ(reports("y[0i32] = 5i32\ny[1i32] = y[0i32]").size(), 0u);
    EXPECT_EQ(reports("y[0i32] = 5i32\ny[1i32] = y[2i32]").size(), 1u);
}

TEST(TileUnwritten, OutputsThatAreLeft) {
    std::string sentence;
    const auto found =
        reports("line(\"a.py:1\")\ny[window{8, 3}(0i32)] = iota{i32, 0, 3}()", &sentence, true);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].element, 3u);
    EXPECT_THAT(sentence,
                testing::MatchesRegex("a.py:1, kernel `k`, `y.window.*`, does not write all of output `y`: "
                                      "element 3 is the first that nobody wrote"));
    EXPECT_EQ(reports("let a = t[0i32]", nullptr, true).size(), 1u);  // nothing of it
    EXPECT_EQ(reports("y[window{8}()] = iota{i32, 0, 8}()", nullptr, true).size(), 0u);
    EXPECT_EQ(reports("loop i in 0i32..8i32:\ny[7i32 - i] = i\nendloop", nullptr, true).size(), 0u);
    EXPECT_EQ(reports("u[window{8}()] = iota{i32, 0, 8}()" + out, nullptr, true).size(), 0u);
    EXPECT_EQ(reports(first_half + "u[window{8}()] = t[window{8}()]" + out, nullptr, true).size(), 0u);
}

TEST(TileUnwritten, MattersWhereItDecides) {
    for (const char* use : {"if a > 0i32:\nendif", "while a > 0i32:\nendwhile", "loop i in 0i32..a:\nendloop",
                            "let b = t[window{8, 4}(a)]", "let b = x[a]", "u[a] = 1i32", "signal(s, a, 0i32)",
                            "masked_store(u, window{8}(), broadcast_to{8}(a > 0i32), iota{i32, 0, 8}())"}) {
        const auto found = reports(first_half + "let a = t[4i32]\n" + use);
        ASSERT_EQ(found.size(), 1u) << use;
        EXPECT_EQ(found[0].kind, Kind::unwritten_decides) << use;
        EXPECT_EQ(reports(first_half + "let a = t[0i32]\n" + use).size(), 0u) << use;
    }
}

TEST(TileUnwritten, CopiesCarryItAndForgetBringsItBack) {
    const std::string to_u = "async_copy(t, u, window{8}(), window{8}(), s[0])\nwait(s, 0i32, 32i32)\n";
    EXPECT_EQ(reports(first_half + to_u + out).size(), 1u);
    EXPECT_EQ(reports(first_half + "t[window{8, 4}(4i32)] = iota{i32, 0, 4}()\n" + to_u + out).size(), 0u);
    const std::string ragged =
        "async_copy(x, u, clipped{8, 6}(6i32), window{8, 6}(0i32), s[0])\nwait(s, 0i32, 24i32)\n";
    EXPECT_EQ(reports(ragged + "u[window{8, 6}(2i32)] = iota{i32, 0, 6}()" + out).size(), 0u);
    EXPECT_EQ(reports(ragged + "u[window{8, 5}(3i32)] = iota{i32, 0, 5}()" + out).size(), 1u);
    const std::string all = "u[window{8}()] = iota{i32, 0, 8}()\n";
    EXPECT_EQ(reports(all + "forget(u, window{8, 1}(3i32))\n" + out).size(), 1u);
    EXPECT_EQ(reports(all + "forget(u, window{8, 1}(3i32))\nu[3i32] = 1i32" + out).size(), 0u);
}

TEST(TileUnwritten, ForgottenMemoryIsZero) {
    const auto code = code_of(
        "kernel k rules(xla) workgroup(1) (y: write i32[4], t: workgroup i32[4]):\n t[window{4}()] = "
        "iota{i32, 0, 4}()\n"
        " forget(t, window{4, 2, 2}(1i32))\n y[window{4}()] = t[window{4}()]\nendkernel\n");
    EXPECT_EQ(read<int32_t>(run_one(*code, {Blob(16)}, {1, 1, 1}, {}, false).buffers[0]),
              (std::vector<int32_t>{0, 0, 2, 0}));
}

TEST(TileMasked, OnlyWhereTheMaskIsTrue) {
    const std::string head = "kernel k rules(xla) workgroup(1) (x: read i32[8], y: read_write i32[8]):\n";
    const auto ran = [&](const std::string& body) {
        return run_one(*code_of(head + body + "\nendkernel\n"),
                       {blob(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}), blob(std::vector<int32_t>(8, 9))},
                       {1, 1, 1}, {}, false);
    };
    const std::string even = "let i = iota{i32, 0, 4}()\nlet m = i % 2i32 == 0i32\n";
    EXPECT_EQ(read<int32_t>(ran(even + "y[window{8, 4}(0i32)] = x[window{8, 4, 2}(0i32), m]").buffers[1]),
              (std::vector<int32_t>{1, 0, 5, 0, 9, 9, 9, 9}));
    EXPECT_EQ(read<int32_t>(ran(even + "masked_store(y, window{8, 4}(3i32), m, i)").buffers[1]),
              (std::vector<int32_t>{9, 9, 9, 0, 9, 2, 9, 9}));
    // outside, but masked
    EXPECT_EQ(read<int32_t>(ran(even + "masked_store(y, window{8, 4}(5i32), m, i)").buffers[1]),
              (std::vector<int32_t>{9, 9, 9, 9, 9, 0, 9, 2}));
    EXPECT_THAT(ran(even + "masked_store(y, window{8, 4}(6i32), m, i)").error,
                testing::HasSubstr(
                    "index 8 of dimension 0 is outside of the buffer's shape [8], and its mask is true"));
    EXPECT_THAT(errors_of(head + "let a = x[0i32, true]\nendkernel\n"),
                testing::HasSubstr("a mask without window"));
    EXPECT_THAT(errors_of(head + "let a = x[window{8}(), true]\nendkernel\n"),
                testing::HasSubstr("mask of bool[]"));
    EXPECT_THAT(errors_of(head + "forget(x, window{8}())\nendkernel\n"),
                testing::HasSubstr("only workgroup memory"));
}

}  // namespace
}  // namespace kpu::kernel_test
