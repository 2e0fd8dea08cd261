#pragma once
// Kernels whose operands stand in memory before and whose result stands there afterwards: programs for
// machines whose schedule is not published. Each tile of a kernel is loaded, computed and stored before the
// next one is loaded.
#include <cstdint>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "isa/module.hpp"
#include "platforms/platform.hpp"

namespace kpu::validation {

struct Kernel {
    enum class Kind : uint8_t {
        copy,         ///< `m` bytes from DDR to L2
        product,      ///< [m, k] x [k, n]
        convolution,  ///< `batch` pictures; each position of the window is a product of its own
        elements,     ///< `opcode` on `m` elements of `inputs` operands
        rows,         ///< `opcode` on `m` rows of `n` elements
        attention     ///< attention with `heads` heads, `m` places of `n` elements
    };
    Kind kind = Kind::copy;
    std::string opcode;
    ElemType elem = ElemType::bf16;
    Level home = Level::ddr;  ///< memory of operands and result
    int64_t m = 1, n = 1, k = 1;
    int64_t heads = 1, inputs = 1;
    /// Size of the pictures that go in: `k` channels; `n` come out.
    int64_t batch = 1, height = 1, width = 1;
    int64_t window = 1, stride = 1, pad = 0;
    bool left_is_here = false, result_stays = false;  ///< operands of a product: in L1 before, and afterwards
    int64_t out_height() const { return (height + 2 * pad - window) / stride + 1; }
    int64_t out_width() const { return (width + 2 * pad - window) / stride + 1; }
    /// Writes all of it, to tell kernels apart.
    std::string text() const;
};

/// Returns the elements that a tensor takes in memory where its last dimension comes in lines of `lanes` and
/// the one before in blocks of 8 (for one dimension: whole blocks of 8 lines); of all choices of the last one
/// the smallest. XLA's tiled layout is so.
int64_t laid_out(const std::vector<int64_t>& shape, int64_t lanes);

/// Throws UserError for what no tile of fits L1.
Module kernel_program(const Kernel& kernel, const platforms::Platform& platform);

}  // namespace kpu::validation
