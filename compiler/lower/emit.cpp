#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "base/diagnostics.hpp"
#include "compiler/lower/tiles.hpp"

namespace kpu::lower {

using builder::Expr;
using builder::Region;
using builder::Task;
using graph::Node;
using graph::Value;

namespace {

/// Programs have no infinities. The greatest double becomes one where it is rounded to any type.
double finite(double value) {
    constexpr double most = std::numeric_limits<double>::max();
    return std::clamp(value, -most, most);
}

void copy_attributes(Task& task, const OpcodeSpec& spec, const BoundAttrs& attrs) {
    for (const AttrSpec& attribute : spec.attributes) {
        const BoundAttr* value = attrs.find(attribute.name);
        if (value == nullptr) continue;
        const std::string name(attribute.name);
        switch (attribute.kind) {
            case AttrKind::integer:
                task.attr(name, value->integer);
                break;
            case AttrKind::real:
                task.attr(name, finite(value->real));
                break;
            case AttrKind::boolean:
                task.attr(name, value->integer != 0 ? "true" : "false");
                break;
            case AttrKind::elem_type:
                task.attr(name, value->type);
                break;
            case AttrKind::ints:
                task.attr(name, value->ints);
                break;
            case AttrKind::reals:
                task.attr(name, value->reals);
                break;
            case AttrKind::text:
            case AttrKind::word:
                task.attr(name, value->text.c_str());
                break;
        }
    }
}

/// One stage: the tiles of one combination of unrolled axes, on one engine.
class Emitter {
  public:
    Emitter(Places& places, const TileOp& op, const Tiling& tiling, const std::vector<Home>& homes,
            uint32_t op_number, size_t engine)
        : places_(places),
          op_(op),
          tiling_(tiling),
          homes_(homes),
          op_number_(op_number),
          engine_(engine),
          tiles_(places, op, tiling, homes, engine),
          hoisted_(op.operands.size()) {}

    void add_work(std::vector<Run> runs) { work_.push_back(std::move(runs)); }

    /// Constants that all iterations share.
    void prologue() {
        tiles_.place_operands(static_cast<int64_t>((places_.turns[engine_]++ % 2) * places_.arena_bytes));
        tiles_.set_position(work_.front());
        places_.throttle.reserve(2 * op_.operands.size());
        for (size_t i = 0; i < op_.operands.size(); ++i) {
            if (tiling_.hoisted[i] && value(i).constant() && homes_[i] != Home::table)
                hoisted_[i] = load(i, Expr(0), 0);
        }
    }

    void body() {
        tiles_.set_position(work_.front());
        for (size_t i = 0; i < op_.operands.size(); ++i) {
            if (tiling_.hoisted[i] && !value(i).constant()) hoisted_[i] = load(i, Expr(0), 0);
        }
        int64_t slot = 0;
        for (const std::vector<Run>& runs : work_) {
            const int64_t count = tiles_.set_position(runs);
            issued_.clear();
            places_.throttle.reserve(tasks_of_iteration() *
                                     static_cast<size_t>(std::min<int64_t>(count, tiling_.depth)));
            if (count == 1) {
                iteration(Expr(0), Expr(slot++ % tiling_.depth));
            } else {
                places_.program.loop("t", 0, count - 1, tiling_.depth,
                                     [&](const Expr& t) { iteration(t, t % tiling_.depth); });
                places_.throttle.after_loop(std::move(issued_), static_cast<size_t>(tiling_.depth));
            }
        }
    }

  private:
    const graph::Value& value(size_t operand) const { return tiles_.value(operand); }

    // ---- tasks

    /// At most.
    size_t tasks_of_iteration() const {
        size_t parts = 1;
        for (size_t a = 0; a < op_.axes.size(); ++a) {
            if (op_.axes[a].walk == Walk::sum) parts *= static_cast<size_t>(tiling_.tiles(op_, a));
        }
        size_t tasks = op_.nodes.size() + parts + 1;
        for (size_t i = 0; i < op_.operands.size(); ++i) {
            if (op_.operands[i].place != Place::internal) tasks += tiles_.follows_sum(i) ? 2 * parts : 2;
        }
        return tasks;
    }

