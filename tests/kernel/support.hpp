#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "isa/kernel/builder.hpp"
#include "isa/kernel/code.hpp"
#include "values/kernel/launch.hpp"

namespace kpu::kernel_test {

using kpu::kernel::Code;
using values::kernel::Bytes;
using values::kernel::Grid;
using Blob = std::vector<uint8_t>;

inline std::shared_ptr<const Code> code_of(const std::string& text) {
    Diagnostics diagnostics;
    const auto kernels = kpu::kernel::parse(text, "t.kern", diagnostics);
    if (kernels.size() != 1 || diagnostics.has_errors()) throw UserError(diagnostics);
    kpu::kernel::check_form(*kernels[0].body, "t.kern");
    const auto code = kpu::kernel::analyse(kernels[0], diagnostics);
    if (code == nullptr) throw UserError(diagnostics);
    return code;
}

/// Returns everything that is wrong with a text, as `check` would print it.
inline std::string errors_of(const std::string& text) {
    Diagnostics diagnostics;
    for (const kpu::kernel::Source& source : kpu::kernel::parse(text, "t.kern", diagnostics))
        if (!diagnostics.has_errors()) kpu::kernel::analyse(source, diagnostics);
    return diagnostics.to_string();
}

struct Launched {
    std::vector<Blob> buffers;
    values::kernel::LaunchResult result;
    std::string error;
};

/// Runs one of the two ways to run a kernel.
inline Launched run_one(const Code& code, std::vector<Blob> buffers, const Grid& grid,
                        const std::vector<uint64_t>& scalars, bool reference, uint64_t steps = 1 << 24) {
    Launched run;
    run.buffers = std::move(buffers);
    std::vector<Bytes> storage;
    for (Blob& blob : run.buffers) storage.push_back({blob.data(), blob.size()});
    values::kernel::LaunchLimits limits;
    limits.steps = steps;
    try {
        run.result = reference ? run_reference(code, grid, scalars, storage, limits)
                               : run_launch(code, grid, scalars, storage, limits);
    } catch (const std::runtime_error& error) {
        run.error = error.what();
    }
    return run;
}

/// Runs both ways; they agree on everything.
inline Launched run(const Code& code, const std::vector<Blob>& buffers, const Grid& grid = {1, 1, 1},
                    const std::vector<uint64_t>& scalars = {}) {
    Launched fast = run_one(code, buffers, grid, scalars, false);
    const Launched reference = run_one(code, buffers, grid, scalars, true);
    EXPECT_EQ(fast.error, reference.error);
    if (fast.error.empty()) {
        EXPECT_EQ(fast.buffers, reference.buffers);
    }
    EXPECT_EQ(fast.result.steps, reference.result.steps);
    EXPECT_EQ(fast.result.outside.size(), reference.result.outside.size());
    for (size_t i = 0; i < std::min(fast.result.outside.size(), reference.result.outside.size()); ++i) {
        EXPECT_EQ(fast.result.outside[i].count, reference.result.outside[i].count);
        EXPECT_EQ(fast.result.outside[i].first_index, reference.result.outside[i].first_index);
        EXPECT_EQ(fast.result.outside[i].statement, reference.result.outside[i].statement);
    }
    return fast;
}
inline Launched run(const std::string& text, const std::vector<Blob>& buffers, const Grid& grid = {1, 1, 1},
                    const std::vector<uint64_t>& scalars = {}) {
    return run(*code_of(text), buffers, grid, scalars);
}

template <typename T>
Blob blob(const std::vector<T>& values) {
    Blob bytes(values.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}
inline Blob words(const std::vector<uint32_t>& values) { return blob(values); }
template <typename T = uint32_t>
std::vector<T> read(const Blob& bytes) {
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

}  // namespace kpu::kernel_test
