#include "compiler/mapping/tiling.hpp"

#include <algorithm>

#include "compiler/graph/macs.hpp"
#include "compiler/graph/supports.hpp"

namespace kpu::compiler {

namespace {

/// True if tile `index` can be an iteration beside tile index - `distance`: same sizes, so much further.
bool continues(const graph::Graph& graph, const TileOp& op, int axis, int64_t tile, int64_t index,
               int64_t distance) {
    const int64_t extent = op.axes[static_cast<size_t>(axis)].extent;
    const int64_t size = std::min(tile, extent - index * tile);
    if (size != tile) return false;
    for (const TileOperand& operand : op.operands) {
        const Dims shape = shape_of(graph.value(operand.value));
        for (size_t d = 0; d < operand.windows.size(); ++d) {
            const Window& window = operand.windows[d];
            if (window.axis != axis) continue;
            const Part last = part_of(window, shape[d], (index - distance) * tile, tile);
            const Part part = part_of(window, shape[d], index * tile, size);
            const bool same = part.size == last.size && part.before == last.before &&
                              part.behind == last.behind &&
                              part.lo == last.lo + distance * tile * window.step;
            if (!same) return false;
        }
    }
    return true;
}

}  // namespace

std::vector<Lap> laps_along(const graph::Graph& graph, const TileOp& op, int axis, int64_t tile,
                            int64_t lanes, bool single) {
    const int64_t extent = op.axes[static_cast<size_t>(axis)].extent, tiles = (extent + tile - 1) / tile;
    std::vector<Lap> laps;
    for (int64_t first = 0; first < tiles; first += lanes) {
        const int64_t end = std::min(tiles, first + lanes);
        bool further =
            !single && !laps.empty() && end - first == static_cast<int64_t>(laps.back().lanes.size());
        for (int64_t index = first; further && index < end; ++index)
            further = continues(graph, op, axis, tile, index, lanes);
        if (!further) {
            laps.emplace_back();
            for (int64_t index = first; index < end; ++index)
                laps.back().lanes.push_back({index, 0, std::min(tile, extent - index * tile), lanes});
        }
        ++laps.back().count;
        for (Run& run : laps.back().lanes) ++run.count;
    }
    return laps;
}

Dims tile_shape(const graph::Graph& graph, const TileOp& op, size_t operand,
                const std::vector<int64_t>& tile) {
    Dims shape = shape_of(graph.value(op.operands[operand].value));
    for (size_t d = 0; d < shape.rank; ++d) {
        const Window& window = op.operands[operand].windows[d];
        if (window.axis < 0) continue;
        shape[d] =
            std::min(shape[d], (tile[static_cast<size_t>(window.axis)] - 1) * window.step + window.extent);
    }
    return shape;
}

uint64_t tile_bytes(const graph::Graph& graph, const TileOp& op, size_t operand,
                    const std::vector<int64_t>& tile) {
    const auto elements = static_cast<uint64_t>(tile_shape(graph, op, operand, tile).product());
    return packed_bytes(graph.value(op.operands[operand].value).elem, elements);
}

Dims shape_on_the_way(const graph::Graph& graph, const TileOp& op, const Tiling& tiling, size_t operand) {
    if (tiling.chunk == 1) return tile_shape(graph, op, operand, tiling.tile);
    std::vector<int64_t> size = tiling.tile;
    for (size_t a = 0; a < size.size(); ++a) size[a] = tiling.on_the_way(op, operand, a);
    return tile_shape(graph, op, operand, size);
}

double times_read(const TileOp& op, const Tiling& tiling, size_t operand) {
    double times = 1;
    for (size_t a = 0; a < op.axes.size(); ++a) {
        const bool once = tiling.hoisted[operand] && op.axes[a].walk == Walk::loop;
        if (!once && op.axes[a].walk != Walk::sum && !follows_axis(op, operand, a))
            times *= double(tiling.rounds(op, a));
    }
    return times;
}

uint64_t kept_bytes(const graph::Graph& graph, const TileOp& op, const Tiling& tiling, size_t operand) {
    const graph::Value& value = graph.value(op.operands[operand].value);
    if (tiling.keep[operand] == Keep::whole) return align_up(packed_bytes(value.elem, value.elements()));
    if (tiling.keep[operand] == Keep::stage)  // those of this stage and of the next
        return 2 * static_cast<uint64_t>(tiling.parts(op, operand)) *
               align_up(tile_bytes(graph, op, operand, tiling.tile));
    uint64_t tiles = 1;
    for (const Window& window : op.operands[operand].windows) {
        if (window.axis >= 0)
            tiles *= static_cast<uint64_t>(tiling.tiles(op, static_cast<size_t>(window.axis)));
    }
    return tiles * align_up(tile_bytes(graph, op, operand, tiling.tile));
}

bool follows_axis(const TileOp& op, size_t operand, size_t axis) {
    const std::vector<Window>& windows = op.operands[operand].windows;
    return std::any_of(windows.begin(), windows.end(),
                       [axis](const Window& window) { return window.axis == static_cast<int>(axis); });
}

bool leaves_tiles(const TileOp& op, const Tiling& tiling, size_t operand) {
    for (const Window& window : op.operands[operand].windows) {
        const bool cut = window.axis >= 0 && tiling.tiles(op, static_cast<size_t>(window.axis)) > 1;
        if (cut && window.slides()) return false;
    }
    for (size_t a = 0; a < op.axes.size(); ++a) {
        if (op.axes[a].walk == Walk::loop && tiling.rounds(op, a) > 1 && !follows_axis(op, operand, a) &&
            !tiling.hoisted[operand])
            return false;
    }
    return true;
}

bool touches(const graph::Graph& graph, const TileOp& op, size_t axis, int64_t size) {
    const int64_t extent = op.axes[axis].extent, last = (extent - 1) / size * size;
    if (extent - last < op.axes[axis].least_last) return false;
    for (const TileOperand& operand : op.operands) {
        const Dims shape = shape_of(graph.value(operand.value));
        for (size_t d = 0; d < operand.windows.size(); ++d) {
            const Window& window = operand.windows[d];
            if (window.axis != static_cast<int>(axis)) continue;
            if (part_of(window, shape[d], 0, std::min(size, extent)).size <= 0 ||
                part_of(window, shape[d], last, extent - last).size <= 0)
                return false;
        }
    }
    return true;
}

int64_t Tiling::lanes() const {
    int64_t lanes = 1;
    for (const int64_t along : split) lanes *= along;
    return lanes;
}

bool Tiling::follows(const TileOp& op, size_t operand, Walk walk) const {
    for (const Window& window : op.operands[operand].windows) {
        if (window.axis < 0) continue;
        const auto axis = static_cast<size_t>(window.axis);
        if (op.axes[axis].walk == walk && tiles(op, axis) > 1) return true;
    }
    return false;
}

int64_t Tiling::tasks(const TileOp& op, const std::vector<Home>& homes) const {
    int64_t tasks = static_cast<int64_t>(op.nodes.size());
    if (cuts_sum(op)) {
        for (size_t a = 0; a < tile.size(); ++a) tasks += op.axes[a].walk == Walk::sum ? tiles(op, a) : 0;
    }
    for (size_t i = 0; i < op.operands.size(); ++i) {
        const bool moved = op.operands[i].place == Place::output ||
                           (op.operands[i].place == Place::input && !hoisted[i] && is_moved(homes[i]));
        if (!moved) continue;
        tasks += parts(op, i);
        if (homes[i] == Home::ddr && keep[i] != Keep::stage)
            tasks += chunked(op, i) ? (parts(op, i) + chunk - 1) / chunk : parts(op, i);
    }
    return tasks;
}

int64_t Tiling::parts(const TileOp& op, size_t operand) const {
    int64_t parts = 1;
    for (const Window& window : op.operands[operand].windows) {
        if (window.axis < 0) continue;
        const auto axis = static_cast<size_t>(window.axis);
        if (op.axes[axis].walk == Walk::sum) parts *= tiles(op, axis);
    }
    return parts;
}

int64_t Tiling::parts_in_flight(const TileOp& op, size_t operand) const {
    return hoisted[operand] ? parts(op, operand) : std::min<int64_t>(parts(op, operand), 2);
}

int64_t Tiling::slots(const TileOp& op, size_t operand) const {
    return parts_in_flight(op, operand) * (hoisted[operand] ? 1 : depth);
}

int Tiling::cut_axis(const TileOp& op) const {
    for (size_t a = 0; a < tile.size(); ++a) {
        if (op.axes[a].walk == Walk::sum && tiles(op, a) > 1) return static_cast<int>(a);
    }
    return -1;
}

bool Tiling::cuts_sum(const TileOp& op) const { return cut_axis(op) >= 0; }

int64_t Tiling::on_the_way(const TileOp& op, size_t operand, size_t axis) const {
    if (chunk == 1 || static_cast<int>(axis) != cut_axis(op) || !chunked(op, operand)) return tile[axis];
    return std::min(chunk * tile[axis], op.axes[axis].extent);
}

uint32_t Tiling::prefetch_distance(const TileOp& op) const {
    bool stages = false;
    for (size_t a = 0; a < op.axes.size(); ++a)
        stages = stages || (op.axes[a].walk == Walk::unroll && tiles(op, a) > 1);
    return std::max(static_cast<uint32_t>(depth - 1), stages ? 1u : 0u);
}

uint64_t macs_of(const graph::Graph& graph, const TileOp& op) {
    uint64_t macs = 0;
    for (const TileNode& tile : op.nodes) {
        macs += graph::macs_of(graph, graph.nodes[tile.node]);
    }
    return macs;
}

ElemType accumulator_of(const graph::Graph& graph, const TileOp& op) {
    const TileNode& anchor = op.nodes[op.anchor];
    const graph::Node& node = graph.nodes[anchor.node];
    if (node.spec().accumulates) return ElemType::none;
    const ElemType elem = graph.value(node.inputs[0]).elem;
    const ElemType sums = is_float(elem) ? ElemType::f32 : ElemType::i32;
    return graph.value(node.outputs[0]).elem == sums ? ElemType::none : sums;
}

bool sums_can_be_cut(const graph::Graph& graph, const TileOp& op, const std::vector<Home>& homes,
                     const Target& target) {
    const TileNode& anchor = op.nodes[op.anchor];
    const graph::Node& node = graph.nodes[anchor.node];
    if (node.spec().group_scales || node.spec().block_scales) return true;  // its output is the accumulator
    const std::string_view opcode = graph::sums_opcode(node.spec());
    if (opcode.empty()) return false;
    const ElemType a = graph.value(node.inputs[0]).elem, b = graph.value(node.inputs[1]).elem;
    const ElemType sums = is_float(a) ? ElemType::f32 : ElemType::i32;
    const ElemType y = graph.value(node.outputs[0]).elem;
    if (!target.takes(opcode, {a, b}, {sums}) || !target.takes(opcode, {a, b, sums}, {sums})) return false;
    const char* narrows = is_float(a) ? "cast" : "requant";
    if (y != sums && (!target.takes(narrows, {sums}, {y}) || !target.has_unit_for(narrows))) return false;
    if (anchor.inputs.size() < 3) return true;
    const size_t addend = anchor.inputs[2];
    return homes[addend] == Home::table || graph.value(op.operands[addend].value).elem == sums;
}

}  // namespace kpu::compiler
