#include "compiler/lower/tiling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/diagnostics.hpp"
#include "model/timing/vector.hpp"

namespace kpu::lower {

Part part_of(const Window& window, int64_t dimension, int64_t first, int64_t count) {
    if (window.axis < 0) return {0, dimension, 0, 0};
    const int64_t lo = first * window.step - window.before;
    const int64_t hi = (first + count - 1) * window.step - window.before + window.extent;
    Part part;
    part.lo = std::clamp<int64_t>(lo, 0, dimension);
    part.size = std::clamp<int64_t>(hi, 0, dimension) - part.lo;
    part.before = std::max<int64_t>(0, -lo);
    part.behind = std::max<int64_t>(0, hi - dimension);
    return part;
}

namespace {

/// Calls visit(window, size of the dimension) for each dimension of an operand that follows the axis.
template <class Visit>
void visit_windows(const graph::Graph& graph, const TileOp& op, int axis, const Visit& visit) {
    for (const TileOperand& operand : op.operands) {
        const Dims shape = shape_of(graph.value(operand.value));
        for (size_t d = 0; d < operand.windows.size(); ++d) {
            if (operand.windows[d].axis == axis) visit(operand.windows[d], shape[d]);
        }
    }
}

/// Whether tile `index` can be an iteration beside its predecessor: same sizes, one step further.
bool continues(const graph::Graph& graph, const TileOp& op, int axis, int64_t tile, int64_t index,
               int64_t size) {
    bool same = true;
    visit_windows(graph, op, axis, [&](const Window& window, int64_t dimension) {
        const Part last = part_of(window, dimension, (index - 1) * tile, tile);
        const Part part = part_of(window, dimension, index * tile, size);
        same = same && part.size == last.size && part.before == last.before && part.behind == last.behind &&
               part.lo == last.lo + tile * window.step;
    });
    return same;
}

}  // namespace

std::vector<Run> runs_along(const graph::Graph& graph, const TileOp& op, int axis, int64_t tile) {
    const int64_t extent = op.axes[static_cast<size_t>(axis)].extent;
    std::vector<Run> runs;
    for (int64_t index = 0; index * tile < extent; ++index) {
        const int64_t size = std::min(tile, extent - index * tile);
        if (!runs.empty() && size == tile && continues(graph, op, axis, tile, index, size)) {
            ++runs.back().count;
        } else {
            runs.push_back({index, 1, size});
        }
    }
    return runs;
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

bool Tiling::cuts_sum(const TileOp& op) const {
    for (size_t a = 0; a < tile.size(); ++a) {
        if (op.axes[a].walk == Walk::sum && tiles(op, a) > 1) return true;
    }
    return false;
}

std::string Tiling::bound() const {
    const double most = std::max({array, vector, dma, dram});
    return most == array ? "array" : most == vector ? "vector" : most == dma ? "dma" : "dram";
}

ElemType accumulator_of(const graph::Graph& graph, const TileOp& op) {
    const TileNode& anchor = op.nodes[op.anchor];
    const graph::Node& node = graph.nodes[anchor.node];
    if (node.spec().accumulates) return ElemType::none;
    const ElemType elem = graph.value(node.inputs[0]).elem;
    const ElemType sums = is_float(elem) ? ElemType::f32 : ElemType::i32;
    return graph.value(node.outputs[0]).elem == sums ? ElemType::none : sums;
}

namespace {

class Evaluation {
  public:
    Evaluation(const TilingRequest& request, std::vector<int64_t> tile) : request_(request) {
        tiling_.tile = std::move(tile);
    }

    /// Nothing when it does not fit.
    std::optional<Tiling> run() {
        find_hoisted();
        find_places();
        count_bytes();
        if (tiling_.l1_bytes() > request_.l1_bytes) return std::nullopt;
        predict();
        return tiling_;
    }
    uint64_t l1_bytes() const { return tiling_.l1_bytes(); }

  private:
    const TileOp& op() const { return request_.op; }
    const graph::Value& value(size_t operand) const {
        return request_.graph.value(op().operands[operand].value);
    }
    uint64_t bytes(size_t operand) const { return tile_bytes(request_.graph, op(), operand, tiling_.tile); }
    int64_t tiles(size_t axis) const { return tiling_.tiles(op(), axis); }
    bool follows(size_t operand, Walk walk) const {
        for (const Window& window : op().operands[operand].windows) {
            if (window.axis < 0) continue;
            const auto axis = static_cast<size_t>(window.axis);
            if (op().axes[axis].walk == walk && tiles(axis) > 1) return true;
        }
        return false;
    }
    bool in_l1(size_t operand) const {
        return op().operands[operand].place != Place::input || request_.homes[operand] != Home::table;
    }

    void find_hoisted() {
        iterations_ = stages_ = parts_ = 1;
        for (size_t a = 0; a < op().axes.size(); ++a) {
            const Walk walk = op().axes[a].walk;
            (walk == Walk::loop ? iterations_ : walk == Walk::unroll ? stages_ : parts_) *= tiles(a);
        }
        tiling_.depth = iterations_ > 1 ? 2 : 1;
        for (size_t i = 0; i < op().operands.size(); ++i) {
            tiling_.hoisted.push_back(op().operands[i].place == Place::input && !follows(i, Walk::loop) &&
                                      !follows(i, Walk::sum));
        }
    }

    bool used_later(size_t operand, size_t node) const {
        for (size_t n = node + 1; n < op().nodes.size(); ++n) {
            const std::vector<size_t>& inputs = op().nodes[n].inputs;
            if (std::find(inputs.begin(), inputs.end(), operand) != inputs.end()) return true;
        }
        return false;
    }

    /// The input whose bytes the output of an elementwise node may take.
    size_t reusable(size_t n) const {
        const TileNode& node = op().nodes[n];
        const graph::Node& of = request_.graph.nodes[node.node];
        const size_t y = node.outputs[0];
        if (of.spec().op_class != OpcodeClass::elementwise || !of.spec().in_place_allowed) return y;
        for (const size_t x : node.inputs) {
            const BoundQuant &from = value(x).quant, &to = value(y).quant;
            const bool alike = value(x).elem == value(y).elem && from.kind == to.kind &&
                               from.scales == to.scales && from.zero_points == to.zero_points &&
                               op().operands[x].windows == op().operands[y].windows &&
                               shape_of(value(x)) == shape_of(value(y));
            const bool kept = op().operands[x].place == Place::output || tiling_.hoisted[x] || !in_l1(x);
            const bool twice = std::count(node.inputs.begin(), node.inputs.end(), x) > 1;
            if (alike && !kept && !twice && !used_later(x, n)) return tiling_.place[x];
        }
        return y;
    }

    void find_places() {
        for (size_t i = 0; i < op().operands.size(); ++i) tiling_.place.push_back(i);
        for (size_t n = 0; n < op().nodes.size(); ++n) {
            if (op().nodes[n].outputs.size() == 1) tiling_.place[op().nodes[n].outputs[0]] = reusable(n);
        }
    }

    void count_bytes() {
        for (size_t i = 0; i < op().operands.size(); ++i) {
            if (!in_l1(i) || tiling_.place[i] != i) continue;
            const uint64_t size = align_up(bytes(i));
            if (tiling_.hoisted[i]) {
                tiling_.hoisted_bytes += size;
            } else {
                tiling_.slot_bytes +=
                    follows(i, Walk::sum) ? 2 * size : size;  // the next part comes meanwhile
            }
        }
        if (!tiling_.cuts_sum(op())) return;
        const ElemType sums = accumulator_of(request_.graph, op());
        if (sums == ElemType::none) return;
        const size_t y = op().nodes[op().anchor].outputs[0];
        const auto elements =
            static_cast<uint64_t>(tile_shape(request_.graph, op(), y, tiling_.tile).product());
        tiling_.slot_bytes += align_up(packed_bytes(sums, elements));
    }

    // ---- time

    /// The product that one tile of these sizes is.
    timing::GemmShape product(const std::vector<int64_t>& tile) const {
        const TileNode& anchor = op().nodes[op().anchor];
        const graph::Node& node = request_.graph.nodes[anchor.node];
        const Dims y = tile_shape(request_.graph, op(), anchor.outputs[0], tile);
        const Dims w = tile_shape(request_.graph, op(), anchor.inputs[1], tile);
        const auto size = [](int64_t n) { return static_cast<uint64_t>(n); };
        timing::GemmShape shape;
        if (node.spec().op_class == OpcodeClass::gemm) {
            shape.m = size(y[y.rank - 2u]);
            shape.n = size(y[y.rank - 1u]);
            shape.k = size(w[w.rank - 2u]);
            shape.groups = size(y.product()) / (shape.m * shape.n);
            return shape;
        }
        shape.n = size(w[w.rank - 1u]);
        for (const Axis& axis : op().axes) {
            if (axis.name == "g") shape.groups = size(tile[static_cast<size_t>(&axis - op().axes.data())]);
        }
        shape.n /= std::max<uint64_t>(1, shape.groups);
        shape.k = size(w.product()) / size(w[w.rank - 1u]);
        shape.m = size(y.product()) / size(y[y.rank - 1u]);
        return shape;
    }

    /// Cycles of all tiles on one array, edge tiles as small as they are.
    double array_cycles() const {
        const graph::Node& node = request_.graph.nodes[op().nodes[op().anchor].node];
        if (node.spec().macs == nullptr) return 0;
        const timing::SystolicArray array =
            timing::array_for(request_.target.engines[0].array(), request_.graph.value(node.inputs[0]).elem,
                              request_.graph.value(node.inputs[1]).elem);
        double sum = 0;
        std::vector<int64_t> tile = tiling_.tile;
        const auto walk = [&](const auto& self, size_t axis, double times) -> void {
            if (axis == op().axes.size()) {
                sum += times * double(timing::systolic_time(array, product(tile)).occupancy);
                return;
            }
            const int64_t extent = op().axes[axis].extent, whole = extent / tiling_.tile[axis];
            const int64_t rest = extent - whole * tiling_.tile[axis];
            tile[axis] = tiling_.tile[axis];
            if (whole > 0) self(self, axis + 1, times * double(whole));
            tile[axis] = rest;
            if (rest > 0) self(self, axis + 1, times);
            tile[axis] = tiling_.tile[axis];
        };
        walk(walk, 0, 1);
        return sum;
    }

    double vector_cycles_of_tile() const {
        const proto::Vector& vector = request_.target.engines[0].vector();
        double sum = 0;
        for (const TileNode& node : op().nodes) {
            const graph::Node& of = request_.graph.nodes[node.node];
            const OpcodeSpec& spec = of.spec();
            if (spec.macs != nullptr) continue;
            const size_t counted = spec.work == WorkCount::operands ? node.inputs[0] : node.outputs[0];
            timing::VectorWork work;
            work.amount =
                static_cast<uint64_t>(tile_shape(request_.graph, op(), counted, tiling_.tile).product());
            work.bytes = spec.work == WorkCount::result_bytes;
            if (work.bytes) work.amount = bytes(counted);
            if (const BoundAttr* window = of.attrs.find("kernel_shape");
                window != nullptr && spec.work == WorkCount::windows) {
                for (const int64_t extent : window->ints) work.amount *= static_cast<uint64_t>(extent);
            }
            sum += double(timing::vector_time(vector, spec.name, work).total());
        }
        return sum;
    }

    /// Pieces of memory that a tile of a tensor consists of; constants are packed as their tiles are.
    double rows(size_t operand) const {
        if (value(operand).constant()) return 1;
        const Dims whole = shape_of(value(operand));
        const Dims tile = tile_shape(request_.graph, op(), operand, tiling_.tile);
        double count = 1;
        bool contiguous = true;
        for (size_t d = tile.rank; d-- > 0;) {
            if (!contiguous) count *= double(tile[d]);
            contiguous = contiguous && tile[d] == whole[d];
        }
        return count;
    }
    /// What DRAM moves for a tile: whole bursts of each row.
    double burst_bytes(size_t operand) const {
        constexpr double burst = 64;
        const double count = rows(operand);
        return count * std::ceil(double(bytes(operand)) / count / burst) * burst;
    }

    void predict() {
        const Target& target = request_.target;
        const auto count = double(iterations_ * stages_ * parts_), iterations = double(iterations_ * stages_);
        double in = 0, out = 0, from_ddr = 0, to_ddr = 0, once = 0, once_ddr = 0;
        for (size_t i = 0; i < op().operands.size(); ++i) {
            const Place place = op().operands[i].place;
            if (place == Place::internal || !in_l1(i)) continue;
            const bool ddr = request_.homes[i] == Home::ddr;
            // a row begins with a cycle of its own
            const double size = double(bytes(i)) + rows(i) * target.dma_bytes_per_row;
            const double moved = burst_bytes(i);
            if (place == Place::output) {
                out += size;
                if (ddr) to_ddr += moved;
            } else if (tiling_.hoisted[i]) {
                once += size;
                if (ddr) once_ddr += moved;
            } else {
                const double times = follows(i, Walk::sum) ? double(parts_) : 1;
                in += size * times;
                if (ddr) from_ddr += moved * times;
            }
        }
        const double store = out / target.store_bytes_per_cycle;
        const double units = std::max(1u, target.engines[0].vector().cstl_count());
        const double stages = double(stages_), arrays = target.engines[0].array().count();
        const double vector_tile = vector_cycles_of_tile();
        tiling_.array = array_cycles() / arrays;
        tiling_.vector = iterations * (vector_tile + store) / units;
        tiling_.dma =
            (iterations * in + stages * once) / target.dma_bytes_per_cycle + count * target.descriptor_cycles;
        tiling_.dram = (iterations * (from_ddr + to_ddr) + stages * once_ddr) / target.ddr_bytes_per_cycle;
        // an iteration's way through loading, computing and storing, of which `depth` overlap (two stages otherwise)
        const double through = (in + once * stages / iterations) / target.dma_bytes_per_cycle +
                               (from_ddr + to_ddr) / target.ddr_bytes_per_cycle + target.ddr_latency_cycles +
                               4.0 * target.descriptor_cycles + tiling_.array * arrays / iterations +
                               vector_tile + store;
        const double steady =
            std::max({tiling_.array, tiling_.vector, tiling_.dma, tiling_.dram, iterations * through / 2});
        tiling_.cycles = steady / request_.engines + through;
    }

    const TilingRequest& request_;
    Tiling tiling_;
    int64_t iterations_ = 1, stages_ = 1, parts_ = 1;
};

/// Sizes that cut an extent into 1, 2, 3, ... nearly equal tiles.
std::vector<int64_t> sizes_of(const Axis& axis) {
    std::vector<int64_t> sizes{axis.extent};
    if (axis.whole) return sizes;
    for (int64_t parts = 2; parts <= axis.extent; parts = parts < 16 ? parts + 1 : parts * 5 / 4) {
        int64_t size = (axis.extent + parts - 1) / parts;
        if (axis.quantum > 1 && size > axis.quantum)
            size = (size + axis.quantum - 1) / axis.quantum * axis.quantum;
        if (size < sizes.back()) sizes.push_back(size);
    }
    if (sizes.back() != 1) sizes.push_back(1);
    return sizes;
}

/// Parts of a sum are not cut below this where they fit: each one fills the array anew.
constexpr int64_t shortest_part = 32;

class Search {
  public:
    explicit Search(const TilingRequest& request) : request_(request), tile_(request.op.axes.size(), 1) {}

    Tiling run() {
        for (size_t a = 0; a < tile_.size(); ++a) {
            const Axis& axis = request_.op.axes[a];
            tile_[a] = axis.extent;
            if (axis.walk == Walk::sum) {
                sums_.push_back(a);
            } else if (axis.independent) {
                free_.push_back(a);
            } else if (!axis.whole) {
                rows_.push_back(a);
            }
        }
        choose_sums(0);
        if (!best_) refuse();
        return *best_;
    }

  private:
    /// No tile lies in the padding alone: a region has elements.
    bool touches(size_t axis, int64_t size) const {
        const int64_t extent = request_.op.axes[axis].extent, last = (extent - 1) / size * size;
        bool all = true;
        visit_windows(request_.graph, request_.op, static_cast<int>(axis),
                      [&](const Window& window, int64_t dimension) {
                          all = all && part_of(window, dimension, 0, std::min(size, extent)).size > 0 &&
                                part_of(window, dimension, last, extent - last).size > 0;
                      });
        return all;
    }

    void consider() {
        Evaluation evaluation(request_, tile_);
        std::optional<Tiling> tiling = evaluation.run();
        least_ = std::min(least_, evaluation.l1_bytes());
        if (tiling && (!best_ || tiling->cycles < best_->cycles)) best_ = std::move(tiling);
    }

    void choose_sums(size_t next) {
        if (next == sums_.size()) return choose_free(0);
        const size_t axis = sums_[next];
        // halves: a cut costs an accumulator, and pays where whole sums leave room for a sliver of the outputs only
        for (int64_t size = request_.op.axes[axis].extent;; size = (size + 1) / 2) {
            tile_[axis] = size;
            choose_sums(next + 1);
            const bool shorter = size > 1 && !request_.op.axes[axis].whole;
            if (!shorter || (best_ && size <= shortest_part)) break;
        }
    }

    void choose_free(size_t next) {
        if (next == free_.size()) return choose_rows();
        for (const int64_t size : sizes_of(request_.op.axes[free_[next]])) {
            if (!touches(free_[next], size)) continue;
            tile_[free_[next]] = size;
            choose_free(next + 1);
        }
    }

    /// Outer rows are cut to single ones before an inner dimension is cut at all.
    void choose_rows() {
        for (const size_t axis : rows_) tile_[axis] = request_.op.axes[axis].extent;
        consider();
        for (const size_t axis : rows_) {
            for (const int64_t size : sizes_of(request_.op.axes[axis])) {
                if (size == request_.op.axes[axis].extent || !touches(axis, size)) continue;
                tile_[axis] = size;
                consider();
            }
            tile_[axis] = 1;
            if (!touches(axis, 1)) return;
        }
    }

    [[noreturn]] void refuse() const {
        throw UserError(fmt::format(
            "{} ({}): SRAM memory exceeded: {} bytes required, {} bytes available for its smallest tiles. "
            "Fix: choose a "
            "device with a larger L1 (--set engine.l1.size_bytes=N), or make the operation smaller.",
            request_.op.source.name, request_.op.source.type, least_, request_.l1_bytes));
    }

    const TilingRequest& request_;
    std::vector<int64_t> tile_;
    std::vector<size_t> sums_, free_, rows_;
    std::optional<Tiling> best_;
    uint64_t least_ = std::numeric_limits<uint64_t>::max();
};

}  // namespace

Tiling choose_tiling(const TilingRequest& request) { return Search(request).run(); }

}  // namespace kpu::lower
