#pragma once
// The tasks of one engine in a stage.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/emit/tiles.hpp"

namespace kpu::compiler {

/// State that the lanes of a stage, and its stages, have in common.
struct Shared {
    Shared(const PlannedOp& op, size_t its_number, uint64_t of_inference,
           std::shared_ptr<const std::vector<std::vector<Lap>>> their_laps)
        : planned(op), number(its_number), inference(of_inference), laps(std::move(their_laps)) {}
    const PlannedOp& planned;
    size_t number;                                              ///< index into Plan::ops
    uint64_t inference;                                         ///< whose inputs and outputs these are
    std::shared_ptr<const std::vector<std::vector<Lap>>> laps;  ///< indexed by axis
    std::set<std::vector<int64_t>> kept;                        ///< tiles that stand in L2 already
    bool copied = false;                                        ///< tensors that are kept whole stand there
    std::function<void()> pending;                              ///< brings what the first stage keeps in L2
};

/// The tiles of one stage on one engine.
class Lane {
  public:
    using Staged = std::map<std::vector<int64_t>, Tile>;

    Lane(Emission& emission, Shared& shared, std::vector<int64_t> its_place, size_t engine)
        : place(std::move(its_place)),
          out_(emission),
          shared_(shared),
          op_(shared.planned.op),
          tiling_(shared.planned.tiling),
          homes_(shared.planned.homes),
          engine_(engine),
          tiles_(emission, shared.planned, shared.inference, engine),
          hoisted_(op_.operands.size()) {}

    const std::vector<int64_t> place;   ///< among its neighbours, along each axis
    std::vector<builder::Task> issued;  ///< in the present loop

    void place_operands(uint32_t half_of_l1) { tiles_.place_operands(half_of_l1); }
    int64_t set_position(const std::vector<Run>& runs) { return tiles_.set_position(runs); }

    /// Loads what all iterations share: the constants of it, or the rest.
    void load_hoisted(bool constants, Staged& staged);

    /// Brings what a stage keeps in L2: Keep::stage.
    void bring_kept();
    /// Half of such a place: stages take turns.
    int64_t half = 0;

    /// Makes loads from here on wait for what was loaded before.
    void queue_loads();

    /// Begins an iteration: what comes before the parts of its sum (all of the anchor, if its sum is whole),
    /// each part, the rest. Lanes take turns, so that their token tables fill alike and neighbours find tiles
    /// that are still staged.
    void begin(const builder::Expr& t, const builder::Expr& slot, Staged& staged);
    void part(int64_t number, const builder::Expr& t, const builder::Expr& slot);
    void end(const builder::Expr& t, const builder::Expr& slot);

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
    /// Loads a tile to L1; from DDR by way of L2, where neighbours that need the same tile find it.
    Tile load(size_t operand, const builder::Expr& slot, int64_t part, Staged& staged,
              const builder::Expr& t = builder::Expr(0));
    Tile in_l2(size_t operand, const builder::Expr& slot, int64_t part, Staged& staged,
               const builder::Expr& t);
    /// Brings the parts that come from DDR with this one.
    void stage_chunk(size_t operand, const builder::Expr& slot, int64_t part, Staged& staged,
                     const builder::Expr& t);

    void keep(size_t operand, const Tile& tile, const builder::Expr& slot, const builder::Expr& t);

    /// Calls visit with the tiles set to a part of the sum.
    template <class Visit>
    void at_part(int64_t number, const Visit& visit) {
        at_parts(number, 1, visit);
    }
    template <class Visit>
    void at_parts(int64_t number, int64_t count, const Visit& visit) {
        const auto axis = static_cast<size_t>(tiling_.cut_axis(op_));
        const Run whole = tiles_.run(axis);
        const int64_t tile = tiling_.tile[axis];
        tiles_.set_run(axis, {number, 1, std::min(count * tile, op_.axes[axis].extent - number * tile)});
        visit();
        tiles_.set_run(axis, whole);
    }

    // ---- one iteration

    /// Adds part `number` of a cut sum, which continues in the accumulator.
    void add_part(const TileNode& anchor, int64_t number, const builder::Expr& t, const builder::Expr& slot);
    ElemType sum_type() const;

    /// Narrows from the accumulator to the type of the result.
    void narrow(const TileNode& anchor, const builder::Expr& slot);

    void run_node(const TileNode& tile, const builder::Expr& t, const builder::Expr& slot);

    builder::Task launch(const kernels::Operation& kernel, const TileNode& tile,
                         const std::vector<builder::Region>& inputs,
                         const std::vector<builder::Region>& outputs);

    void carry(const proto::KernelBody& body);

    /// Attributes of the tile: its own padding, its own groups.
    BoundAttrs patched(const TileNode& tile, const graph::Node& node) const;

    Emission& out_;
    Shared& shared_;
    const TileOp& op_;
    const Tiling& tiling_;
    const std::vector<Home>& homes_;
    size_t engine_;
    Tiles tiles_;
    Loads before_;                                ///< that loads wait for
    bool beforehand_ = false;                     ///< constants are loaded, while another stage is at work
    Staged* staged_ = nullptr;                    ///< present iteration
    std::vector<std::optional<Tile>> tiles_now_;  ///< indexed by operand: tiles of the present iteration
    std::optional<Tile> sum_;
    std::vector<std::vector<Tile>> hoisted_;  ///< indexed by operand; of a cut sum, by part
};

}  // namespace kpu::compiler
