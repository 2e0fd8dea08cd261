#pragma once
// Times that tiles of an operation's product keep an array: asked for each shape of tile of each tiling of a
// search.
#include <array>
#include <vector>

#include "compiler/mapping/tiling.hpp"

namespace kpu::compiler {

/// Work of a product, in core cycles: how long it keeps an array, and all of L1.
struct ProductWork {
    double array = 0, l1 = 0;
};

class ProductTimes {
  public:
    /// The operation may have no product: any() tells.
    explicit ProductTimes(const TilingRequest& request);
    bool any() const { return anchor_ != nullptr; }

    /// Returns the work of a tile of these sizes, as the array's operand and result ports let it run. `cut`:
    /// it is a part of a sum.
    ProductWork work(const std::vector<int64_t>& tile, bool cut) const;
    /// Returns core cycles of the same from start to end.
    double latency(const std::vector<int64_t>& tile, bool cut) const;

  private:
    /// Elements of a dimension, by the size of a tile along its axis.
    struct Extent {
        int axis = -1;
        int64_t step = 1, extent = 1, most = 1;
        uint64_t of(const std::vector<int64_t>& tile) const;
    };
    using Shape = std::vector<Extent>;
    Shape shape_of(size_t operand) const;
    static uint64_t product(const Shape& shape, const std::vector<int64_t>& tile);
    timing::GemmShape product(const std::vector<int64_t>& tile) const;
    ProductWork work(const timing::SystolicTime& time, const timing::GemmShape& shape, bool cut) const;

    const TilingRequest& request_;
    const graph::Node* anchor_ = nullptr;  ///< null: there is no product
    bool gemm_ = false, transposed_ = false;
    int groups_axis_ = -1;  ///< index for a convolution in groups
    timing::SystolicArray array_;
    ProductBytes whole_, part_;  ///< bytes of a product, and of a part of one
    Shape x_, w_, y_;
};

}  // namespace kpu::compiler
