#include <gtest/gtest.h>

#include <set>

#include "tests/values/helpers.hpp"
#include "values/compute.hpp"

namespace kpu::values {
namespace {

using testing::pick;
using testing::Random;

constexpr ElemType copied_types[] = {ElemType::i4, ElemType::i8, ElemType::u16, ElemType::f32};

std::vector<uint8_t> random_bytes(Random& random, size_t count) {
    std::vector<uint8_t> bytes(count);
    for (auto& b : bytes) b = static_cast<uint8_t>(random());
    return bytes;
}

// gather() yields the elements in index order (i4 one per byte, sign-extended, low half first).
TEST(RegionCopy, GatherReadsElementsInIndexOrder) {
    Random random(5);
    for (int round = 0; round < 2000; ++round) {
        const BoundRegion region = testing::random_region(random, copied_types[round % 4]);
        MemoryImage memory(4096, 0, {});
        const std::vector<uint8_t> bytes = random_bytes(random, 4096);
        memory.level(Level::ddr, 0).write(0, bytes.data(), bytes.size());
        const RegionView view{&region, static_cast<uint64_t>(pick(random, 0, 9))};
        std::vector<uint8_t> dense(dense_bytes(region));
        gather(memory, view, dense.data());
        size_t at = 0;
        for (const int64_t offset : testing::element_offsets(region)) {
            if (region.elem == ElemType::i4) {
                const int byte = bytes[view.address + static_cast<uint64_t>(offset) / 2];
                const int half = offset % 2 == 0 ? byte & 15 : byte >> 4;
                ASSERT_EQ(static_cast<int8_t>(dense[at++]), half >= 8 ? half - 16 : half);
                continue;
            }
            const auto size = static_cast<uint64_t>(bit_width(region.elem)) / 8;
            for (uint64_t b = 0; b < size; ++b) {
                ASSERT_EQ(dense[at++], bytes[view.address + static_cast<uint64_t>(offset) * size + b]);
            }
        }
    }
}

// scatter() writes the elements, marks their bytes written, and leaves the gaps alone, half bytes included.
TEST(RegionCopy, ScatterLeavesGapsUntouched) {
    Random random(6);
    for (int round = 0; round < 2000; ++round) {
        const BoundRegion region = testing::random_region(random, copied_types[round % 4]);
        MemoryImage memory(2048, 0, {});
        std::vector<uint8_t> expected = random_bytes(random, 2048);
        std::memcpy(memory.level(Level::ddr, 0).data(), expected.data(), expected.size());
        const RegionView view{&region, static_cast<uint64_t>(pick(random, 0, 9))};
        const std::vector<uint8_t> dense = random_bytes(random, dense_bytes(region));
        scatter(memory, view, dense.data());
        std::set<uint64_t> written;
        size_t at = 0;
        for (const int64_t offset : testing::element_offsets(region)) {
            if (region.elem == ElemType::i4) {
                const uint64_t byte = view.address + static_cast<uint64_t>(offset) / 2;
                const int half = dense[at++] & 15;
                expected[byte] = static_cast<uint8_t>(offset % 2 == 0 ? (expected[byte] & 0xf0) | half
                                                                      : (expected[byte] & 0x0f) | half << 4);
                written.insert(byte);
                continue;
            }
            const auto size = static_cast<uint64_t>(bit_width(region.elem)) / 8;
            for (uint64_t b = 0; b < size; ++b) {
                const uint64_t byte = view.address + static_cast<uint64_t>(offset) * size + b;
                expected[byte] = dense[at++];
                written.insert(byte);
            }
        }
        const MemoryLevel& level = memory.level(Level::ddr, 0);
        ASSERT_EQ(std::vector<uint8_t>(level.data(), level.data() + 2048), expected);
        for (uint64_t b = 0; b < 2048; ++b) ASSERT_EQ(level.all_written(b, 1), written.count(b) != 0) << b;
    }
}

}  // namespace
}  // namespace kpu::values
