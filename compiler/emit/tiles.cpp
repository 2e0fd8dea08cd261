#include "compiler/emit/tiles.hpp"

#include <algorithm>

#include "compiler/mapping/staging.hpp"

namespace kpu::compiler {

using builder::Expr;
using builder::Region;
using graph::Node;

proto::HostElem host_elem(const graph::Port& port) {
    constexpr proto::HostElem wide[] = {proto::HOST_I64, proto::HOST_BOOL, proto::HOST_U64, proto::HOST_F64};
    const auto type = static_cast<size_t>(port.host);
    return type > 0 ? wide[type - 1] : static_cast<proto::HostElem>(port.elem);  // the numbers are the same
}

proto::Quant quant_message(const BoundQuant& quant, int64_t first, int64_t count) {
    proto::Quant message;
    message.set_kind(quant.kind);
    message.set_axis(quant.axis);
    if (quant.group_size > 0) message.set_group_size(static_cast<uint32_t>(quant.group_size));
    const auto add = [&](const auto& from, auto& to) {
        const bool part = count >= 0 && from.size() > 1;
        const auto begin = from.begin() + (part ? first : 0);
        to.Add(begin, part ? begin + count : from.end());
    };
    add(quant.scales, *message.mutable_scale());
    add(quant.zero_points, *message.mutable_zero_point());
    return message;
}

namespace {

std::vector<Expr> exprs(const Dims& dims) {
    std::vector<Expr> result;
    for (const int64_t size : dims) result.emplace_back(size);
    return result;
}

Expr bytes(const Expr& elements, ElemType elem) { return elements * Expr(bit_width(elem) / 8); }

}  // namespace

// ---- places

void Tiles::place_operands(uint32_t half) {
    offsets_.assign(op_.operands.size(), 0);
    int64_t next = half * static_cast<int64_t>(out_.plan.arena_bytes);
    for (size_t i = 0; i < op_.operands.size(); ++i) {
        if (tiling_.place[i] != i || !moved(i)) continue;
        offsets_[i] = next;
        next += slot_size(i) * tiling_.slots(op_, i);
    }
    accumulator_ = next;
    staged_offsets_ = staged_offsets(out_.graph, op_, tiling_, planned_.homes);
    for (int64_t& offset : staged_offsets_) offset += half * static_cast<int64_t>(out_.plan.staging_bytes);
}

int64_t Tiles::slot_size(size_t i) const {
    return static_cast<int64_t>(align_up(tile_bytes(out_.graph, op_, i, tiling_.tile)));
}

int64_t Tiles::set_position(const std::vector<Run>& runs) {
    positions_.assign(runs.size(), {});
    int64_t count = 1;
    for (size_t a = runs.size(); a-- > 0;) {
        positions_[a] = {runs[a], count};
        count *= runs[a].count;
    }
    return count;
}

std::vector<int64_t> Tiles::identity(size_t operand, int64_t part) const {
    std::vector<int64_t> result{static_cast<int64_t>(operand), part};
    for (const Window& window : op_.operands[operand].windows) {
        if (window.axis < 0) continue;
        const Run& run = positions_[static_cast<size_t>(window.axis)].run;
        result.insert(result.end(), {run.first, run.count, run.size});
    }
    return result;
}

// ---- parts of operands

Part Tiles::part(size_t operand, size_t d) const {
    const Window& window = op_.operands[operand].windows[d];
    const int64_t dimension = shape_of(value(operand))[d];
    if (window.axis < 0) return part_of(window, dimension, 0, 1);
    const auto axis = static_cast<size_t>(window.axis);
    return part_of(window, dimension, positions_[axis].run.first * tiling_.tile[axis],
                   positions_[axis].run.size);
}

Tiles::Box Tiles::box(size_t operand) const {
    const Dims shape = shape_of(value(operand));
    Box result{shape, shape, shape, shape};
    for (size_t d = 0; d < shape.rank; ++d) {
        const Part of = part(operand, d);
        result.shape[d] = of.size;
        result.first[d] = of.lo;
        result.step[d] = count_along(operand, d) > 1 ? step(operand, d) : 0;
        result.reach[d] = of.size + result.step[d] * (count_along(operand, d) - 1);
    }
    return result;
}

int64_t Tiles::count_along(size_t operand, size_t d) const {
    const int axis = op_.operands[operand].windows[d].axis;
    return axis < 0 ? 1 : positions_[static_cast<size_t>(axis)].run.count;
}

/// Returns the elements between the parts of two tiles that follow each other.
int64_t Tiles::step(size_t operand, size_t d) const {
    const Window& window = op_.operands[operand].windows[d];
    if (window.axis < 0) return 0;
    const auto axis = static_cast<size_t>(window.axis);
    return window.step * tiling_.tile[axis] * positions_[axis].run.stride;
}

/// Returns the elements from the origin to the tile, for the loop variable.
Expr Tiles::offset(size_t operand, const Dims& strides, const Dims& first, const Expr& t) const {
    int64_t fixed = 0;
    Expr result(0);
    bool moves = false;
    for (size_t d = 0; d < first.rank; ++d) {
        fixed += first[d] * strides[d];
        const int64_t count = count_along(operand, d);
        if (count == 1) continue;
        const Expr along = index(static_cast<size_t>(op_.operands[operand].windows[d].axis), t);
        result = result + along * Expr(step(operand, d) * strides[d]);
        moves = true;
    }
    return moves ? result + Expr(fixed) : Expr(fixed);
}

/// Returns the index of the tile along an axis, counted from the run's first.
Expr Tiles::index(size_t axis, const Expr& t) const {
    const Position& position = positions_[axis];
    const Expr result = position.divisor == 1 ? t : t / position.divisor;
    return outermost(position) ? result : result % position.run.count;
}

bool Tiles::outermost(const Position& position) const {
    int64_t all = 1;
    for (const Position& other : positions_) all *= other.run.count;
    return position.divisor * position.run.count == all;
}

builder::TensorType Tiles::type(size_t operand, const Dims& shape, bool quantised) const {
    builder::TensorType result = builder::tensor(value(operand).elem, exprs(shape));
    return quantised ? result.quant(tile_quant(operand)) : result;
}

/// Returns the scales of the tile's own channels.
proto::Quant Tiles::tile_quant(size_t operand) const {
    const BoundQuant& quant = value(operand).quant;
    if (quant.kind != proto::Quant::PER_CHANNEL) return quant_message(quant);
    const Part of = part(operand, static_cast<size_t>(quant.axis));
    return quant_message(quant, of.lo, of.size);
}

// ---- regions

Tile Tiles::at_home(size_t operand, const Expr& t) const {
    const graph::Value& of = value(operand);
    const Box tile = box(operand);
    if (of.constant()) return constant_tile(operand, tile, t);
    const View& view = out_.plan.memory.views[op_.operands[operand].value];
    const Storage& storage = out_.plan.memory.storages[view.storage];
    const builder::Buffer buffer = out_.buffers.of(view.storage, storage);
    const int64_t width = bit_width(of.elem) / 8;
    Expr start = bytes(offset(operand, view.strides, tile.first, t) + Expr(view.offset), of.elem) +
                 Expr(base_of(storage));
    if (view.per_position != 0) start = start + out_.position * Expr(view.per_position * width);
    const builder::TensorType type_of = type(operand, tile.shape, false).strides(exprs(view.strides));
    std::vector<int64_t> origin{view.storage, base_of(storage), view.offset};
    const Dims whole = shape_of(of);
    // a dimension of size 1 may have any stride: that of another dimension would make two shapes one frame
    for (size_t d = 0; d < whole.rank; ++d) origin.push_back(whole[d] == 1 ? -1 : view.strides[d]);
    Span span{buffer.index, 0,          0,          false,    out_.frames.of(std::move(origin)),
              tile.first,   tile.reach, tile.shape, tile.step};
    int64_t first = view.offset, last = view.offset, elements = 1;
    for (size_t d = 0; d < tile.first.rank; ++d) {
        first += tile.first[d] * view.strides[d];
        last += (tile.first[d] + tile.reach[d] - 1) * view.strides[d];
        elements *= tile.reach[d];
    }
    span.lo = base_of(storage) + first * width;
    span.hi = base_of(storage) + (last + 1) * width;
    span.dense = last + 1 - first == elements;
    bool whole_box = bit_width(of.elem) >= 8;
    for (size_t d = 0; d < tile.first.rank; ++d) whole_box = whole_box && tile.step[d] <= tile.shape[d];
    span.dense = span.dense && whole_box;
    if (whole_box) span.bytes = elements * width;
    if (view.per_position != 0) {  // wherever the rows go
        const auto lo = base_of(storage);
        span = {buffer.index, lo, lo + static_cast<int64_t>(storage.bytes), false, 0, {}, {}};
    }
    return {out_.program.region("", buffer, start, type_of), span};
}

const builder::Buffer& Tiles::buffer_of_kept(size_t operand) const {
    return planned_.holds(operand) ? out_.buffers.held : out_.buffers.resident;
}

/// Returns the offset in its buffer. There is room there for each inference's inputs and outputs.
int64_t Tiles::base_of(const Storage& storage) const {
    const bool of_host = storage.input || storage.output;
    return static_cast<int64_t>(storage.address + (of_host ? inference_ * host_step(storage) : 0));
}

/// Returns the tile of a constant. Nobody writes constants: their span is empty.
Tile Tiles::constant_tile(size_t operand, const Box& tile, const Expr& t) const {
    const graph::ValueId id = op_.operands[operand].value;
    Block block{id, tile.first, tile.shape, value(operand).elem};
    Expr start(0);
    builder::TensorType type_of = type(operand, tile.shape, false);
    if (!(tile.shape == tile.reach)) {  // iterations take it in turn: it stands there as a whole
        if (bit_width(block.elem) < 8)
            throw InternalError("lower: a loop over constants of less than a byte");
        block = whole_block(out_.graph, id);
        const Dims strides = row_major(block.count);
        start = bytes(offset(operand, strides, tile.first, t), block.elem);
        type_of = type_of.strides(exprs(strides));
    }
    start = start + Expr(out_.constants.place(block));
    return {out_.program.region("", out_.buffers.weights, start, type_of),
            {out_.buffers.weights.index, 0, 0, true, 0, {}, {}}};
}

std::optional<std::pair<Tile, bool>> Tiles::shared(size_t operand, bool again) const {
    if (planned_.homes[operand] != Home::shared) return std::nullopt;
    const Box tile = box(operand);
    if (!(tile.shape == tile.reach)) return std::nullopt;
    const Block block{op_.operands[operand].value, tile.first, tile.shape, value(operand).elem};
    std::optional<int64_t> at = out_.shared.find(block);
    const bool fresh = !at;
    if (fresh && !again && !out_.in_form) at = out_.shared.add(block);
    if (!at) return std::nullopt;
    const auto size =
        static_cast<int64_t>(packed_bytes(block.elem, static_cast<uint64_t>(tile.shape.product())));
    return std::pair(
        Tile{out_.program.region("", out_.buffers.resident, Expr(*at), type(operand, tile.shape, false)),
             {out_.buffers.resident.index, *at, *at + size, true, 0, {}, {}}},
        fresh);
}

/// Returns a kept tile: tiles stand one after the other, or as the whole tensor is.
Tile Tiles::kept(size_t operand, const Expr& t) const {
    const graph::Value& of = value(operand);
    const builder::Buffer& buffer = buffer_of_kept(operand);
    const auto lo = static_cast<int64_t>(planned_.kept[operand]);
    const auto hi = lo + static_cast<int64_t>(kept_bytes(out_.graph, op_, tiling_, operand));
    const Box tile = box(operand);
    std::vector<int64_t> origin{-1, lo, op_.operands[operand].value};
    if (tiling_.keep[operand] == Keep::whole) {
        const uint32_t frame = out_.frames.of(std::move(origin));
        const Dims strides = row_major(shape_of(of));
        const Expr start = bytes(offset(operand, strides, tile.first, t), of.elem) + Expr(lo);
        const builder::TensorType type_of = type(operand, tile.shape, false).strides(exprs(strides));
        return {out_.program.region("", buffer, start, type_of),
                {buffer.index, lo, hi, false, frame, tile.first, tile.reach, tile.shape, tile.step}};
    }
    // boxes count tiles: of an operation that cuts the same tensor in another way they are others
    for (const Window& window : op_.operands[operand].windows)
        origin.push_back(window.axis < 0 ? 0 : tiling_.tile[static_cast<size_t>(window.axis)] * window.step);
    Span span{buffer.index, lo,         hi,         false,     out_.frames.of(std::move(origin)),
              tile.first,   tile.first, tile.first, tile.first};
    Expr number(0);
    for (size_t d = 0; d < tile.first.rank; ++d) {
        const int axis = op_.operands[operand].windows[d].axis;
        const Run run = axis < 0 ? Run{0, 1, 1} : positions_[static_cast<size_t>(axis)].run;
        span.first[d] = run.first;
        span.count[d] = (run.count - 1) * run.stride + 1;
        span.size[d] = 1;
        span.step[d] = run.count > 1 ? run.stride : 0;
        if (axis < 0) continue;
        number = number * Expr(tiling_.tiles(op_, static_cast<size_t>(axis))) + Expr(run.first);
        if (run.count > 1) number = number + index(static_cast<size_t>(axis), t) * Expr(run.stride);
    }
    const Expr start = number * Expr(slot_size(operand)) + Expr(lo);
    return {out_.program.region("", buffer, start, type(operand, tile.shape, false)), span};
}

Tile Tiles::kept_part(size_t operand, int64_t number, int64_t half) const {
    const builder::Buffer& buffer = buffer_of_kept(operand);
    const int64_t size = slot_size(operand);
    const int64_t lo = static_cast<int64_t>(planned_.kept[operand]) + (half * parts(operand) + number) * size;
    return {out_.program.region("", buffer, lo, type(operand, box(operand).shape, false)),
            {buffer.index, lo, lo + size, true, 0, {}, {}}};
}

std::pair<Tile, Tile> Tiles::whole(size_t operand) const {
    const graph::Value& of = value(operand);
    const builder::Buffer& buffer = buffer_of_kept(operand);
    const auto lo = static_cast<int64_t>(planned_.kept[operand]);
    const auto size = static_cast<int64_t>(packed_bytes(of.elem, of.elements()));
    const builder::TensorType packed = builder::tensor(of.elem, exprs(shape_of(of)));
    Tile to{out_.program.region("", buffer, lo, packed), {buffer.index, lo, lo + size, true, 0, {}, {}}};
    if (of.constant()) {
        const Expr start(out_.constants.place(whole_block(out_.graph, op_.operands[operand].value)));
        return {to,
                {out_.program.region("", out_.buffers.weights, start, packed),
                 {out_.buffers.weights.index, 0, 0, true, 0, {}, {}}}};
    }
    const View& view = out_.plan.memory.views[op_.operands[operand].value];
    const Storage& storage = out_.plan.memory.storages[view.storage];
    const builder::Buffer home = out_.buffers.of(view.storage, storage);
    const auto base = base_of(storage), width = static_cast<int64_t>(bit_width(of.elem) / 8);
    int64_t last = view.offset;
    for (size_t d = 0; d < shape_of(of).rank; ++d) last += (shape_of(of)[d] - 1) * view.strides[d];
    return {to,
            {out_.program.region("", home, base + view.offset * width,
                                 type(operand, shape_of(of), false).strides(exprs(view.strides))),
             {home.index, base + view.offset * width, base + (last + 1) * width, false, 0, {}, {}}}};
}

std::vector<Tile> Tiles::pieces(const Tile& tile, int64_t count) const {
    if (count == 1) return {tile};
    const proto::Region& region = out_.program.message().region(static_cast<int>(tile.region.index()));
    if (region.stride_size() > 0 || region.offset().token_size() != 1)
        throw InternalError("lower: pieces of a tile that is not dense, or moves");
    uint64_t elements = 1;
    for (const proto::Expr& size : region.shape()) elements *= static_cast<uint64_t>(size.token(0).value());
    const auto bytes = static_cast<int64_t>(packed_bytes(static_cast<ElemType>(region.elem()), elements));
    const auto each = static_cast<int64_t>(align_up(static_cast<uint64_t>((bytes + count - 1) / count)));
    std::vector<Tile> result;
    for (int64_t first = 0; first < bytes; first += each) {
        const int64_t size = std::min(each, bytes - first);
        Span span = tile.span;
        if (span.hi > span.lo) span.lo += first, span.hi = span.lo + size;
        result.push_back({out_.program.bytes("", builder::Buffer{region.buffer()},
                                             region.offset().token(0).value() + first, size),
                          span});
    }
    return result;
}

Tiles::Slots Tiles::slots_in_l1(size_t operand) const {
    const size_t at = tiling_.place[operand];
    return {offsets_[at], slot_size(at)};
}

Tile Tiles::in_slot(size_t operand, const builder::Buffer& buffer, const Slots& slots, const Expr& slot,
                    int64_t part, const builder::TensorType& type_of, const Expr& shift) const {
    const size_t at = tiling_.place[operand];
    const int64_t size = slots.size, inner = tiling_.parts_in_flight(op_, at);
    const int64_t fixed = slots.first + part % inner * size * (tiling_.hoisted[at] ? 1 : tiling_.depth);
    const bool moves = tiling_.slots(op_, at) > 1 && !tiling_.hoisted[at];
    const Expr first = shift.is_literal() ? Expr(fixed + shift.literal()) : shift + Expr(fixed);
    const Expr start = moves ? slot * Expr(size) + first : first;
    Span span{buffer.index, fixed, fixed + size * (moves ? tiling_.depth : 1), true, 0, {}, {}};
    if (moves && slot.is_literal()) {
        span.lo += slot.literal() * size;
        span.hi = span.lo + size;
    }
    return {out_.program.region("", buffer, start, type_of), span};
}

Tile Tiles::in_l1(size_t operand, const Expr& slot, int64_t part) const {
    return in_slot(operand, out_.buffers.l1[engine_], slots_in_l1(operand), slot, part,
                   type(operand, box(operand).shape, true), Expr(0));
}

Tile Tiles::staged(size_t operand, const Expr& slot, int64_t part, const Expr& t) const {
    const builder::TensorType packed = type(operand, box(operand).shape, false);
    const Dims& strides = tiling_.staged[operand];
    if (strides.rank == 0)
        return in_slot(operand, out_.buffers.staging[engine_], staging_slots(operand), slot, part, packed,
                       Expr(0));
    return in_slot(operand, out_.buffers.staging[engine_], staging_slots(operand), slot, part,
                   packed.strides(exprs(strides)), home_offset(operand, t));
}

Tile Tiles::staged_part(size_t operand, const Expr& slot, int64_t part, const Expr& begin) const {
    const int axis = tiling_.cut_axis(op_);
    const Dims& strides = tiling_.staged[operand];
    const Box tile = box(operand);
    int64_t before = 0;  // elements of the parts that come with it
    for (size_t d = 0; d < tile.shape.rank; ++d) {
        const Window& window = op_.operands[operand].windows[d];
        if (window.axis == axis)
            before +=
                part % tiling_.chunk * tiling_.tile[static_cast<size_t>(axis)] * window.step * strides[d];
    }
    return in_slot(operand, out_.buffers.staging[engine_], staging_slots(operand), slot, part / tiling_.chunk,
                   type(operand, tile.shape, false).strides(exprs(strides)),
                   begin + Expr(before * bit_width(value(operand).elem) / 8));
}

Tiles::Slots Tiles::staging_slots(size_t operand) const {
    const size_t at = tiling_.place[operand];
    return {staged_offsets_[at], static_cast<int64_t>(staged_bytes(out_.graph, op_, tiling_, at))};
}

Expr Tiles::home_offset(size_t operand, const Expr& t) const {
    const View& view = out_.plan.memory.views[op_.operands[operand].value];
    const Box tile = box(operand);
    const int64_t width = bit_width(value(operand).elem) / 8, cut = out_.target.cut_bytes;
    int64_t fixed = base_of(out_.plan.memory.storages[view.storage]) + view.offset * width;
    Expr moving(0);
    bool moves = false;
    for (size_t d = 0; d < tile.first.rank; ++d) {
        const int64_t stride = view.strides[d] * width;
        fixed += tile.first[d] * stride;
        if (count_along(operand, d) == 1 || step(operand, d) * stride % cut == 0) continue;
        const Expr along = index(static_cast<size_t>(op_.operands[operand].windows[d].axis), t);
        moving = moving + along * Expr(step(operand, d) * stride % cut);
        moves = true;
    }
    return moves ? (moving + Expr(fixed % cut)) % Expr(cut) : Expr(fixed % cut);
}

Tile Tiles::in_table_of(size_t operand, ElemType elem, const Expr& t) const {
    const Box tile = box(operand);
    Block block = whole_block(out_.graph, op_.operands[operand].value);
    block.elem = elem;
    const Dims strides = row_major(block.count);
    const Expr start =
        bytes(offset(operand, strides, tile.first, t), elem) + Expr(out_.plan.table.places.at(block));
    builder::TensorType type_of = builder::tensor(elem, exprs(tile.shape)).strides(exprs(strides));
    if (value(operand).quant) type_of = type_of.quant(tile_quant(operand));
    Span span{out_.buffers.table.index, 0, 1, true, 0, {}, {}};
    return {out_.program.region("", out_.buffers.table, start, type_of), span};
}

Tile Tiles::sum_tile(size_t y, const builder::TensorType& type, const Expr& slot) const {
    const Dims whole = tile_shape(out_.graph, op_, y, tiling_.tile);
    const auto size =
        static_cast<int64_t>(align_up(packed_bytes(type.elem, static_cast<uint64_t>(whole.product()))));
    const builder::Buffer& l1 = out_.buffers.l1[engine_];
    const Span span{l1.index, accumulator_, accumulator_ + size * tiling_.depth, true, 0, {}, {}};
    return {out_.program.region("", l1, slot * Expr(size) + Expr(accumulator_), type), span};
}

Tile Tiles::accumulator(size_t y, ElemType sums, const Expr& slot) const {
    if (sums == value(y).elem)
        return in_slot(y, out_.buffers.l1[engine_], slots_in_l1(y), slot, 0, type(y, box(y).shape, false),
                       Expr(0));
    return sum_tile(y, builder::tensor(sums, exprs(box(y).shape)), slot);
}

Tile Tiles::scaled_sum(const TileNode& anchor, const Expr& slot) const {
    const size_t y = anchor.outputs[0];
    const BoundQuant& x = value(anchor.inputs[0]).quant;
    const double scale_of_x = x ? x.scales.at(0) : 1;
    proto::Quant quant = tile_quant(anchor.inputs[1]);
    for (double& scale : *quant.mutable_scale()) scale *= scale_of_x;
    for (auto& zero : *quant.mutable_zero_point()) zero = 0;
    if (quant.kind() == proto::Quant::NONE) quant = builder::per_tensor(scale_of_x);
    if (quant.kind() == proto::Quant::PER_CHANNEL) quant.set_axis(shape_of(value(y)).rank - 1);
    return sum_tile(y, builder::tensor(ElemType::i32, exprs(box(y).shape)).quant(quant), slot);
}

Region Tiles::as_operand(const TileNode& tile, size_t i, const Tile& of) const {
    const Node& node = out_.graph.nodes[tile.node];
    if (!node.spec().traits.elementwise) return of.region;
    const Dims y = box(tile.outputs[0]).shape, x = box(tile.inputs[i]).shape;
    if (x == y) return of.region;
    const proto::Region& region = out_.program.message().region(static_cast<int>(of.region.index()));
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
    const Region result = out_.program.region("", builder::Buffer{region.buffer()}, Expr(0), type_of);
    *out_.program.message().mutable_region(static_cast<int>(result.index()))->mutable_offset() =
        region.offset();
    return result;
}

}  // namespace kpu::compiler