    Task finish(Task task, const std::vector<Span>& reads, const std::vector<Span>& writes) {
        task.after(places_.order.before(reads, writes)).op(op_number_);
        places_.order.add(task, reads, writes);
        issued_.push_back(task);
        return task;
    }

    void move(const Tile& to, const Tile& from, bool store) {
        const std::vector<Span> reads = known(from.span), writes = known(to.span);
        finish(store ? places_.program.store("", to.region, from.region)
                     : places_.program.transfer("", to.region, from.region),
               reads, writes);
    }
    /// Spans that anybody writes.
    std::vector<Span> known(const Span& span) const {
        if (span.buffer == places_.weights.index) return {};
        return {span};
    }

    Tile load(size_t operand, const Expr& slot, int64_t part_number, const Expr& t = Expr(0)) {
        Tile from = tiles_.at_home(operand, t);
        if (homes_[operand] == Home::ddr) {
            const Tile staged = tiles_.staged(operand, slot, part_number);
            move(staged, from, false);
            from = staged;
        }
        Tile to = tiles_.in_l1(operand, slot, part_number);
        move(to, from, false);
        return to;
    }

    void keep(size_t operand, const Tile& tile, const Expr& slot, const Expr& t) {
        const Tile home = tiles_.at_home(operand, t);
        if (homes_[operand] != Home::ddr) return move(home, tile, true);
        const Tile staged = tiles_.staged(operand, slot, 0);
        move(staged, tile, true);
        move(home, staged, false);
    }

    // ---- one iteration

    void iteration(const Expr& t, const Expr& slot) {
        std::vector<std::optional<Tile>> tiles = hoisted_;
        for (size_t i = 0; i < op_.operands.size(); ++i) {
            if (tiles_.in_table(i)) tiles[i] = tiles_.in_table_of(i, value(i).elem, t);
        }
        run_anchor(tiles, t, slot);
        for (size_t n = 0; n < op_.nodes.size(); ++n) {
            if (n != op_.anchor) run_node(op_.nodes[n], tiles, t, slot);
        }
        for (size_t i = 0; i < op_.operands.size(); ++i) {
            if (op_.operands[i].place == Place::output) keep(i, *tiles[i], slot, t);
        }
    }

    void run_anchor(std::vector<std::optional<Tile>>& tiles, const Expr& t, const Expr& slot) {
        const TileNode& anchor = op_.nodes[op_.anchor];
        if (!tiling_.cuts_sum(op_)) return run_node(anchor, tiles, t, slot);
        const int axis = sum_axis();
        const Run whole = tiles_.run(static_cast<size_t>(axis));
        const std::vector<Run> parts =
            runs_along(places_.graph, op_, axis, tiling_.tile[static_cast<size_t>(axis)]);
        std::optional<Tile> sum;
        int64_t number = 0;
        for (const Run& run : parts) {
            for (int64_t i = 0; i < run.count; ++i) {
                tiles_.set_run(static_cast<size_t>(axis), {run.first + i, 1, run.size});
                sum = add_part(anchor, tiles, sum, number++, t, slot);
            }
        }
        tiles_.set_run(static_cast<size_t>(axis), whole);
        narrow(anchor, tiles, *sum, slot);
    }
    int sum_axis() const {
        for (size_t a = 0; a < op_.axes.size(); ++a) {
            if (op_.axes[a].walk == Walk::sum) return static_cast<int>(a);
        }
        return -1;
    }

