// Chains that are cut into strips give the values of the whole graph, without a hazard, and spare DRAM.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/diagnostics.hpp"
#include "tests/compiler/plan/networks.hpp"

namespace kpu::compiler {
namespace {

using namespace testing;

/// So little L2 that pictures of some 20 KB go to DDR.
const platforms::Overrides small_memories = {{"engine.l1.size_bytes", "16384"}, {"l2.size_bytes", "65536"}};

/// Runs what is found without a wish.
Result run_in_strips(Maker& maker, const MappingWishes& wishes = {}) {
    return run(maker, "swkpu-v1", small_memories, &wishes);
}

bool is_cut(const Result& result) {
    const std::vector<PlannedOp>& ops = result.lowered.plan.ops;
    return std::any_of(ops.begin(), ops.end(), [](const PlannedOp& op) { return op.strips > 0; });
}

class RandomStrips : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RandomStrips, KeepTheirValues) {
    int cut = 0;
    for (uint32_t seed = 0; seed < 5; ++seed) {
        const ElemType elem = seed % 3 == 0 ? ElemType::f16 : ElemType::i8;
        Pictures pictures(elem, GetParam() * 100 + seed);
        Maker& maker = pictures.maker;
        ValueId x = maker.input({1, maker.pick(40, 80), maker.pick(40, 80), maker.pick(4, 16)});
        x = pictures.layers(x, maker.pick(3, 7));
        if (maker.pick(0, 2) == 0) {  // somebody outside reads it too
            const ValueId y = pictures.layers(x, 3);
            maker.output(maker.unary("relu", y));
        }
        maker.output(maker.unary("relu", maker.pool("maxpool", x, 2, 2, 0)));
        cut += is_cut(run_in_strips(maker)) ? 1 : 0;
    }
    EXPECT_GE(cut, 2);
}

/// Adds six convolutions on pictures of 64 KB, and one that halves them.
ValueId six_convolutions(Maker& maker) {
    ValueId x = maker.input({1, 64, 64, 16});
    for (int i = 0; i < 6; ++i) x = maker.conv(x, 16, 3, 1, 1);
    x = maker.conv(x, 8, 3, 2, 1);
    maker.output(x);
    return x;
}

MappingWishes wishes(const std::string& pattern, int64_t strips) {
    MappingWish wish;
    wish.pattern = pattern;
    wish.strips = strips;
    return MappingWishes({wish});
}

TEST(Strips, TensorsOfAChainStayOnChip) {
    Maker maker(ElemType::i8, 3), same(ElemType::i8, 3);
    six_convolutions(maker);
    six_convolutions(same);
    const Result cut = run_in_strips(maker), uncut = run(same, "swkpu-v1", small_memories);
    EXPECT_TRUE(is_cut(cut));
    EXPECT_FALSE(is_cut(uncut));
    // the input, the output, weights (once for each strip), and not six tensors of 64 KB, written and read
    const uint64_t tensors = 6 * 2 * 65536;
    EXPECT_GE(uncut.dram_bytes, tensors);
    EXPECT_LE(cut.dram_bytes, uncut.dram_bytes - tensors * 3 / 4);
    // the whole tensors are no more: they have no bytes, and nobody can read them
    EXPECT_EQ(cut.lowered.plan.memory.ddr_bytes, 0u);
    for (const proto::Tensor& tensor : cut.lowered.emitted.module.program.tensor()) {
        if (tensor.role() == proto::Tensor::INTERMEDIATE) {
            EXPECT_THAT(tensor.id(), ::testing::HasSubstr("strip"));
        }
    }
}

struct Heads {
    std::vector<int64_t> batches;
    int64_t rows, columns, width;
    int64_t count() const {
        return std::accumulate(batches.begin(), batches.end(), int64_t{1}, std::multiplies<>());
    }
    uint64_t scores() const { return static_cast<uint64_t>(count() * rows * columns * 2); }  ///< bytes of f16
    uint64_t rest() const { return static_cast<uint64_t>(4 * count() * width * (rows + columns)); }
};

void attention(Maker& maker, const Heads& heads) {
    const auto product = [&](ValueId a, ValueId b) {
        return maker.graph().add_node("gemm", {a, b}, attributes({graph::type("accum_type", ElemType::f32)}),
                                      maker.named("MatMul"));
    };
    const auto input = [&](int64_t rows, int64_t columns) {
        std::vector<int64_t> shape = heads.batches;
        shape.insert(shape.end(), {rows, columns});
        return maker.input(shape);
    };
    const ValueId scores = product(input(heads.rows, heads.width), input(heads.width, heads.columns));
    const auto axis = static_cast<int64_t>(heads.batches.size()) + 1;
    const ValueId shares = maker.graph().add_node("softmax", {scores}, attributes({integer("axis", axis)}),
                                                  maker.named("Softmax"));
    maker.output(product(shares, input(heads.columns, heads.width)));
}

/// Returns the bytes of DRAM as they are found, and without strips.
std::pair<uint64_t, uint64_t> traffic(const Heads& heads) {
    Maker maker(ElemType::f16, 4), same(ElemType::f16, 4);
    attention(maker, heads);
    attention(same, heads);
    const Result cut = run_in_strips(maker), uncut = run(same, "swkpu-v1", small_memories);
    EXPECT_TRUE(is_cut(cut));
    return {cut.dram_bytes, uncut.dram_bytes};
}

TEST(Strips, ScoresOfAttentionStayOnChip) {
    const Heads heads = {{12}, 64, 96, 16};
    const auto [cut, uncut] = traffic(heads);
    EXPECT_GE(uncut, heads.rest() + 4 * heads.scores());
    EXPECT_LE(cut, heads.rest() + heads.rest() / 10);
}

/// Keys and values of all heads exceed L2, and so do the scores of one.
TEST(Strips, RowsOfHeadsThatAreApart) {
    for (const Heads& heads :
         {Heads{{6}, 192, 256, 32}, Heads{{3, 1}, 192, 256, 32}, Heads{{1, 5}, 256, 200, 48}}) {
        const auto [cut, uncut] = traffic(heads);
        EXPECT_GE(uncut, heads.rest() + 4 * heads.scores());
        EXPECT_LE(cut, 4 * heads.rest()) << heads.rows;  // keys and values come once for each strip of rows
        EXPECT_LE(2 * cut, uncut) << heads.rows;
    }
}

/// Keys and values of a few heads, each for several heads of queries, with a mask that differs from query to query; `told`:
/// the host gets keys and values too, so that they live in DRAM.
void shared_attention(Maker& maker, const Heads& heads, int64_t times, bool told) {
    const auto product = [&](ValueId a, ValueId b) {
        return maker.graph().add_node("gemm", {a, b}, attributes({graph::type("accum_type", ElemType::f32)}),
                                      maker.named("MatMul"));
    };
    const int64_t shared = heads.count();
    const ValueId queries = maker.input({shared, times, heads.rows, heads.width});
    ValueId keys = maker.unary("relu", maker.input({shared, 1, heads.width, heads.columns}));
    ValueId values = maker.unary("relu", maker.input({shared, 1, heads.columns, heads.width}));
    if (told) maker.output(keys), maker.output(values);
    const ValueId scores = product(queries, keys);
    const ValueId mask = maker.constant({1, 1, heads.rows, heads.columns}, ElemType::f16);
    const ValueId masked = maker.binary("add", scores, mask);
    maker.fuse(2);
    const ValueId shares =
        maker.graph().add_node("softmax", {masked}, attributes({integer("axis", 3)}), maker.named("Softmax"));
    maker.output(product(shares, values));
}

TEST(Strips, QueriesWithAMaskThatShareKeys) {
    for (const bool told : {false, true}) {
        for (const auto& [heads, times] :
             {std::pair(Heads{{2}, 96, 128, 16}, 3), {Heads{{3}, 64, 100, 8}, 4}}) {
            Maker maker(ElemType::f16, 4), same(ElemType::f16, 4);
            shared_attention(maker, heads, times, told);
            shared_attention(same, heads, times, told);
            const Result cut = run_in_strips(maker), uncut = run(same, "swkpu-v1", small_memories);
            ASSERT_TRUE(is_cut(cut));
            const auto scores = static_cast<uint64_t>(times) * heads.scores();
            EXPECT_GE(uncut.dram_bytes, 4 * scores);
            EXPECT_LE(2 * cut.dram_bytes, uncut.dram_bytes) << told;
        }
    }
}

/// Each strip has some columns of both, with their weights and the scales of those: no weight is read twice.
TEST(Strips, ColumnsOfProducts) {
    for (const ElemType elem : {ElemType::f16, ElemType::i8}) {
        const uint64_t size = elem == ElemType::f16 ? 2 : 1;
        for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{128, 1280}, {200, 1000}}) {
            Maker maker(elem, 5), same(elem, 5);
            maker.output(gated(maker, rows, columns));
            same.output(gated(same, rows, columns));
            const Result cut = run_in_strips(maker), uncut = run(same, "swkpu-v1", small_memories);
            ASSERT_TRUE(is_cut(cut));
            const auto result = static_cast<uint64_t>(rows * columns) * size;
            const auto rest = static_cast<uint64_t>(64 * rows + 2 * 64 * columns) * size + result;
            EXPECT_GE(uncut.dram_bytes, rest + 2 * result);
            EXPECT_LE(cut.dram_bytes, rest + rest / 5);
        }
    }
}

