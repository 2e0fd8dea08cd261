#pragma once
// The tiles of a measured schedule: its row says how many there are, and the software that cut them filled half of the
// memories, two tiles being in flight.
#include <cstdint>
#include <string>

#include "platforms/platform.hpp"
#include "runtime/validation/measured.hpp"

namespace kpu::validation {

/// Room of one of two tiles in flight, in rows of the array's width: operands of a byte, sums of four.
struct Budget {
    int64_t side = 16;  ///< side of the array
    int64_t operand_rows = 0;
    int64_t sum_rows = 0;
};
/// Divides L1: two thirds are the operands', one third the sums'. Throws UserError for a platform whose L1
/// has no room for tiles.
Budget budget_of(const platforms::Platform& platform);

/// Sizes of one tile; those at an edge are smaller. The loops over them are, from the outermost: rows, columns, filters,
/// channels.
struct Tiles {
    int64_t height = 0, width = 0;  ///< size of the pooled output
    int64_t filters = 0, channels = 0;
    int64_t count(const Work& work) const;
    /// Pixels of the convolution that `pooled` pixels of the output are made of.
    static int64_t unpooled(const Work& work, int64_t pooled) {
        return (pooled - 1) * work.pool_stride + work.pool;
    }
};
int64_t pooled_height(const Work& work);
int64_t pooled_width(const Work& work);

/// Throws UserError where no tile fits. The count is the row's, or the nearest that fits.
Tiles tiles_of(const MeasuredRow& row, const Budget& budget);

}  // namespace kpu::validation