    /// Part `number` of a cut sum: continues in the accumulator.
    Tile add_part(const TileNode& anchor, std::vector<std::optional<Tile>>& tiles,
                  const std::optional<Tile>& sum, int64_t number, const Expr& t, const Expr& slot) {
        const Node& node = places_.graph.nodes[anchor.node];
        std::vector<Region> inputs;
        std::vector<Span> reads;
        for (size_t i = 0; i < 2; ++i) {
            const size_t operand = anchor.inputs[i];
            if (!tiles[operand] || tiles_.follows_sum(operand))
                tiles[operand] = load(operand, slot, number, t);
            inputs.push_back(tiles[operand]->region);
            reads.push_back(tiles[operand]->span);
        }
        const ElemType sums = sum_type();
        const Tile result = sum ? *sum : tiles_.accumulator(anchor.outputs[0], sums, slot);
        if (sum) {
            inputs.push_back(sum->region);
            reads.push_back(sum->span);
        } else if (anchor.inputs.size() > 2) {
            const size_t c = anchor.inputs[2];
            const Tile addend = tiles_.in_table(c) ? tiles_.in_table_of(c, sums, t) : load(c, slot, 0, t);
            inputs.push_back(addend.region);
            reads.push_back(addend.span);
        }
        const bool product = node.spec().op_class == OpcodeClass::gemm;
        const OpcodeSpec& spec = opcode(*find_opcode(product ? "gemm.acc" : "conv2d.acc"));
        Task task = places_.program.compute(std::string(spec.name), inputs, {result.region});
        BoundAttrs attrs = patched(anchor, node);
        for (BoundAttr& attribute : attrs.list) {
            if (attribute.name == "accum_type") attribute.type = sums;
        }
        copy_attributes(task, spec, attrs);
        finish(task, reads, {result.span});
        return result;
    }
    ElemType sum_type() const {
        const ElemType sums = accumulator_of(places_.graph, op_);
        return sums == ElemType::none ? value(op_.nodes[op_.anchor].outputs[0]).elem : sums;
    }

    /// From the accumulator to the type of the result.
    void narrow(const TileNode& anchor, std::vector<std::optional<Tile>>& tiles, const Tile& sum,
                const Expr& slot) {
        const size_t y = anchor.outputs[0];
        const ElemType sums = accumulator_of(places_.graph, op_);
        tiles[y] = tiles_.in_l1(y, slot, 0);
        if (sums == ElemType::none) return;  // the accumulator itself, with the scales of the result
        Tile from = sum;
        if (sums == ElemType::i32) from = tiles_.scaled_sum(anchor, slot);
        Task task = places_.program.compute(sums == ElemType::i32 ? "requant" : "cast", {from.region},
                                            {tiles[y]->region});
        finish(task, {from.span}, {tiles[y]->span});
    }

    void run_node(const TileNode& tile, std::vector<std::optional<Tile>>& tiles, const Expr& t,
                  const Expr& slot) {
        const Node& node = places_.graph.nodes[tile.node];
        std::vector<Region> inputs, outputs;
        std::vector<Span> reads, writes;
        for (const size_t i : tile.inputs) {
            if (!tiles[i]) tiles[i] = load(i, slot, 0, t);
        }
        for (const size_t o : tile.outputs) {
            const size_t at = tiling_.place[o];
            tiles[o] = at == o ? tiles_.in_l1(o, slot, 0) : *tiles[at];
            outputs.push_back(tiles[o]->region);
            writes.push_back(tiles[o]->span);
        }
        for (size_t i = 0; i < tile.inputs.size(); ++i) {
            inputs.push_back(tiles_.as_operand(tile, i, *tiles[tile.inputs[i]]));
            reads.push_back(tiles[tile.inputs[i]]->span);
        }
        Task task = places_.program.compute(std::string(node.spec().name), inputs, outputs);
        copy_attributes(task, node.spec(), patched(tile, node));
        finish(task, reads, writes);
    }

    /// Attributes of the tile: its own padding, its own sizes, its own groups.
    BoundAttrs patched(const TileNode& tile, const Node& node) const {
        BoundAttrs attrs = node.attrs;
        const OpcodeClass kind = node.spec().op_class;
        const bool windows = kind == OpcodeClass::pooling || kind == OpcodeClass::conv;
        for (BoundAttr& attribute : attrs.list) {
            if (windows && attribute.name == "pads") {
                const size_t spatial = attribute.ints.size() / 2;
                for (size_t d = 0; d < spatial; ++d) {
                    if (op_.operands[tile.inputs[0]].windows[d + 1].axis < 0) continue;
                    const Part of = tiles_.part(tile.inputs[0], d + 1);
                    attribute.ints[d] = of.before;
                    attribute.ints[d + spatial] = of.behind;
                }
            }
            if (node.spec().name == "resize" && attribute.name == "sizes") {
                for (size_t d = 0; d < attribute.ints.size(); ++d) {
                    if (op_.operands[tile.outputs[0]].windows[d].axis >= 0)
                        attribute.ints[d] = tiles_.part(tile.outputs[0], d).size;
                }
            }
            if (kind == OpcodeClass::conv && attribute.name == "groups" && attribute.integer > 1) {
                for (size_t a = 0; a < op_.axes.size(); ++a) {
                    if (op_.axes[a].name == "g") attribute.integer = tiles_.run(a).size;
                }
            }
        }
        return attrs;
    }

