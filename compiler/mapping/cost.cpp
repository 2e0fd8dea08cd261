// Cost of a tiling: bytes of L1 and L2, and time by closed forms.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "compiler/mapping/product_times.hpp"
#include "compiler/mapping/staging.hpp"
#include "compiler/mapping/tile_runs.hpp"
#include "model/timing/vector.hpp"

namespace kpu::compiler {
namespace {

constexpr double interference = 0.08, exposed_drain = 0.1;
/// An iteration takes longer at times; where that leaves no room between those in flight, the others wait for a part of it.
constexpr double longer = 1.3, waited = 0.1;
/// Many iterations in flight delay each other's transfers: cycles of each, for every one beyond the usual number.
constexpr double crowding = 7;
constexpr int uncrowded = 4;

/// Cycles of the units that move data.
struct Traffic {
    /// For one iteration of a lane: its longest transfer L2 to L1, those back.
    double load = 0, out_once = 0;
    double ddr_loads = 0;                    ///< the same from DDR
    double loads = 0;                        ///< for one iteration of a lane: all of them, shared by its DMAs
    double link = 0, units = 0, stores = 0;  ///< for a lane, in all: its link, its DMAs, its stores
    double l1 = 0;                           ///< the same: all of its L1
    double ddr_load = 0,
           ddr_store = 0;  ///< for one iteration of a lane: its longest transfers from and to DDR
    double system_link = 0, system_units = 0, ddr = 0, l2 = 0;  ///< in all
    double read_turns = 0, write_turns = 0;  ///< cycles of DRAM's bus if each request turned it, by direction
    double first_l2 = 0, first_unit = 0, first_l1 = 0;  ///< before the first tile: DRAM, a unit of it, a DMA
    double hoisted = 0;                                 ///< for all stages: what they load beforehand
};

class Evaluation {
  public:
    Evaluation(const TilingRequest& request, const ProductTimes& products, Tiling& tiling, TileWork& work)
        : request_(request), products_(products), tiling_(tiling), work_(work) {}

    bool run(double most) {
        count_rounds();
        find_places();
        count_bytes();
        if (tiling_.l1_bytes() > 2 * request_.arena_bytes) return false;
        if (!work_.known) {
            work_.known = true;
            count_array_cycles();
            count_vector_cycles();
        }
        tiling_.array = std::max(work_.array / request_.target.engines[0].array().count(), work_.array_l1);
        tiling_.vector =
            filled_ * double(iterations_ * stages_) * std::max(work_.vector / cstl_units(), work_.vector_l1);
        if (std::max(tiling_.array, tiling_.vector) > most) return false;
        find_kept();
        tiling_.staged.assign(op().operands.size(), {});
        tiling_.chunk = 1;
        if (!staging_fits(request_, tiling_)) return false;
        predict();
        choose_staging(1);
        if (gains_by_chunks(request_, tiling_)) {
            for (const int64_t parts : {2, 4, 8}) choose_staging(parts);
        }
        return true;
    }

  private:
    const TileOp& op() const { return request_.op; }
    const graph::Value& value(size_t operand) const {
        return request_.graph.value(op().operands[operand].value);
    }
    uint64_t bytes(size_t operand) const { return tile_bytes(request_.graph, op(), operand, tiling_.tile); }
    bool in_l1(size_t operand) const {
        return op().operands[operand].place != Place::input || is_moved(request_.homes[operand]);
    }

    /// True if the operand comes from DDR. Of what operations share, each counts as if another one had
    /// brought it: alike, they are cut alike.
    bool from_ddr(size_t operand) const {
        if (request_.homes[operand] != Home::shared) return request_.homes[operand] == Home::ddr;
        return tiling_.follows(op(), operand, Walk::loop) || (!tiling_.hoisted[operand] && iterations_ > 1);
    }

    void count_rounds() {
        iterations_ = stages_ = parts_ = 1;
        filled_ = covered_ = 1;
        for (size_t a = 0; a < op().axes.size(); ++a) {
            const Axis& axis = op().axes[a];
            if (axis.walk == Walk::sum) {
                parts_ *= tiling_.tiles(op(), a);
                continue;
            }
            const int64_t rounds = tiling_.rounds(op(), a);
            (axis.walk == Walk::loop ? iterations_ : stages_) *= rounds;
            const double whole = double(rounds * tiling_.tile[a]);
            filled_ *= std::min(double(axis.extent), whole) / whole;
            covered_ *= double(axis.extent) / (whole * double(tiling_.split[a]));
        }
    }

