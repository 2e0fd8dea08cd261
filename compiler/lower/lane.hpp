#pragma once
// The tasks of one engine in a stage.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/lower/tiles.hpp"

namespace kpu::lower {

/// What the lanes of a stage, and its stages, have in common.
struct Shared {
    Shared(const Mapping& of, std::shared_ptr<const std::vector<std::vector<Lap>>> their_laps)
        : mapping(of), laps(std::move(their_laps)) {}
    Mapping mapping;
    std::shared_ptr<const std::vector<std::vector<Lap>>> laps;  ///< by axis
    std::set<std::vector<int64_t>> kept;                        ///< tiles that stand in L2 already
    bool copied = false;                                        ///< tensors that are kept whole stand there
};

/// The tiles of one stage on one engine.
class Lane {
  public:
    using Staged = std::map<std::vector<int64_t>, Tile>;

    Lane(Places& places, Shared& shared, std::vector<int64_t> its_place, size_t engine)
        : place(std::move(its_place)),
          places_(places),
          shared_(shared),
          op_(shared.mapping.op),
          tiling_(shared.mapping.tiling),
          homes_(shared.mapping.homes),
          engine_(engine),
          tiles_(places, shared.mapping, engine),
          hoisted_(op_.operands.size()) {}

    const std::vector<int64_t> place;   ///< among its neighbours, along each axis
    std::vector<builder::Task> issued;  ///< in the present loop

    void place_operands(int64_t base) { tiles_.place_operands(base); }
    int64_t set_position(const std::vector<Run>& runs) { return tiles_.set_position(runs); }

    /// What all iterations share: the constants of it, or the rest.
    void load_hoisted(bool constants, Staged& staged);

    /// What is loaded from here on waits for what was loaded before.
    void queue_loads();

    void iteration(const builder::Expr& t, const builder::Expr& slot, Staged& staged);

    /// Copies what is kept whole to L2.
    void copy_kept();

  private:
    const graph::Value& value(size_t operand) const { return tiles_.value(operand); }

    // ---- tasks

    builder::Task finish(builder::Task task, const std::vector<Span>& reads, const std::vector<Span>& writes,
                         const std::vector<builder::Task>& others = {});

    builder::Task move(const Tile& to, const Tile& from, bool store,
                       const std::vector<builder::Task>& others = {});
    void fetch(size_t operand, const Tile& to, const Tile& from);
    void stream(size_t operand, const Tile& to, const Tile& from);
    /// Spans that anybody writes.
    std::vector<Span> known(const Span& span) const;

    Tile load(size_t operand, const builder::Expr& slot, int64_t part,
              const builder::Expr& t = builder::Expr(0));
    /// To L1; from DDR by way of L2, where neighbours that need the same tile find it.
    Tile load(size_t operand, const builder::Expr& slot, int64_t part, Staged& staged,
              const builder::Expr& t = builder::Expr(0));
    Tile in_l2(size_t operand, const builder::Expr& slot, int64_t part, Staged& staged,
               const builder::Expr& t);

    void keep(size_t operand, const Tile& tile, const builder::Expr& slot, const builder::Expr& t);

    /// Calls visit(number) for each part of the sum, with the tiles set to it.
    template <class Visit>
    void over_parts(const Visit& visit) {
        const auto axis = static_cast<size_t>(sum_axis());
        const Run whole = tiles_.run(axis);
        const int64_t extent = op_.axes[axis].extent, tile = tiling_.tile[axis];
        for (int64_t number = 0; number * tile < extent; ++number) {
            tiles_.set_run(axis, {number, 1, std::min(tile, extent - number * tile)});
            visit(number);
        }
        tiles_.set_run(axis, whole);
    }

    // ---- one iteration

    void run_anchor(std::vector<std::optional<Tile>>& tiles, const builder::Expr& t,
                    const builder::Expr& slot);
    int sum_axis() const;

    /// Part `number` of a cut sum: continues in the accumulator.
    Tile add_part(const TileNode& anchor, std::vector<std::optional<Tile>>& tiles,
                  const std::optional<Tile>& sum, int64_t number, const builder::Expr& t,
                  const builder::Expr& slot);
    ElemType sum_type() const;

    /// From the accumulator to the type of the result.
    void narrow(const TileNode& anchor, std::vector<std::optional<Tile>>& tiles, const Tile& sum,
                const builder::Expr& slot);

    void run_node(const TileNode& tile, std::vector<std::optional<Tile>>& tiles, const builder::Expr& t,
                  const builder::Expr& slot);

    /// Attributes of the tile: its own padding, its own groups.
    BoundAttrs patched(const TileNode& tile, const graph::Node& node) const;

    Places& places_;
    Shared& shared_;
    const TileOp& op_;
    const Tiling& tiling_;
    const std::vector<Home>& homes_;
    size_t engine_;
    Tiles tiles_;
    Loads before_;                            ///< that loads wait for
    bool beforehand_ = false;                 ///< constants are loaded, while another stage is at work
    Staged* staged_ = nullptr;                ///< of the present iteration
    std::vector<std::vector<Tile>> hoisted_;  ///< by operand; of a cut sum, by part
};

}  // namespace kpu::lower
