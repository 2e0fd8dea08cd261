#include "runtime/validation/mapping.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/diagnostics.hpp"
#include "runtime/simulation.hpp"

namespace kpu::validation {
namespace {

using testing::HasSubstr;

std::string mapping_error(const std::string& text, const Extents& extents) {
    try {
        parse_mapping(text, extents, 1);
    } catch (const UserError& error) {
        return error.what();
    }
    return "no error";
}

TEST(Mapping, Parse) {
    const Mapped mapped =
        parse_mapping("L3[WIO] P7 N1 Q14 - L2[WI] N1 K16X - L1[O] K4 S7 R7 Q2 P4 C3X - L0[W] Q4 P4",
                      {3, 64, 112, 112, 7, 7}, 2);
    ASSERT_EQ(mapped.outer.size(), 2u);
    EXPECT_EQ(mapped.outer[0].dim, Dim::p);
    EXPECT_EQ(mapped.outer[1].count, 14);
    EXPECT_EQ(mapped.tile, (Extents{3, 64, 16, 8, 7, 7}));
    EXPECT_EQ(mapped.tile_at(Dim::q), 8);
    EXPECT_EQ(mapped.spatial_c, 3);
    EXPECT_EQ(mapped.spatial_k, 16);
    EXPECT_EQ(mapped.passes(), 98);
    EXPECT_EQ(mapped.pad(), 3);
}

TEST(Mapping, Refusals) {
    const Extents layer{32, 16, 4, 4, 1, 1};
    const std::string good = "L3[WIO] P4 - L2[WI] K16X - L1[O] C2 Q4 C16X - L0[W] N1";
    EXPECT_EQ(mapping_error(good, layer), "no error");
    EXPECT_THAT(mapping_error("", layer), HasSubstr("0 levels instead of 4"));
    EXPECT_THAT(mapping_error("L3[WIO] - L1[O] - L2[WI] - L0[W]", layer),
                HasSubstr("level `L1[O]` instead of L2[WI]"));
    EXPECT_THAT(mapping_error("L3[WIO] P2 - L2[WI] K16X - L1[O] C2 Q4 C16X - L0[W] N1", layer),
                HasSubstr("factors of P make 2, the layer has 4"));
    EXPECT_THAT(mapping_error("L3[WIO] Z4 - L2[WI] - L1[O] - L0[W]", layer),
                HasSubstr("`Z4` names no dimension"));
    EXPECT_THAT(mapping_error("L3[WIO] P - L2[WI] - L1[O] - L0[W]", layer), HasSubstr("`P` has no factor"));
    EXPECT_THAT(mapping_error("L3[WIO] P0 - L2[WI] - L1[O] - L0[W]", layer), HasSubstr("`P0` has no factor"));
    EXPECT_THAT(mapping_error("L3[WIO] N2 - L2[WI] - L1[O] - L0[W]", layer),
                HasSubstr("batch of more than 1"));
    EXPECT_THAT(mapping_error("L3[WIO] P4X - L2[WI] - L1[O] - L0[W]", layer),
                HasSubstr("array's sides are C and K"));
    const std::string many = "L3[WIO] P65536 Q65536 - L2[WI] K16X - L1[O] C16X - L0[W] N1";
    const Mapped mapped = parse_mapping(many, {16, 16, 65536, 65536, 1, 1}, 1);
    EXPECT_THROW(mapped_schedule(mapped, platforms::load("gemmini16_big")), UserError);
    const Mapped large = parse_mapping("L3[WIO] - L2[WI] K16X - L1[O] C16X P2048 Q2048 - L0[W] N1",
                                       {16, 16, 2048, 2048, 1, 1}, 1);
    EXPECT_THROW(mapped_schedule(large, platforms::load("gemmini16_big")), UserError);
}

/// Counts the multiply-accumulates that meet a pixel.
uint64_t macs_of(const Mapped& m) {
    const auto touched = [&](Dim out, Dim window) {
        uint64_t pairs = 0;
        for (int64_t o = 0; o < m.at(out); ++o)
            for (int64_t w = 0; w < m.at(window); ++w) {
                const int64_t in = o * m.stride + w - m.pad();
                pairs += in >= 0 && in < m.at(out) * m.stride;
            }
        return pairs;
    };
    return touched(Dim::p, Dim::r) * touched(Dim::q, Dim::s) *
           static_cast<uint64_t>(m.at(Dim::c) * m.at(Dim::k));
}

/// Random factors in random order: each product that meets a pixel once, and the result once.
TEST(Mapping, ComputesEachProductOnce) {
    constexpr uint32_t seed = 31;
    RecordProperty("seed", seed);
    std::mt19937 random(seed);
    const auto pick = [&](int64_t least, int64_t most) {
        return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
    };
    const auto platform = platforms::load("gemmini16_big");
    for (int i = 0; i < 30; ++i) {
        Mapped m;
        m.stride = pick(1, 2);
        m.tile = {pick(1, 20), pick(1, 20), pick(1, 5), pick(1, 5), 1, 1};
        const bool window = pick(0, 1) == 1, split = pick(0, 1) == 1;
        if (window && !split) m.tile[4] = m.tile[5] = 3;
        m.inmost.fill(1);
        m.extents = m.tile;
        for (const Dim dim : {Dim::c, Dim::k, Dim::p, Dim::q, Dim::r, Dim::s}) {
            const auto d = static_cast<size_t>(dim);
            const bool of_window = dim == Dim::r || dim == Dim::s;
            const int64_t count = of_window ? (window && split ? 3 : 1) : pick(1, 3);
            m.extents.at(d) *= count;
            m.outer.insert(m.outer.begin() + pick(0, static_cast<int64_t>(m.outer.size())), {dim, count});
        }
        SCOPED_TRACE(testing::Message() << m.text() << ", " << i << " of seed " << seed);
        runtime::SimulationOptions options;
        options.mode = runtime::Mode::timing;
        options.hazards = false;
        runtime::Simulation simulation(std::make_shared<const Module>(mapped_schedule(m, platform)),
                                       &platform, options);
        ASSERT_EQ(simulation.run(), execution::RunStatus::finished);
        EXPECT_EQ(simulation.stats().integer("ops.macs"), macs_of(m));
        EXPECT_EQ(simulation.stats().integer("bytes.dram.write"),
                  static_cast<uint64_t>(m.at(Dim::p) * m.at(Dim::q) * m.at(Dim::k)));
    }
}

}  // namespace
}  // namespace kpu::validation
