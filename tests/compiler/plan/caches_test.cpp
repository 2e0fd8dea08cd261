// Caches: what the host gives and gets back with something after it or in it stays where it is.
#include "tests/compiler/plan/maker.hpp"

namespace kpu::compiler {
namespace {

using namespace testing;

class Caches : public ::testing::TestWithParam<Case> {};

/// A cache with other shapes in each seed, and rows that are computed.
struct Cache {
    Cache(ElemType elem, uint32_t seed) : maker(elem, seed), axis(static_cast<size_t>(maker.pick(0, 2))) {
        for (int64_t& size : shape) size = maker.pick(2, 9);
        shape[3] = maker.pick(1, 40);
        std::vector<int64_t> rows = shape;
        rows[axis] = added = maker.pick(1, 3);
        shape[axis] = maker.pick(5, 30);
        past = maker.input(shape);
        fresh = maker.unary("relu", maker.input(rows));
        maker.graph().value(fresh).quant = maker.graph().value(past).quant;
    }

    ValueId concat(std::vector<ValueId> parts) {
        return node("concat", std::move(parts), attributes({integer("axis", static_cast<int64_t>(axis))}));
    }
    ValueId slice(int64_t first, int64_t last) {
        return node("slice", {past},
                    attributes({ints("starts", {first}), ints("ends", {last}),
                                ints("axes", {static_cast<int64_t>(axis)}), ints("steps", {1})}));
    }
    /// Its bytes, and something that reads them.
    void finish(ValueId present) {
        maker.output(present);
        maker.output(maker.unary("relu", present));
    }

    Maker maker;
    size_t axis;
    std::vector<int64_t> shape{0, 0, 0, 0};
    int64_t added = 0;
    ValueId past = 0, fresh = 0;

  private:
    ValueId node(const char* opcode, std::vector<ValueId> operands, BoundAttrs attrs) {
        NodeOptions options = maker.named(opcode);
        options.quant = maker.graph().value(past).quant;
        return maker.graph().add_node(opcode, std::move(operands), std::move(attrs), options);
    }
};

/// True if the program has the cache and what became of it in the same bytes.
bool in_place(const Result& result, ValueId past, ValueId present) {
    const MemoryPlan& memory = result.lowered.plan.memory;
    return memory.views.at(past).storage == memory.views.at(present).storage;
}

TEST_P(Caches, GrowWithoutACopy) {
    for (uint32_t seed = 0; seed < 8; ++seed) {
        Cache cache(GetParam().elem, seed);
        const ValueId present = cache.concat(seed % 3 == 0 ? std::vector<ValueId>{cache.fresh, cache.past}
                                                           : std::vector<ValueId>{cache.past, cache.fresh});
        cache.finish(present);
        EXPECT_TRUE(in_place(run(cache.maker, GetParam().device), cache.past, present)) << seed;
    }
}

TEST_P(Caches, AreUpdatedInPlace) {
    for (uint32_t seed = 0; seed < 8; ++seed) {
        Cache cache(GetParam().elem, seed);
        const int64_t size = cache.shape[cache.axis], at = cache.maker.pick(0, size - cache.added);
        std::vector<ValueId> parts;
        if (at > 0) parts.push_back(cache.slice(0, at));
        parts.push_back(cache.fresh);
        if (at + cache.added < size) parts.push_back(cache.slice(at + cache.added, size));
        const ValueId present = cache.concat(parts);
        cache.finish(present);
        EXPECT_TRUE(in_place(run(cache.maker, GetParam().device), cache.past, present)) << seed;
    }
}

TEST_P(Caches, AreCopiedWhereTheOldOnesAreRead) {
    Cache cache(GetParam().elem, 3);
    const int64_t size = cache.shape[cache.axis];
    // rows that were there are not at the place that they had
    const ValueId moved = cache.concat({cache.slice(cache.added, size), cache.fresh});
    cache.finish(moved);
    EXPECT_FALSE(in_place(run(cache.maker, GetParam().device), cache.past, moved));

    Cache read(GetParam().elem, 4);
    const ValueId present = read.concat({read.fresh, read.slice(read.added, read.shape[read.axis])});
    read.finish(present);
    read.maker.output(read.maker.unary("relu", read.past));
    EXPECT_FALSE(in_place(run(read.maker, GetParam().device), read.past, present));
}

INSTANTIATE_TEST_SUITE_P(Devices, Caches,
                         ::testing::Values(Case{ElemType::f16, "swkpu-v1"}, Case{ElemType::i8, "tile32"},
                                           Case{ElemType::f32, "tile32"}));

}  // namespace
}  // namespace kpu::compiler