    Places& places_;
    const TileOp& op_;
    const Tiling& tiling_;
    const std::vector<Home>& homes_;
    uint32_t op_number_;
    size_t engine_;
    std::vector<std::vector<Run>> work_;
    Tiles tiles_;
    std::vector<Task> issued_;  ///< in the present loop
    std::vector<std::optional<Tile>> hoisted_;
};

/// All combinations of one run for each axis.
std::vector<std::vector<Run>> combinations(const std::vector<std::vector<Run>>& choices) {
    std::vector<std::vector<Run>> result{{}};
    for (const std::vector<Run>& choice : choices) {
        std::vector<std::vector<Run>> longer;
        for (const std::vector<Run>& head : result) {
            for (const Run& run : choice) {
                longer.push_back(head);
                longer.back().push_back(run);
            }
        }
        result = std::move(longer);
    }
    return result;
}

std::vector<Run> single_tiles(const std::vector<Run>& runs) {
    std::vector<Run> result;
    for (const Run& run : runs) {
        for (int64_t i = 0; i < run.count; ++i) result.push_back({run.first + i, 1, run.size});
    }
    return result;
}

/// Cuts runs into as many as there are engines, where they are long enough.
std::vector<Run> shared_out(const std::vector<Run>& runs, int64_t engines) {
    std::vector<Run> result;
    for (const Run& run : runs) {
        const int64_t pieces = std::min(engines, run.count);
        for (int64_t p = 0; p < pieces; ++p) {
            const int64_t from = run.count * p / pieces, to = run.count * (p + 1) / pieces;
            result.push_back({run.first + from, to - from, run.size});
        }
    }
    return result;
}

}  // namespace

std::vector<Stage> stages_of(Places& places, const TileOp& op, const Tiling& tiling,
                             const std::vector<Home>& homes, uint32_t op_number) {
    const auto engines = static_cast<int64_t>(places.l1.size());
    std::vector<std::vector<Run>> unrolled, looped;
    bool shared = engines == 1;
    for (size_t a = 0; a < op.axes.size(); ++a) {
        const std::vector<Run> runs = runs_along(places.graph, op, static_cast<int>(a), tiling.tile[a]);
        const std::vector<Run> all{{0, 1, op.axes[a].extent}};  // a stage or a sum sees the axis whole
        const Walk walk = op.axes[a].walk;
        unrolled.push_back(walk == Walk::unroll ? single_tiles(runs) : all);
        looped.push_back(walk == Walk::loop ? runs : all);
        if (walk == Walk::loop && !shared && tiling.tiles(op, a) > 1) {
            looped.back() = shared_out(runs, engines);
            shared = true;
        }
    }
    std::vector<Stage> stages;
    for (const std::vector<Run>& fixed : combinations(unrolled)) {
        std::vector<std::shared_ptr<Emitter>> emitters(static_cast<size_t>(engines));
        for (std::vector<Run> runs : combinations(looped)) {
            for (size_t a = 0; a < op.axes.size(); ++a) {
                if (op.axes[a].walk == Walk::unroll) runs[a] = fixed[a];
            }
            const auto engine = static_cast<size_t>(places.next_engine++ % static_cast<uint32_t>(engines));
            if (!emitters[engine])
                emitters[engine] = std::make_shared<Emitter>(places, op, tiling, homes, op_number, engine);
            emitters[engine]->add_work(std::move(runs));
        }
        for (const std::shared_ptr<Emitter>& emitter : emitters) {
            if (emitter)
                stages.push_back({[emitter] { emitter->prologue(); }, [emitter] { emitter->body(); }});
        }
    }
    return stages;
}

}  // namespace kpu::lower
