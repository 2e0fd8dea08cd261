#include "compiler/lower/emit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/diagnostics.hpp"

namespace kpu::lower {

using builder::Expr;
using builder::Region;
using builder::Task;
using graph::Node;
using graph::Value;

namespace {

/// Where tiles are along one axis: one tile, or those of a run, counted by the loop variable.
struct Position {
    Run run;
    int64_t divisor = 1;  ///< iterations of the loop between two tiles along this axis
};

/// A region and what it touches in all iterations.
struct Tile {
    Region region;
    Span span;
};

proto::Quant quant_message(const BoundQuant& quant) {
    proto::Quant message;
    message.set_kind(quant.kind);
    message.set_axis(quant.axis);
    if (quant.group_size > 0) message.set_group_size(static_cast<uint32_t>(quant.group_size));
    for (const double scale : quant.scales) message.add_scale(scale);
    for (const int64_t zero : quant.zero_points) message.add_zero_point(zero);
    return message;
}

std::vector<Expr> exprs(const Dims& dims) {
    std::vector<Expr> result;
    for (const int64_t size : dims) result.emplace_back(size);
    return result;
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
                task.attr(name, value->real);
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
          hoisted_(op.operands.size()) {}

    void add_work(std::vector<Run> runs) { work_.push_back(std::move(runs)); }

    /// Constants that all iterations share.
    void prologue() {
        base_ = static_cast<int64_t>((places_.turns[engine_]++ % 2) * places_.arena_bytes);
        place_operands();
        positions(work_.front());
        for (size_t i = 0; i < op_.operands.size(); ++i) {
            if (tiling_.hoisted[i] && value(i).constant() && homes_[i] != Home::table)
                hoisted_[i] = load(i, Expr(0), 0);
        }
    }

    void body() {
        positions(work_.front());
        for (size_t i = 0; i < op_.operands.size(); ++i) {
            if (tiling_.hoisted[i] && !value(i).constant()) hoisted_[i] = load(i, Expr(0), 0);
        }
        int64_t slot = 0;
        for (const std::vector<Run>& runs : work_) {
            const int64_t count = positions(runs);
            if (count == 1) {
                iteration(Expr(0), Expr(slot++ % tiling_.depth));
            } else {
                places_.program.loop("t", 0, count - 1, tiling_.depth,
                                     [&](const Expr& t) { iteration(t, t % tiling_.depth); });
            }
        }
    }

  private:
    const Value& value(size_t operand) const { return places_.graph.value(op_.operands[operand].value); }

    // ---- places

    void place_operands() {
        offsets_.assign(op_.operands.size(), 0);
        int64_t next = base_;
        for (size_t i = 0; i < op_.operands.size(); ++i) {
            if (tiling_.place[i] != i || in_table(i)) continue;
            offsets_[i] = next;
            next += slot_size(i) * slots(i);
        }
        accumulator_ = next;
    }
    bool in_table(size_t i) const { return homes_[i] == Home::table; }
    int64_t slot_size(size_t i) const {
        return static_cast<int64_t>(align_up(tile_bytes(places_.graph, op_, i, tiling_.tile)));
    }
    int64_t slots(size_t i) const { return tiling_.hoisted[i] ? 1 : tiling_.depth * parts_in_flight(i); }
    bool follows_sum(size_t i) const {
        for (const Window& window : op_.operands[i].windows) {
            if (window.axis < 0) continue;
            const auto axis = static_cast<size_t>(window.axis);
            if (op_.axes[axis].walk == Walk::sum && tiling_.tiles(op_, axis) > 1) return true;
        }
        return false;
    }
    int64_t parts_in_flight(size_t i) const { return follows_sum(i) && !tiling_.hoisted[i] ? 2 : 1; }

    /// Sets the position along every axis; result: iterations.
    int64_t positions(const std::vector<Run>& runs) {
        positions_.assign(runs.size(), {});
        int64_t count = 1;
        for (size_t a = runs.size(); a-- > 0;) {
            positions_[a] = {runs[a], count};
            count *= runs[a].count;
        }
        return count;
    }

    // ---- parts of operands

    Part part(size_t operand, size_t d, int64_t dimension) const {
        const Window& window = op_.operands[operand].windows[d];
        if (window.axis < 0) return part_of(window, dimension, 0, 1);
        const Run& run = positions_[static_cast<size_t>(window.axis)].run;
        return part_of(window, dimension, run.first * tiling_.tile[static_cast<size_t>(window.axis)],
                       run.size);
    }

    /// Shape of an operand's tile, its first element, and how far the elements reach in all iterations.
    struct Box {
        Dims shape, first, reach;
    };
    Box box(size_t operand) const {
        const Dims shape = shape_of(value(operand));
        Box result{shape, shape, shape};
        for (size_t d = 0; d < shape.rank; ++d) {
            const Part of = part(operand, d, shape[d]);
            result.shape[d] = of.size;
            result.first[d] = of.lo;
            result.reach[d] = of.size + step(operand, d) * (count_along(operand, d) - 1);
        }
        return result;
    }
    int64_t count_along(size_t operand, size_t d) const {
        const int axis = op_.operands[operand].windows[d].axis;
        return axis < 0 ? 1 : positions_[static_cast<size_t>(axis)].run.count;
    }
    /// Elements between the parts of two tiles that follow each other.
    int64_t step(size_t operand, size_t d) const {
        const Window& window = op_.operands[operand].windows[d];
        return window.axis < 0 ? 0 : window.step * tiling_.tile[static_cast<size_t>(window.axis)];
    }

    /// Elements from the origin to the tile, for the loop variable.
    Expr offset(size_t operand, const Dims& strides, const Dims& first, const Expr& t) const {
        int64_t fixed = 0;
        Expr result(0);
        bool moves = false;
        for (size_t d = 0; d < first.rank; ++d) {
            fixed += first[d] * strides[d];
            const int64_t count = count_along(operand, d);
            if (count == 1) continue;
            const Position& position = positions_[static_cast<size_t>(op_.operands[operand].windows[d].axis)];
            Expr index = position.divisor == 1 ? t : t / position.divisor;
            if (!outermost(position)) index = index % count;
            result = result + index * Expr(step(operand, d) * strides[d]);
            moves = true;
        }
        return moves ? result + Expr(fixed) : Expr(fixed);
    }
    bool outermost(const Position& position) const {
        int64_t all = 1;
        for (const Position& other : positions_) all *= other.run.count;
        return position.divisor * position.run.count == all;
    }

    builder::TensorType type(size_t operand, const Dims& shape, bool quantised) const {
        builder::TensorType result = builder::tensor(value(operand).elem, exprs(shape));
        return quantised ? result.quant(tile_quant(operand)) : result;
    }
    /// Scales of the tile's own channels.
    proto::Quant tile_quant(size_t operand) const {
        BoundQuant quant = value(operand).quant;
        if (quant.kind == proto::Quant::PER_CHANNEL) {
            const auto d = static_cast<size_t>(quant.axis);
            const Part of = part(operand, d, shape_of(value(operand))[d]);
            const auto cut = [&](auto& list) {
                if (list.size() > 1) list = {list.begin() + of.lo, list.begin() + of.lo + of.size};
            };
            cut(quant.scales);
            cut(quant.zero_points);
        }
        return quant_message(quant);
    }
    static Expr bytes(const Expr& elements, ElemType elem) { return elements * Expr(bit_width(elem) / 8); }

    /// The tile where it lives outside of L1.
    Tile at_home(size_t operand, const Expr& t) const {
        const Value& of = value(operand);
        const Box tile = box(operand);
        if (of.constant()) return constant_tile(operand, tile, t);
        const View& view = places_.memory.views[op_.operands[operand].value];
        const Storage& storage = places_.memory.storages[view.storage];
        const builder::Buffer buffer = buffer_of(view.storage, storage);
        const int64_t width = bit_width(of.elem) / 8;
        const Expr start = bytes(offset(operand, view.strides, tile.first, t) + Expr(view.offset), of.elem) +
                           Expr(static_cast<int64_t>(storage.address));
        const builder::TensorType type_of = type(operand, tile.shape, false).strides(exprs(view.strides));
        Span span{buffer.index, 0, 0, false, frame_of(view), tile.first, tile.reach};
        int64_t first = view.offset, last = view.offset, elements = 1;
        for (size_t d = 0; d < tile.first.rank; ++d) {
            first += tile.first[d] * view.strides[d];
            last += (tile.first[d] + tile.reach[d] - 1) * view.strides[d];
            elements *= tile.reach[d];
        }
        span.lo = static_cast<int64_t>(storage.address) + first * width;
        span.hi = static_cast<int64_t>(storage.address) + (last + 1) * width;
        span.dense = last + 1 - first == elements;
        return {places_.program.region("", buffer, start, type_of), span};
    }

    builder::Buffer buffer_of(uint32_t index, const Storage& storage) const {
        if (storage.input || storage.output) return places_.own.at(index);
        return storage.home == Home::l2 ? places_.l2 : places_.ddr;
    }

    uint32_t frame_of(const View& view) const {
        std::vector<int64_t> key{view.storage, view.offset};
        key.insert(key.end(), view.strides.begin(), view.strides.end());
        return places_.frames.try_emplace(std::move(key), static_cast<uint32_t>(places_.frames.size() + 1))
            .first->second;
    }

    /// Nobody writes constants: their span is empty.
    Tile constant_tile(size_t operand, const Box& tile, const Expr& t) const {
        const graph::ValueId id = op_.operands[operand].value;
        Block block{id, tile.first, tile.shape, value(operand).elem};
        Expr start(0);
        builder::TensorType type_of = type(operand, tile.shape, false);
        if (!(tile.shape == tile.reach)) {  // iterations take it in turn: it stands there as a whole
            block = places_.constants.whole(id);
            const Dims strides = row_major(block.count);
            start = bytes(offset(operand, strides, tile.first, t), block.elem);
            type_of = type_of.strides(exprs(strides));
        }
        start = start + Expr(places_.constants.place(block));
        return {places_.program.region("", places_.weights, start, type_of),
                {places_.weights.index, 0, 0, true, 0, {}, {}}};
    }

    /// The tile's place in L1, or the same place in the staging part of L2.
    Tile in_slot(size_t operand, const builder::Buffer& buffer, const Expr& slot, int64_t part_number,
                 bool quantised) const {
        const size_t at = tiling_.place[operand];
        const int64_t size = slot_size(at), count = slots(at), inner = parts_in_flight(at);
        const int64_t fixed = offsets_[at] + part_number % inner * size * tiling_.depth;
        const bool moves = count > 1 && !tiling_.hoisted[at];
        const Expr start = moves ? slot * Expr(size) + Expr(fixed) : Expr(fixed);
        Span span{buffer.index, fixed, fixed + size * (moves ? tiling_.depth : 1), true, 0, {}, {}};
        if (moves && slot.is_literal()) {
            span.lo += slot.literal() * size;
            span.hi = span.lo + size;
        }
        return {places_.program.region("", buffer, start, type(operand, box(operand).shape, quantised)),
                span};
    }

    // ---- tasks

    Task finish(Task task, const std::vector<Span>& reads, const std::vector<Span>& writes) {
        task.after(places_.order.before(reads, writes)).op(op_number_);
        places_.order.add(task, reads, writes);
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
        Tile from = at_home(operand, t);
        if (homes_[operand] == Home::ddr) {
            const Tile staged = in_slot(operand, places_.staging[engine_], slot, part_number, false);
            move(staged, from, false);
            from = staged;
        }
        Tile to = in_slot(operand, places_.l1[engine_], slot, part_number, true);
        move(to, from, false);
        return to;
    }

    void keep(size_t operand, const Tile& tile, const Expr& slot, const Expr& t) {
        const Tile home = at_home(operand, t);
        if (homes_[operand] != Home::ddr) return move(home, tile, true);
        const Tile staged = in_slot(operand, places_.staging[engine_], slot, 0, false);
        move(staged, tile, true);
        move(home, staged, false);
    }

    /// A small constant, read where it stands in L2.
    Tile in_table_of(size_t operand, ElemType elem, const Expr& t) const {
        const Box tile = box(operand);
        Block block = places_.constants.whole(op_.operands[operand].value);
        block.elem = elem;
        const Dims strides = row_major(block.count);
        const Expr start =
            bytes(offset(operand, strides, tile.first, t), elem) + Expr(places_.table_places.at(block));
        builder::TensorType type_of = builder::tensor(elem, exprs(tile.shape)).strides(exprs(strides));
        if (value(operand).quant) type_of = type_of.quant(tile_quant(operand));
        Span span{places_.table.index, 0, 1, true, 0, {}, {}};
        return {places_.program.region("", places_.table, start, type_of), span};
    }

    // ---- one iteration

    void iteration(const Expr& t, const Expr& slot) {
        std::vector<std::optional<Tile>> tiles = hoisted_;
        for (size_t i = 0; i < op_.operands.size(); ++i) {
            if (in_table(i)) tiles[i] = in_table_of(i, value(i).elem, t);
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
        const Run whole = positions_[static_cast<size_t>(axis)].run;
        const std::vector<Run> parts =
            runs_along(places_.graph, op_, axis, tiling_.tile[static_cast<size_t>(axis)]);
        std::optional<Tile> sum;
        int64_t number = 0;
        for (const Run& run : parts) {
            for (int64_t i = 0; i < run.count; ++i) {
                positions_[static_cast<size_t>(axis)].run = {run.first + i, 1, run.size};
                sum = add_part(anchor, tiles, sum, number++, t, slot);
            }
        }
        positions_[static_cast<size_t>(axis)].run = whole;
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
            if (!tiles[operand] || follows_sum(operand)) tiles[operand] = load(operand, slot, number, t);
            inputs.push_back(tiles[operand]->region);
            reads.push_back(tiles[operand]->span);
        }
        const ElemType sums = sum_type();
        const Tile result = sum ? *sum : accumulator(anchor.outputs[0], sums, slot);
        if (sum) {
            inputs.push_back(sum->region);
            reads.push_back(sum->span);
        } else if (anchor.inputs.size() > 2) {
            const size_t c = anchor.inputs[2];
            const Tile addend = in_table(c) ? in_table_of(c, sums, t) : load(c, slot, 0, t);
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

    Tile accumulator(size_t y, ElemType sums, const Expr& slot) const {
        if (sums == value(y).elem) return in_slot(y, places_.l1[engine_], slot, 0, false);
        const Dims whole = tile_shape(places_.graph, op_, y, tiling_.tile);
        const auto size =
            static_cast<int64_t>(align_up(packed_bytes(sums, static_cast<uint64_t>(whole.product()))));
        const Span span{
            places_.l1[engine_].index, accumulator_, accumulator_ + size * tiling_.depth, true, 0, {}, {}};
        return {places_.program.region("", places_.l1[engine_], slot * Expr(size) + Expr(accumulator_),
                                       builder::tensor(sums, exprs(box(y).shape))),
                span};
    }

    /// From the accumulator to the type of the result.
    void narrow(const TileNode& anchor, std::vector<std::optional<Tile>>& tiles, const Tile& sum,
                const Expr& slot) {
        const size_t y = anchor.outputs[0];
        const ElemType sums = accumulator_of(places_.graph, op_);
        if (sums == ElemType::none) {
            tiles[y] = sum;
            return;
        }
        tiles[y] = in_slot(y, places_.l1[engine_], slot, 0, true);
        Tile from = sum;
        if (sums == ElemType::i32) from.region = scaled_sum(anchor, slot);
        Task task = places_.program.compute(sums == ElemType::i32 ? "requant" : "cast", {from.region},
                                            {tiles[y]->region});
        finish(task, {from.span}, {tiles[y]->span});
    }

    /// The accumulator with the scale of its sums: the product of the operands' scales.
    Region scaled_sum(const TileNode& anchor, const Expr& slot) const {
        const size_t y = anchor.outputs[0];
        const BoundQuant& x = value(anchor.inputs[0]).quant;
        proto::Quant quant = tile_quant(anchor.inputs[1]);
        for (double& scale : *quant.mutable_scale()) scale *= x ? x.scales.at(0) : 1;
        for (auto& zero : *quant.mutable_zero_point()) zero = 0;
        if (quant.kind() == proto::Quant::NONE) quant = builder::per_tensor(x ? x.scales.at(0) : 1);
        if (quant.kind() == proto::Quant::PER_CHANNEL) quant.set_axis(shape_of(value(y)).rank - 1);
        const Dims whole = tile_shape(places_.graph, op_, y, tiling_.tile);
        const auto size = static_cast<int64_t>(
            align_up(packed_bytes(ElemType::i32, static_cast<uint64_t>(whole.product()))));
        return places_.program.region("", places_.l1[engine_], slot * Expr(size) + Expr(accumulator_),
                                      builder::tensor(ElemType::i32, exprs(box(y).shape)).quant(quant));
    }

    /// A tile for each operand of the node, as it reads it: broadcast ones repeat.
    Region operand_region(const TileNode& tile, const Node& node, size_t i, const Tile& of) const {
        if (node.spec().op_class != OpcodeClass::elementwise) return of.region;
        const Dims y = box(tile.outputs[0]).shape, x = box(tile.inputs[i]).shape;
        if (x == y) return of.region;
        const proto::Region region = places_.program.message().region(static_cast<int>(of.region.index()));
        const Dims packed = row_major(x);
        std::vector<Expr> strides;
        for (size_t d = 0; d < y.rank; ++d) {
            const size_t from = d + x.rank - y.rank;  // wraps where x has no such dimension
            const bool repeats = d + x.rank < y.rank || (x[from] == 1 && y[d] != 1);
            if (repeats) {
                strides.emplace_back(0);
            } else if (region.stride_size() > 0) {
                strides.push_back(Expr(region.stride(static_cast<int>(from)).token(0).value()));
            } else {
                strides.emplace_back(packed[from]);
            }
        }
        builder::TensorType type_of =
            builder::tensor(static_cast<ElemType>(region.elem()), exprs(y)).strides(strides);
        if (region.has_quant()) type_of = type_of.quant(region.quant());
        const Region result = places_.program.region("", builder::Buffer{region.buffer()}, Expr(0), type_of);
        *places_.program.message().mutable_region(static_cast<int>(result.index()))->mutable_offset() =
            region.offset();
        return result;
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
            tiles[o] = at == o ? in_slot(o, places_.l1[engine_], slot, 0, true) : *tiles[at];
            outputs.push_back(tiles[o]->region);
            writes.push_back(tiles[o]->span);
        }
        for (size_t i = 0; i < tile.inputs.size(); ++i) {
            inputs.push_back(operand_region(tile, node, i, *tiles[tile.inputs[i]]));
            reads.push_back(tiles[tile.inputs[i]]->span);
        }
        Task task = places_.program.compute(std::string(node.spec().name), inputs, outputs);
        copy_attributes(task, node.spec(), patched(tile, node));
        finish(task, reads, writes);
    }

    /// Attributes of the tile: its own padding, its own groups.
    BoundAttrs patched(const TileNode& tile, const Node& node) const {
        BoundAttrs attrs = node.attrs;
        const OpcodeClass kind = node.spec().op_class;
        const bool windows = kind == OpcodeClass::pooling || kind == OpcodeClass::conv;
        const Dims x = shape_of(value(tile.inputs[0]));
        for (BoundAttr& attribute : attrs.list) {
            if (windows && attribute.name == "pads") {
                const size_t spatial = attribute.ints.size() / 2;
                for (size_t d = 0; d < spatial; ++d) {
                    if (op_.operands[tile.inputs[0]].windows[d + 1].axis < 0) continue;
                    const Part of = part(tile.inputs[0], d + 1, x[d + 1]);
                    attribute.ints[d] = of.before;
                    attribute.ints[d + spatial] = of.behind;
                }
            }
            if (kind == OpcodeClass::conv && attribute.name == "groups" && attribute.integer > 1) {
                for (size_t a = 0; a < op_.axes.size(); ++a) {
                    if (op_.axes[a].name == "g") attribute.integer = positions_[a].run.size;
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
    std::vector<std::optional<Tile>> hoisted_;
    std::vector<int64_t> offsets_;
    int64_t base_ = 0, accumulator_ = 0;
    std::vector<Position> positions_;
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
