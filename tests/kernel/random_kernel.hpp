#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "values/kernel/launch.hpp"

namespace kpu::kernel_test {

/// A buffer of every random kernel that is not workgroup memory.
struct RandomBuffer {
    const char *name, *access, *type;
    const char *elem, *dtype;  ///< element type of its region, and of an array of it
    size_t elem_bytes, elements;
    bool is_read, is_written;
};
constexpr RandomBuffer random_buffers[] = {{"u", "read_write", "u32[]", "u32", "<u4", 4, 8, true, true},
                                           {"i", "read_write", "i32[]", "i32", "<i4", 4, 8, true, true},
                                           {"f", "read_write", "f32[]", "f32", "<f4", 4, 8, true, true},
                                           {"w", "read_write", "u64[]", "u32", "<u4", 4, 16, true, true},
                                           {"b", "read_write", "bool[]", "u32", "<u4", 4, 8, true, true},
                                           {"h", "read_write", "i16[]", "i16", "<i2", 2, 8, true, true},
                                           {"k", "read_write", "u16[]", "u16", "<u2", 2, 8, true, true},
                                           {"q", "read_write", "i8[]", "i8", "|i1", 1, 8, true, true},
                                           {"y", "read_write", "u8[]", "u8", "|u1", 1, 8, true, true},
                                           {"e", "read_write", "f16[]", "f16", "<f2", 2, 8, true, true},
                                           {"g", "read_write", "bf16[]", "bf16", "<u2", 2, 8, true, true},
                                           {"a", "read_write", "u32[]", "u32", "<u4", 4, 8, true, true},
                                           {"p", "read", "u32[]", "u32", "<u4", 4, 8, true, false},
                                           {"c", "uniform", "f32[4]", "f32", "<f4", 4, 4, true, false},
                                           {"x", "write", "i32[]", "i32", "<i4", 4, 8, false, true},
                                           {"o", "output", "f32[8]", "f32", "<f4", 4, 8, false, true}};

/// A kernel that means something, with data to run it on: racy as often as not, with every element type, divergence,
/// loops, barriers, exchanges, atomics, copies, accesses outside of buffers and, rarely, a fault.
struct RandomKernel {
    std::string text;
    std::vector<std::vector<uint8_t>> buffers;  ///< contents of random_buffers
    values::kernel::Grid grid{1, 1, 1};
    std::vector<uint64_t> scalars;
};
RandomKernel random_kernel(uint64_t seed);
/// Returns one whose invocations touch elements of their own, those of their workgroup between barriers, and
/// by atomics of one kind: free of races.
RandomKernel tame_kernel(uint64_t seed);

}  // namespace kpu::kernel_test