TEST(Strips, AreOneOperationOfTheProgram) {
    Maker maker(ElemType::i8, 3);
    six_convolutions(maker);
    const Lowered lowered = run_in_strips(maker).lowered;
    std::map<std::string, int64_t> macs;
    int striped = 0;
    for (const proto::Op& op : lowered.emitted.module.program.op()) {
        EXPECT_TRUE(macs.emplace(op.id(), 0).second) << op.id() << " stands there twice";
        for (const proto::OpAttribute& attribute : op.attribute()) {
            if (attribute.name() == "macs") macs[op.id()] = attribute.i();
            if (attribute.name() == "strips") ++striped;
        }
    }
    EXPECT_GE(striped, 5);
    EXPECT_EQ(macs.at("Conv1"), 64 * 64 * 16 * 16 * 9);
    EXPECT_EQ(macs.at("Conv6"), 32 * 32 * 16 * 8 * 9);
}

TEST(Strips, AsManyAsAreWished) {
    for (const int64_t strips : {2, 5, 9}) {
        Maker maker(ElemType::i8, 3);
        six_convolutions(maker);
        const Result result = run_in_strips(maker, wishes("Conv*", strips));
        int64_t found = 0;
        for (const PlannedOp& op : result.lowered.plan.ops) {
            if (op.op.source.name == "Conv3") found = op.strips;
        }
        EXPECT_EQ(found, strips);
    }
}

