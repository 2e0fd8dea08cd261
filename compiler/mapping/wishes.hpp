#pragma once
// Wishes of a user for the mapping of operations. What is left open stays the compiler's choice.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/mapping/tiling.hpp"
#include "compiler/tile_op/groups.hpp"

namespace kpu::compiler {

struct MappingWish {
    /// Pattern of operations' names: `*` and `?` stand for any characters.
    std::string pattern;
    std::map<std::string, int64_t> tile;     ///< for each axis: indices of one tile
    std::map<std::string, int64_t> engines;  ///< for each axis: neighbouring tiles worked on at once
    std::optional<int64_t> in_flight;        ///< iterations, each with a slot of its own in L1
    std::optional<Home> output;              ///< l2 or ddr
    std::optional<int64_t> strips;           ///< 1: it is not cut into strips
    std::optional<bool> fuse;                ///< false: nothing is fused after it, nor it after another
    bool fixes_tiles() const { return !tile.empty() || !engines.empty() || in_flight; }
};

/// The part of the device that works: its first engines, and so many bytes of staging in L2 for each.
struct DeviceWish {
    std::optional<int64_t> engines, staging_bytes;
};

/// Wishes for operations by name: a longer pattern beats a shorter one, field by field.
class MappingWishes {
  public:
    MappingWishes() = default;
    explicit MappingWishes(std::vector<MappingWish> wishes, DeviceWish device = {});

    bool empty() const { return wishes_.empty(); }
    const DeviceWish& device() const { return device_; }
    MappingWish of(const std::string& name) const;
    /// True if some operation is to be cut into strips.
    bool any_strips() const;
    /// Throws UserError for a pattern that names neither an operation nor a node.
    void check(const graph::Graph& graph, const std::vector<NodeRange>& operations) const;
    /// Marks nodes that are not to be fused.
    void mark_alone(graph::Graph& graph) const;

  private:
    std::vector<MappingWish> wishes_;  ///< shorter patterns first
    DeviceWish device_;
};

/// Fixes what `wish` says in a search: sizes by axis, 0 where nothing is fixed. Throws UserError that names the operation
/// and why its mapping is illegal.
struct FixedTiling {
    std::vector<int64_t> tile, split;  ///< indexed by axis; `split` is empty when it is open
    int depth = 0;                     ///< 0: open
};
FixedTiling fix(const TilingRequest& request, const MappingWish& wish);

}  // namespace kpu::compiler
