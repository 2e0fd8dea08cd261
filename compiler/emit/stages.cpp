#include "compiler/emit/stages.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "compiler/emit/lane.hpp"

namespace kpu::compiler {

using builder::Expr;
using builder::Task;

namespace {

/// A lap along each axis.
using Laps = std::vector<const Lap*>;

/// Returns all combinations of one lap for each axis.
std::vector<Laps> combinations(const std::vector<Laps>& choices) {
    std::vector<Laps> result{{}};
    for (const Laps& choice : choices) {
        std::vector<Laps> longer;
        for (const Laps& head : result) {
            for (const Lap* lap : choice) {
                longer.push_back(head);
                longer.back().push_back(lap);
            }
        }
        result = std::move(longer);
    }
    return result;
}

/// Neighbouring tiles of the unrolled axes, one for each lane, and all iterations over the others.
class StageEmitter {
  public:
    StageEmitter(Emission& emission, std::shared_ptr<Shared> shared, Laps fixed, std::vector<Laps> work,
                 size_t stage)
        : out_(emission),
          shared_(std::move(shared)),
          fixed_(std::move(fixed)),
          work_(std::move(work)),
          stage_(stage) {
        const std::vector<int64_t>& split = shared_->planned.tiling.split;
        tasks_ =
            static_cast<size_t>(shared_->planned.tiling.tasks(shared_->planned.op, shared_->planned.homes));
        const PlannedOp& planned = shared_->planned;
        for (size_t a = 0; planned.tiling.cuts_sum(planned.op) && a < planned.op.axes.size(); ++a) {
            if (planned.op.axes[a].walk == Walk::sum) parts_ = planned.tiling.tiles(planned.op, a);
        }
        const int64_t lanes = shared_->planned.tiling.lanes();
        for (int64_t number = 0; number < lanes; ++number) {
            std::vector<int64_t> place;
            int64_t rest = number;
            for (const int64_t along : split) {
                place.push_back(rest % along);
                rest /= along;
            }
            if (runs_of(place, work_.front()))
                lanes_.push_back(
                    std::make_unique<Lane>(out_, *shared_, std::move(place), static_cast<size_t>(number)));
        }
        for (const std::unique_ptr<Lane>& lane : lanes_) lane->half = static_cast<int64_t>(stage_ % 2);
    }

    /// Loads constants that all iterations share.
    void prologue() {
        const bool alone = shared_->planned.tiling.l1_bytes() > out_.plan.arena_bytes;
        const uint32_t turn = alone ? 0 : out_.turns++ % 2;
        out_.throttle.reserve(hoisted_tasks(true));
        Lane::Staged staged;
        for (const std::unique_ptr<Lane>& lane : lanes_) {
            lane->place_operands(turn);
            lane->set_position(*runs_of(lane->place, work_.front()));
            lane->load_hoisted(true, staged);
        }
        keep_parts();
    }

    void body() {
        bring_pending();
        if (!shared_->copied) lanes_.front()->copy_kept();
        shared_->copied = true;
        out_.throttle.reserve(hoisted_tasks(false));
        Lane::Staged staged;
        for (const std::unique_ptr<Lane>& lane : lanes_) {
            lane->set_position(*runs_of(lane->place, work_.front()));
            lane->queue_loads();
            lane->load_hoisted(false, staged);
        }
        const int64_t depth = shared_->planned.tiling.depth;
        int64_t slot = 0;
        for (const Laps& laps : work_) {
            const int64_t count = start(laps);
            out_.throttle.reserve(tasks_ * static_cast<size_t>(std::min(count, depth)));
            if (count == 1) {
                iteration(Expr(0), Expr(slot++ % depth));
                continue;
            }
            out_.program.loop("t", 0, count - 1, depth,
                              [&](const Expr& t) { iteration(t, t % Expr(depth)); });
            finish_loop(static_cast<size_t>(depth));
        }
    }

  private:
    /// Keeps parts where they go in L2: there the operation before has its tensors, so the first stage's come
    /// when that has begun all it does, before those of the second.
    void keep_parts() {
        const std::vector<Keep>& keep = shared_->planned.tiling.keep;
        if (std::find(keep.begin(), keep.end(), Keep::stage) == keep.end()) return;
        if (stage_ == 0) {
            shared_->pending = [this] { bring_kept(); };
            return;
        }
        bring_pending();
        bring_kept();
    }
    void bring_pending() {
        if (const auto pending = std::exchange(shared_->pending, nullptr)) pending();
    }
    void bring_kept() {
        const PlannedOp& planned = shared_->planned;
        int64_t tasks = 0;
        for (size_t i = 0; i < planned.op.operands.size(); ++i) {
            if (planned.tiling.keep[i] != Keep::stage) continue;
            const uint64_t bytes = tile_bytes(out_.graph, planned.op, i, planned.tiling.tile);
            tasks += planned.tiling.parts(planned.op, i) * out_.target.pieces(true, bytes, 1);
        }
        out_.throttle.reserve(static_cast<size_t>(tasks));
        for (const std::unique_ptr<Lane>& lane : lanes_) lane->bring_kept();
    }