TEST(Strips, NoneWhereNoneAreWished) {
    Maker maker(ElemType::i8, 3);
    six_convolutions(maker);
    EXPECT_FALSE(is_cut(run_in_strips(maker, wishes("*", 1))));
}

TEST(Strips, MoreThanThereAreRowsAreRefused) {
    Maker maker(ElemType::i8, 3);
    six_convolutions(maker);
    try {
        in_strips(maker.graph(), Target(platforms::load("swkpu-v1", small_memories)), wishes("Conv3", 500));
        FAIL() << "it was accepted";
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(),
                    ::testing::HasSubstr("Conv3 (Conv): the mapping that is fixed for it is illegal"));
        EXPECT_THAT(error.what(), ::testing::HasSubstr("cannot be cut into 500 strips"));
    }
}

TEST(Strips, SumsOverRowsAndFlatReadersEndAChain) {
    Maker maker(ElemType::i8, 9);
    ValueId x = maker.input({1, 64, 64, 16});
    for (int i = 0; i < 3; ++i) x = maker.conv(x, 16, 3, 1, 1);
    x = maker.pool("maxpool", x, 64, 64, 0);
    maker.output(maker.gemm(maker.reshape(x, {1, 16}), 10));
    EXPECT_TRUE(is_cut(run_in_strips(maker)));
}

/// Rows and columns of a square picture change places on one way: its strips need rows of it, and as many columns.
TEST(Strips, OfAPictureThatIsReadAlongTwoDimensions) {
    Maker maker(ElemType::i8, 11);
    const ValueId x = maker.input({1, 64, 64, 16});
    const ValueId across =
        maker.graph().add_node("transpose", {maker.conv(x, 16, 1, 1, 0)},
                               attributes({ints("perm", {0, 2, 1, 3})}), maker.named("Transpose", 8));
    ValueId y = maker.binary("add", maker.conv(x, 16, 1, 1, 0), across);
    for (int i = 0; i < 3; ++i) y = maker.conv(y, 16, 1, 1, 0);
    maker.output(maker.pool("maxpool", y, 2, 2, 0));
    EXPECT_TRUE(is_cut(run_in_strips(maker)));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomStrips, ::testing::Range(0u, 5u));

}  // namespace
}  // namespace kpu::compiler
