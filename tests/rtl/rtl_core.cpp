#include "tests/rtl/rtl_core.hpp"

#include <fmt/format.h>

#include <random>
#include <set>

namespace kpu::rtl {

std::string text_of(const timing::GemmShape& shape) {
    return fmt::format("{}x{}x{}", shape.m, shape.n, shape.k);
}

std::vector<timing::GemmShape> shape_grid(const CoreInfo& core) {
    const uint64_t r = core.rows, c = core.cols;
    std::vector<timing::GemmShape> shapes;
    for (const uint64_t m : std::set<uint64_t>{1, r - 1, r, r + 1, 2 * r, 3 * r + 2}) {
        for (const uint64_t n : std::set<uint64_t>{1, c - 1, c, c + 1, 3 * c - 1, 4 * c}) {
            for (const uint64_t k : std::set<uint64_t>{1, r - 1, r, r + 1, 2 * r + 1, 37, 64})
                shapes.push_back({m, n, k});
        }
    }
    shapes.push_back({100, 1, 5});
    shapes.push_back({90, 2, 1});
    shapes.push_back({1, 100, 5});
    shapes.push_back({2, 3, 300});
    return shapes;
}

std::vector<std::pair<timing::GemmShape, timing::GemmShape>> shape_pairs(const CoreInfo& core) {
    const auto shapes = shape_grid(core);
    std::vector<std::pair<timing::GemmShape, timing::GemmShape>> pairs;
    for (size_t i = 0; i < shapes.size(); ++i)
        pairs.emplace_back(shapes[i], shapes[(i * 7 + 3) % shapes.size()]);
    return pairs;
}

Job random_job(const CoreInfo& core, const timing::GemmShape& shape, uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto fill = [&](std::vector<int32_t>& values, uint64_t count, int bits) {
        const int32_t top = (1 << (bits - 1)) - 1;
        for (uint64_t i = 0; i < count; ++i) {
            const uint64_t draw = random();
            if (draw % 16 < 2) {
                values.push_back(draw % 16 == 0 ? -top - 1 : top);
            } else {
                values.push_back(static_cast<int32_t>(draw >> 8 & ((uint64_t{1} << bits) - 1)) - top - 1);
            }
        }
    };
    Job job;
    job.shape = shape;
    fill(job.a, shape.m * shape.k, core.a_bits);
    fill(job.b, shape.k * shape.n, core.b_bits);
    return job;
}

std::vector<int32_t> exact_product(const Job& job) {
    const uint64_t m_size = job.shape.m, n_size = job.shape.n, k_size = job.shape.k;
    std::vector<int32_t> values;
    for (uint64_t m = 0; m < m_size; ++m) {
        for (uint64_t n = 0; n < n_size; ++n) {
            int64_t sum = 0;
            for (uint64_t k = 0; k < k_size; ++k)
                sum += int64_t{job.a[m * k_size + k]} * job.b[k * n_size + n];
            values.push_back(static_cast<int32_t>(static_cast<uint32_t>(sum)));
        }
    }
    return values;
}

}  // namespace kpu::rtl