    // ---- places

    bool used_later(size_t operand, size_t node) const {
        for (size_t n = node + 1; n < op().nodes.size(); ++n) {
            const std::vector<size_t>& inputs = op().nodes[n].inputs;
            if (std::find(inputs.begin(), inputs.end(), operand) != inputs.end()) return true;
        }
        return false;
    }

    /// Returns the input whose bytes the output of an elementwise node may take.
    size_t reusable(size_t n) const {
        const TileNode& node = op().nodes[n];
        const graph::Node& of = request_.graph.nodes[node.node];
        const size_t y = node.outputs[0];
        if (!of.spec().traits.elementwise || !of.spec().in_place_allowed) return y;
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
        tiling_.place.clear();
        for (size_t i = 0; i < op().operands.size(); ++i) tiling_.place.push_back(i);
        for (size_t n = 0; n < op().nodes.size(); ++n) {
            if (op().nodes[n].outputs.size() == 1) tiling_.place[op().nodes[n].outputs[0]] = reusable(n);
        }
    }

    void count_bytes() {
        tiling_.hoisted_bytes = tiling_.slot_bytes = 0;
        for (size_t i = 0; i < op().operands.size(); ++i) {
            if (!in_l1(i) || tiling_.place[i] != i) continue;
            const uint64_t size = align_up(bytes(i));
            const auto parts = static_cast<uint64_t>(tiling_.parts(op(), i));
            if (tiling_.hoisted[i]) {
                tiling_.hoisted_bytes += size * parts;
            } else {
                tiling_.slot_bytes += size * std::min<uint64_t>(parts, 2);  // the next part comes meanwhile
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

    // ---- what stays in L2

    double times_read(size_t i) const { return compiler::times_read(op(), tiling_, i); }
    uint64_t whole_bytes(size_t i) const { return packed_bytes(value(i).elem, value(i).elements()); }

    /// Parts of a constant that each iteration of a stage reads anew, as L1 has no room for all of them.
    bool serves_stage(size_t i) const {
        return value(i).constant() && request_.homes[i] == Home::ddr && !tiling_.hoisted[i] &&
               iterations_ > 1 && tiling_.lanes() == 1 && !tiling_.follows(op(), i, Walk::loop);
    }

    /// Finds what to keep: what is read most often first.
    void find_kept() {
        tiling_.keep.assign(op().operands.size(), Keep::no);
        tiling_.kept_bytes = 0;
        std::vector<std::pair<double, size_t>> saved;
        for (size_t i = 0; i < op().operands.size(); ++i) {
            if (op().operands[i].place != Place::input || !from_ddr(i) || bit_width(value(i).elem) < 8)
                continue;
            // what is loaded while another operation runs finds that operation's tensors in L2
            if (tiling_.hoisted[i] && value(i).constant()) continue;
            const double again = (times_read(i) - 1) * double(whole_bytes(i));
            if (again > 0) saved.emplace_back(-again, i);
        }
        std::sort(saved.begin(), saved.end());
        for (const auto& [again, i] : saved) {
            tiling_.keep[i] = serves_stage(i)                  ? Keep::stage
                              : leaves_tiles(op(), tiling_, i) ? Keep::tiles
                                                               : Keep::whole;
            const uint64_t size = kept_bytes(request_.graph, op(), tiling_, i);
            if (tiling_.kept_bytes + size > request_.spare_bytes) {
                tiling_.keep[i] = Keep::no;
            } else {
                tiling_.kept_bytes += size;
            }
        }
    }

    /// Chooses the staging. What comes in fewer pieces from and to DDR has gaps in L2, and is read from there
    /// in more.
    void choose_staging(int64_t chunk) {
        Tiling trial = tiling_;
        trial.chunk = chunk;
        trial.staged = staged_strides(request_, trial);
        if (trial.staged == tiling_.staged) return;
        std::swap(tiling_, trial);
        predict();
        if (tiling_.cycles >= trial.cycles) tiling_ = std::move(trial);
    }

    // ---- work

    /// Counts the cycles of all tiles of the first lane, edge tiles as small as they are.
    void count_array_cycles() {
        work_.array = work_.array_l1 = work_.chain = 0;
        if (!products_.any()) return;
        const bool cut = tiling_.cuts_sum(op());
        std::vector<int64_t> tile = tiling_.tile;
        const auto walk = [&](const auto& self, size_t axis, double times) -> void {
            if (axis == op().axes.size()) {
                const ProductWork of = products_.work(tile, cut);
                work_.array += times * of.array;
                work_.array_l1 += times * of.l1;
                return;
            }
            const int64_t extent = op().axes[axis].extent, whole = extent / tiling_.tile[axis];
            const int64_t rest = extent - whole * tiling_.tile[axis], split = tiling_.split[axis];
            tile[axis] = tiling_.tile[axis];
            if (whole > 0) self(self, axis + 1, times * double((whole + split - 1) / split));
            tile[axis] = rest;
            if (rest > 0 && whole % split == 0) self(self, axis + 1, times);
            tile[axis] = tiling_.tile[axis];
        };
        walk(walk, 0, 1);
        work_.chain = double(parts_) * products_.latency(tiling_.tile, cut);
    }

    void count_vector_cycles() {
        const proto::Vector& vector = request_.target.engines[0].vector();
        work_.vector = work_.vector_l1 = 0;
        for (const TileNode& node : op().nodes) {
            const graph::Node& of = request_.graph.nodes[node.node];
            const OpcodeSpec& spec = of.spec();
            if (spec.macs != nullptr) continue;
            if (const kernels::Operation* kernel = kernels::find(of.opcode)) {
                work_.vector += kernel_cycles(*kernel, node);
                continue;
            }
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
            const timing::VectorTime time = timing::vector_time(vector, spec.name, work);
            double longest = double(time.total()), all = 0;  // cycles; bytes
            const auto pass = [&](size_t operand, double port, double times) {
                const double moved = times * double(bytes(operand));
                longest = std::max(longest, moved / port);
                all += moved;
            };
            for (const size_t i : node.inputs)
                pass(i, vector.operand_bytes_per_cycle(), i == node.inputs[0] ? time.passes : 1);
            for (const size_t o : node.outputs) pass(o, vector.result_bytes_per_cycle(), 1);
            work_.vector += longest;
            work_.vector_l1 += all / request_.target.l1.bytes_per_cycle;
        }
    }

    kernels::Launch launch_of(const kernels::Operation& kernel, const TileNode& node) const {
        kernels::Shapes in, out;
        for (const size_t i : node.inputs) in.push_back(tile_shape(request_.graph, op(), i, tiling_.tile));
        for (const size_t o : node.outputs) out.push_back(tile_shape(request_.graph, op(), o, tiling_.tile));
        return kernel.launch(in, out, request_.graph.nodes[node.node].attrs);
    }

    /// Returns the statements of all its lanes, on the units that share its workgroups, and its copies.
    double kernel_cycles(const kernels::Operation& kernel, const TileNode& node) const {
        const kernels::Launch launch = launch_of(kernel, node);
        const proto::Vector& vector = request_.target.engines[0].vector();
        const double units = std::max(1u, vector.vpu_count() > 0 ? vector.vpu_count() : vector.cstl_count());
        return launch.work.lane_operations / request_.target.lanes_of(launch.work) /
                   std::min(units, double(launch.workgroups)) +
               request_.target.copy_cycles(launch.work, value(node.outputs[0]).elem);
    }

    // ---- traffic

    /// Lanes that need a tile of their own.
    double distinct(size_t operand) const {
        double lanes = 1;
        for (size_t a = 0; a < op().axes.size(); ++a) {
            if (follows_axis(op(), operand, a)) lanes *= double(tiling_.split[a]);
        }
        return lanes;
    }

    /// Returns the runs in L2: tiles from DDR stand there packed or with gaps, unless the whole tensor does.
    Runs runs_in_l2(size_t i) const {
        const bool packed = is_in_ddr(request_.homes[i]) && tiling_.keep[i] != Keep::whole;
        if (packed && tiling_.staged[i].rank == 0) return {1, double(bytes(i))};
        Runs of = at_home_.runs(i);
        if (packed) of.stride = staged_stride(i);
        of.alike = false;
        return of;
    }
    int64_t chunk_of(size_t i) const { return tiling_.chunked(op(), i) ? tiling_.chunk : 1; }
    /// Returns the bytes between its rows.
    int64_t staged_stride(size_t i) const {
        const Dims tile = tile_shape(request_.graph, op(), i, tiling_.tile);
        const Dims packed = row_major(tile), &strides = tiling_.staged[i];
        for (size_t d = tile.rank; d-- > 0;) {
            if (tile[d] > 1 && strides[d] != packed[d]) return strides[d] * bit_width(value(i).elem) / 8;
        }
        return 0;
    }

    void count_lane(size_t i, Traffic& of) const {
        const Target& target = request_.target;
        const bool output = op().operands[i].place == Place::output;
        const Mover& mover = output ? target.store : target.dma;
        const double parts = double(tiling_.parts(op(), i)), size = double(bytes(i));
        const Runs runs = runs_in_l2(i);
        const double times = (tiling_.hoisted[i] ? double(stages_) : double(iterations_ * stages_)) * parts;
        const double unit = mover.unit_cycles(runs), link = mover.link_cycles(runs);
        of.link += times * link;
        (output ? of.stores : of.units) += times * unit;
        const double burst = std::min(mover.burst, runs.bytes);
        of.l2 += times * size / burst * double(tiling_.lanes()) * target.l2.share_of(burst);
        of.l1 += times * size / burst * target.l1.share_of(burst);
        if (output) {
            of.out_once += unit;
        } else if (!tiling_.hoisted[i]) {
            of.load = std::max(of.load, unit);
            of.loads += parts * std::max(unit / mover.units, link);
        }
        if (waited_for(i))
            of.first_l1 =
                std::max(of.first_l1, unit * (tiling_.hoisted[i] ? std::ceil(parts / mover.units) : 1));
        if (tiling_.hoisted[i]) of.hoisted += times * std::max(unit / mover.units, link);
    }

    void count_system(size_t i, Traffic& of) const {
        const Target& target = request_.target;
        const Mover& mover = target.system;
        const bool output = op().operands[i].place == Place::output;
        const double parts = std::ceil(double(tiling_.parts(op(), i)) / double(chunk_of(i)));
        const double size = double(packed_bytes(
            value(i).elem,
            static_cast<uint64_t>(shape_on_the_way(request_.graph, op(), tiling_, i).product())));
        const double share = tiling_.keep[i] == Keep::no      ? 1
                             : tiling_.keep[i] == Keep::stage ? 1 / double(iterations_)
                                                              : 1 / times_read(i);
        const double times = (tiling_.hoisted[i] ? double(stages_) : double(iterations_ * stages_)) * parts *
                             distinct(i) * share;
        const Runs runs = at_home_.on_the_way(i);
        const double unit = mover.unit_cycles(runs), link = mover.link_cycles(runs);
        const double pins = at_home_.pin_cycles(i);
        of.system_link += times * link;
        of.system_units += times * unit / mover.units;
        of.ddr += times * pins;
        (output ? of.write_turns : of.read_turns) += times * target.turning(runs);
        const double burst = std::min(mover.burst, runs.bytes);
        of.l2 += times * size / burst * target.l2.share_of(burst);
        const double alone = std::max({unit, link, pins});
        if (output) {
            of.ddr_store = std::max(of.ddr_store, alone);
            return;
        }
        if (tiling_.hoisted[i]) {
            of.hoisted += times * std::max(link, pins);
        } else {
            of.ddr_load = std::max(of.ddr_load, share * alone);
            of.ddr_loads += parts * share * std::max({unit / mover.units, link, pins});
        }
        if (tiling_.keep[i] == Keep::whole) {
            of.first_l2 += double(whole_bytes(i)) /
                           std::min({target.ddr_bytes_per_cycle, mover.port, mover.link.bytes_per_cycle()});
        } else if (waited_for(i)) {
            const double tiles = distinct(i) * (tiling_.hoisted[i] ? parts : 1);
            of.first_l2 += tiles * std::max(link, pins);
            of.first_unit = std::max(of.first_unit, unit * std::ceil(tiles / mover.units));
        }
    }
    /// True for what must be there before the first tile can be computed, and could not come while others
    /// computed.
    bool waited_for(size_t i) const {
        if (op().operands[i].place != Place::input) return false;
        const bool beforehand = tiling_.hoisted[i] || tiling_.keep[i] == Keep::stage;
        return request_.first || !beforehand || !value(i).constant();
    }

    Traffic traffic() const {
        Traffic of;
        for (size_t i = 0; i < op().operands.size(); ++i) {
            if (op().operands[i].place == Place::internal || !in_l1(i)) continue;
            count_lane(i, of);
            if (from_ddr(i)) count_system(i, of);
        }
        for (const TileNode& node : op().nodes) {
            const kernels::Operation* kernel = kernels::find(request_.graph.nodes[node.node].opcode);
            if (kernel == nullptr || kernel->in_place < 0) continue;
            of.ddr += double(iterations_ * stages_ * tiling_.lanes()) *
                      request_.target.copy_pins(launch_of(*kernel, node).work, value(node.outputs[0]).elem);
        }
        return of;
    }

    void predict() {
        const Target& target = request_.target;
        const Traffic of = traffic();
        const auto iterations = double(iterations_ * stages_);
        const double arrays = target.engines[0].array().count();
        const double vector_tile = work_.vector, chain = work_.chain;
        tiling_.vector = filled_ * (iterations * std::max(vector_tile / cstl_units(), work_.vector_l1) +
                                    of.stores / target.store.units);
        tiling_.dma = filled_ * std::max(of.link, of.units / target.dma.units);
        tiling_.dram = covered_ * std::max({of.ddr, of.system_link, of.system_units});
        const double all_of_l1 = work_.array_l1 + filled_ * (iterations * work_.vector_l1 + of.l1);
        const double turned = of.ddr + std::min(of.read_turns, of.write_turns);
        const double shared = covered_ * std::max(turned, of.l2);
        // an iteration's way through loading, computing and storing, of which `depth` overlap
        const double ends = target.ddr_latency_cycles + 2 * target.dma.descriptor_cycles;
        const double whole = of.ddr_load + of.load + std::max(chain, of.loads + of.ddr_loads) + vector_tile +
                             of.out_once + of.ddr_store + ends;
        // parts of a sum have two slots each: they come while those before them, of this tile or the last, are added
        const double through = parts_ > 1 ? std::max({chain + vector_tile, of.loads, of.ddr_loads}) : whole;
        // nothing is computed while a stage that takes both halves of L1 loads what it needs beforehand
        const double alone = exclusive() ? of.hoisted : 0;
        const double turns = iterations * through / in_flight();
        const double late = iterations_ > tiling_.depth ? longer * turns : 0;
        const double steady =
            std::max({tiling_.dram, shared,
                      alone + std::max({tiling_.array, tiling_.vector, tiling_.dma, all_of_l1, turns})});
        // what else is busy gets in the way at times
        const double others = tiling_.array + tiling_.vector + tiling_.dma + tiling_.dram - steady;
        tiling_.cycles = steady + std::max(of.first_l2, of.first_unit) + of.first_l1 + ends + vector_tile +
                         of.out_once + interference * std::max(0.0, others) +
                         waited * std::max(0.0, late - steady) +
                         crowding * std::max(0, tiling_.depth - uncrowded) * iterations;
        if (flushes()) tiling_.cycles += double(stages_ - 1) * (through - chain);
        // parts of a sum follow each other through one accumulator; their drains show while no other tile has operands
        if (parts_ > 1) {
            const double shown = tiling_.depth > 2 ? 0 : std::min(1.0, (whole - chain) / chain);
            tiling_.cycles +=
                (exposed_drain + (1 - exposed_drain) * shown) * (iterations * chain - work_.array) / arrays;
        }
    }
    double cstl_units() const { return std::max(1u, request_.target.engines[0].vector().cstl_count()); }
    double entries() const {
        const double entries = request_.target.limits.max_active_tokens;
        return entries == 0 ? std::numeric_limits<double>::infinity() : entries;
    }
    double tasks() const { return double(tiling_.tasks(op(), request_.homes)); }
    /// Stages that find no entries beside those of the stage before them start when it has ended.
    bool flushes() const { return 2 * tasks() * tiling_.depth > entries(); }
    /// Iterations whose tasks find entries in the token table. Short stages take turns in the halves of L1.
    double in_flight() const {
        const bool turns = stages_ > 1 && iterations_ <= tiling_.depth && !exclusive();
        const double slots = turns ? 2 * double(iterations_) : double(tiling_.depth);
        return std::clamp(entries() / tasks(), 1.0, slots);
    }
    /// True if its constants cannot come before the last operation has left L1.
    bool exclusive() const { return tiling_.l1_bytes() > request_.arena_bytes; }

    const TilingRequest& request_;
    const ProductTimes& products_;
    Tiling& tiling_;
    TileWork& work_;
    const TileRuns at_home_{request_, tiling_};
    int64_t iterations_ = 1, stages_ = 1, parts_ = 1;  ///< counts of the lane with the most
    double filled_ = 1, covered_ = 1;  ///< share of whole tiles that are worked on: by one lane, by all
};

}  // namespace

bool evaluate(const TilingRequest& request, Tiling& tiling) {
    TileWork work;
    return evaluate(request, ProductTimes(request), tiling, work, std::numeric_limits<double>::infinity());
}

bool evaluate(const TilingRequest& request, const ProductTimes& products, Tiling& tiling, TileWork& work,
              double most) {
    return Evaluation(request, products, tiling, work).run(most);
}

}  // namespace kpu::compiler