    /// Counts the tasks of one lane before its first iteration.
    size_t hoisted_tasks(bool constants) const {
        const PlannedOp& planned = shared_->planned;
        const int64_t lanes = planned.tiling.lanes();
        int64_t tasks = 0;
        for (size_t i = 0; i < planned.op.operands.size(); ++i) {
            const bool constant = out_.graph.value(planned.op.operands[i].value).constant();
            if (!planned.tiling.hoisted[i] || constant != constants) continue;
            const uint64_t bytes = constants ? tile_bytes(out_.graph, planned.op, i, planned.tiling.tile) : 0;
            tasks += planned.tiling.parts(planned.op, i) *
                     (out_.target.pieces(true, bytes, lanes) + out_.target.pieces(false, bytes, lanes));
        }
        return static_cast<size_t>(tasks);
    }

    /// Returns what a lane has of these laps; nothing if it has no part in one of them.
    std::optional<std::vector<Run>> runs_of(const std::vector<int64_t>& place, const Laps& laps) const {
        std::vector<Run> runs;
        for (size_t a = 0; a < laps.size(); ++a) {
            const Lap& lap = fixed_[a] != nullptr ? *fixed_[a] : *laps[a];
            if (place[a] >= static_cast<int64_t>(lap.lanes.size())) return std::nullopt;
            runs.push_back(lap.lanes[static_cast<size_t>(place[a])]);
        }
        return runs;
    }

    /// Sets the lanes that take part. Result: iterations.
    int64_t start(const Laps& laps) {
        active_.clear();
        int64_t count = 1;
        for (const std::unique_ptr<Lane>& lane : lanes_) {
            const std::optional<std::vector<Run>> runs = runs_of(lane->place, laps);
            if (!runs) continue;
            count = lane->set_position(*runs);
            lane->issued.clear();
            lane->queue_loads();
            active_.push_back(lane.get());
        }
        return count;
    }

    void iteration(const Expr& t, const Expr& slot) {
        Lane::Staged staged;
        for (Lane* lane : active_) lane->begin(t, slot, staged);
        for (int64_t number = 0; number < parts_; ++number) {
            for (Lane* lane : active_) lane->part(number, t, slot);
        }
        for (Lane* lane : active_) lane->end(t, slot);
    }

    void finish_loop(size_t depth) {
        std::vector<Task> issued;
        size_t most = 0;
        for (Lane* lane : active_) {
            issued.insert(issued.end(), lane->issued.begin(), lane->issued.end());
            most = std::max(most, lane->issued.size());
        }
        out_.throttle.after_loop(std::move(issued), most * depth);
    }

    Emission& out_;
    std::shared_ptr<Shared> shared_;
    Laps fixed_;  ///< laps of unrolled axes; null: the axis is in `work_`
    std::vector<Laps> work_;
    size_t stage_;  ///< stage of the operation
    std::vector<std::unique_ptr<Lane>> lanes_;
    std::vector<Lane*> active_;
    size_t tasks_;       ///< tasks of an iteration of a lane
    int64_t parts_ = 0;  ///< parts of a cut sum
};

}  // namespace

std::vector<Stage> stages_of(Emission& emission, size_t number, uint64_t inference) {
    const PlannedOp& planned = emission.plan.ops[number];
    const TileOp& op = planned.op;
    auto laps = std::make_shared<std::vector<std::vector<Lap>>>();
    std::vector<Laps> unrolled, looped;
    for (size_t a = 0; a < op.axes.size(); ++a) {
        const Walk walk = op.axes[a].walk;
        const std::vector<Lap> whole{{1, {{0, 1, op.axes[a].extent}}}};  // of a sum, every iteration sees all
        laps->push_back(walk == Walk::sum
                            ? whole
                            : laps_along(emission.graph, op, static_cast<int>(a), planned.tiling.tile[a],
                                         planned.tiling.split[a], walk == Walk::unroll));
    }
    for (size_t a = 0; a < op.axes.size(); ++a) {
        Laps pointers;
        for (const Lap& lap : (*laps)[a]) pointers.push_back(&lap);
        const bool unroll = op.axes[a].walk == Walk::unroll;
        unrolled.push_back(unroll ? pointers : Laps{nullptr});
        looped.push_back(unroll ? Laps{nullptr} : std::move(pointers));
    }
    const auto shared = std::make_shared<Shared>(planned, number, inference, std::move(laps));
    const std::vector<Laps> work = combinations(looped);
    std::vector<Stage> stages;
    for (const Laps& fixed : combinations(unrolled)) {
        const auto emitter = std::make_shared<StageEmitter>(emission, shared, fixed, work, stages.size());
        stages.push_back({[emitter] { emitter->prologue(); }, [emitter] { emitter->body(); },
                          planned.tiling.l1_bytes() > emission.plan.arena_bytes});
    }
    return stages;
}

}  // namespace kpu::compiler
