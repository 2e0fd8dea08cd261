#include "tests/rtl/rtl_core.hpp"

#include <random>

namespace kpu::rtl {

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
    const auto [m_size, n_size, k_size, groups] = job.shape;
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
