// The tilings considered, and which of them is the fastest.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/diagnostics.hpp"
#include "compiler/mapping/product_times.hpp"
#include "compiler/mapping/searches.hpp"
#include "compiler/mapping/wishes.hpp"

namespace kpu::compiler {
namespace {

/// Sizes that cut an extent into 1, 2, 3, ... nearly equal tiles; all sizes of a short one.
std::vector<int64_t> sizes_of(const Axis& axis) {
    constexpr int64_t few = 8;
    std::vector<int64_t> sizes{axis.extent};
    if (axis.whole) return sizes;
    for (int64_t size = axis.extent - 1; axis.extent <= few && size > 0; --size) sizes.push_back(size);
    for (int64_t parts = 2; parts <= axis.extent; parts = parts < 16 ? parts + 1 : parts * 5 / 4) {
        int64_t size = (axis.extent + parts - 1) / parts;
        if (axis.quantum > 1 && 2 * size > axis.quantum)
            size = (size + axis.quantum - 1) / axis.quantum * axis.quantum;
        if (size < sizes.back()) sizes.push_back(size);
    }
    if (sizes.back() != 1) sizes.push_back(1);
    return sizes;
}

/// Returns the sizes for parts of a sum: a cut costs an accumulator, and pays where whole sums leave room for
/// a sliver of the outputs only.
std::vector<int64_t> halves_of(const Axis& axis) {
    std::vector<int64_t> sizes{axis.extent};
    while (!axis.whole && sizes.back() > 1) sizes.push_back((sizes.back() + 1) / 2);
    return sizes;
}

/// Returns also the largest sizes that fill the rows of an array 1, 2, 3, ... times, if one index takes so
/// many of them.
std::vector<int64_t> sizes_of_rows(const Axis& axis, int64_t each, int64_t array_rows) {
    constexpr int64_t most_fills = 16;
    std::vector<int64_t> sizes = sizes_of(axis);
    for (int64_t fills = 1; fills <= most_fills; ++fills) {
        const int64_t size = fills * array_rows / each;
        // one that leaves as much unused as its neighbours do is no better than they are
        const bool fills_well = (fills * array_rows - size * each) * 16 < fills * array_rows;
        if (size > 1 && size < axis.extent && fills_well) sizes.push_back(size);
    }
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
}

/// Parts of a sum are not cut below this where they fit: each one fills the array anew.
constexpr int64_t shortest_part = 32;
/// Iterations in flight: more of them hide the latency of memory, and keep the arrays of an engine busy.
constexpr int deepest = 8;
/// Limit of the choice: what closed forms say is so much slower than the fastest is no choice for those who
/// know more.
constexpr double hopeless = 1.3;

class Search {
  public:
    explicit Search(const TilingRequest& request) : request_(request), products_(request) {
        tiling_.tile.assign(request.op.axes.size(), 1);
        fixed_.tile.assign(request.op.axes.size(), 0);
        if (request.wish != nullptr) fixed_ = fix(request, *request.wish);
    }

    std::vector<Tiling> run() {
        if (!searched()) refuse();
        leave_hopeless(best_);
        if (request_.more) {
            add_deeper();
            add_alone();
            // what is fixed for this device need not fit to another one
            const bool fixed = request_.wish != nullptr && request_.wish->fixes_tiles();
            if (request_.smaller != nullptr && !fixed) add_of_smaller();
        }
        return std::move(best_);
    }

    /// Fills the lists; false: nothing fits.
    bool searched() {
        for (size_t a = 0; a < tiling_.tile.size(); ++a) {
            const Axis& axis = request_.op.axes[a];
            tiling_.tile[a] = fixed_.tile[a] != 0 ? fixed_.tile[a] : axis.single ? 1 : axis.extent;
            if (axis.single) continue;
            if (fixed_.tile[a] != 0) {
                if (!touches(a, fixed_.tile[a])) refuse_padding(a);
            } else if (axis.walk == Walk::sum) {
                sums_.push_back(a);
            } else if (axis.independent) {
                free_.push_back(a);
            } else if (!axis.whole) {
                rows_.push_back(a);
            }
        }
        find_turned();
        choose_sums(0);
        return !best_.empty();
    }

    /// Returns a tiling, and those that differ from it in one thing: iterations in flight, or tiles one or
    /// two sizes larger or smaller along an axis.
    std::vector<Tiling> around(const Tiling& from) {
        std::vector<Tiling> result{from};
        const bool parts = hoists_parts(from);
        const auto add = [&] {
            hoist(parts);
            if (legal_beside(from) && evaluate(request_, tiling_)) result.push_back(tiling_);
        };
        const auto most = static_cast<int>(std::min<int64_t>(iterations_of(from), deepest));
        for (int depth = std::min(2, most); depth <= most; ++depth) {
            tiling_ = from;
            tiling_.depth = depth;
            if (fixed_.depth == 0 && depth != from.depth) add();
        }
        for (size_t a = 0; a < from.tile.size(); ++a) {
            for (const int64_t size : next_sizes(a, from.tile[a])) {
                tiling_ = from;
                tiling_.tile[a] = size;
                if (fixed_.depth == 0)
                    tiling_.depth = static_cast<int>(std::min<int64_t>(from.depth, iterations_of(tiling_)));
                add();
                if (fixed_.depth == 0 && legal_beside(from) && deepen(tiling_.depth))
                    result.push_back(tiling_);
            }
        }
        return result;
    }

  private:
    bool hoists_parts(const Tiling& tiling) const {
        for (size_t i = 0; i < tiling.hoisted.size(); ++i) {
            if (tiling.hoisted[i] && tiling.parts(request_.op, i) > 1) return true;
        }
        return false;
    }

    /// True if it is legal and cuts its sum as `from` does, which decides about the type of its addend.
    bool legal_beside(const Tiling& from) const {
        for (size_t a = 0; a < tiling_.split.size(); ++a) {
            if (tiling_.split[a] > tiling_.tiles(request_.op, a)) return false;
        }
        return tiling_.cuts_sum(request_.op) == from.cuts_sum(request_.op) &&
               tiling_.depth <= iterations_of(tiling_);
    }

    int64_t iterations_of(const Tiling& tiling) const {
        int64_t iterations = 1;
        for (size_t a = 0; a < tiling.tile.size(); ++a) {
            if (request_.op.axes[a].walk == Walk::loop) iterations *= tiling.rounds(request_.op, a);
        }
        return iterations;
    }

    std::vector<int64_t> next_sizes(size_t a, int64_t size) const {
        constexpr std::ptrdiff_t far = 2;
        const Axis& axis = request_.op.axes[a];
        if (axis.whole || axis.single || fixed_.tile[a] != 0) return {};
        const std::vector<int64_t> sizes = axis.walk == Walk::sum ? halves_of(axis) : sizes_of(axis);
        const auto smaller = std::find_if(sizes.begin(), sizes.end(), [&](int64_t of) { return of < size; });
        std::vector<int64_t> result;
        for (auto at = smaller - std::min(far + 1, smaller - sizes.begin());
             at != smaller + std::min(far, sizes.end() - smaller); ++at) {
            if (*at != size && (axis.walk == Walk::sum || touches(a, *at))) result.push_back(*at);
        }
        return result;
    }

    bool touches(size_t axis, int64_t size) const {
        return compiler::touches(request_.graph, request_.op, axis, size);
    }

    // ---- tile sizes

    void choose_sums(size_t next) {
        if (next == sums_.size()) return choose_free(0);
        const size_t axis = sums_[next];
        for (const int64_t size : halves_of(request_.op.axes[axis])) {
            tiling_.tile[axis] = size;
            choose_sums(next + 1);
            if (!best_.empty() && size <= shortest_part) break;
        }
    }

    void choose_free(size_t next) {
        if (next == free_.size()) return choose_rows();
        for (const int64_t size : sizes_of(request_.op.axes[free_[next]])) {
            if (!touches(free_[next], size)) continue;
            tiling_.tile[free_[next]] = size;
            choose_free(next + 1);
        }
    }

    /// Outer rows are cut as far as they can be before an inner dimension is cut at all: those of the result, and where an
    /// input lies in another order in memory, those of that input.
    void choose_rows() {
        for (const size_t axis : rows_) tiling_.tile[axis] = request_.op.axes[axis].extent;
        choose_split();
        cut_rows(rows_);
        for (const std::vector<size_t>& order : turned_) cut_rows(order);
    }
    void cut_rows(const std::vector<size_t>& order) {
        int64_t each = 1;  // rows of the product, for one index of the axis
        for (const size_t axis : order) {
            tiling_.tile[axis] = request_.op.axes[axis].extent;
            each *= request_.op.axes[axis].extent;
        }
        for (const size_t axis : order) {
            const int64_t extent = request_.op.axes[axis].extent;
            each /= extent;
            int64_t smallest = extent;
            for (const int64_t size : row_sizes(axis, each)) {
                if (size == extent || !touches(axis, size)) continue;
                tiling_.tile[axis] = smallest = size;
                choose_split();
            }
            tiling_.tile[axis] = smallest;
            each *= smallest;
        }
    }
    /// The axes of rows in the order in which inputs have them in memory, where that is another one. Those along which an input
    /// is the same, as a mask for many heads, come last: a tile then has many of them.
    void find_turned() {
        for (size_t i = 0; i < request_.op.operands.size(); ++i) {
            const TileOperand& operand = request_.op.operands[i];
            const graph::Value& of = request_.graph.value(operand.value);
            if (operand.place != Place::input ||
                8 * packed_bytes(of.elem, of.elements()) < request_.arena_bytes)
                continue;
            std::vector<int64_t> strides(request_.op.axes.size(), 0);
            for (size_t d = 0; d < operand.windows.size(); ++d) {
                if (const int axis = operand.windows[d].axis; axis >= 0)
                    strides[static_cast<size_t>(axis)] = request_.strides[i][d];
            }
            std::vector<size_t> order = rows_;
            std::stable_sort(order.begin(), order.end(),
                             [&](size_t a, size_t b) { return strides[a] > strides[b]; });
            if (order != rows_ && std::find(turned_.begin(), turned_.end(), order) == turned_.end())
                turned_.push_back(std::move(order));
        }
    }
    std::vector<int64_t> row_sizes(size_t axis, int64_t each) const {
        const Axis& of = request_.op.axes[axis];
        const graph::Node& anchor = request_.graph.nodes[request_.op.nodes[request_.op.anchor].node];
        const bool window = anchor.spec().traits.needs == Needs::window;
        return window ? sizes_of_rows(of, each, request_.target.engines[0].array().rows()) : sizes_of(of);
    }

    // ---- engines, buffers

    /// Splits one or two axes over the engines.
    void choose_split() {
        const size_t axes = tiling_.tile.size();
        const auto engines = static_cast<int64_t>(request_.target.engines.size());
        tiling_.split.assign(axes, 1);
        if (!fixed_.split.empty()) {
            for (size_t a = 0; a < axes; ++a) {
                if (fixed_.split[a] > 1 &&
                    (!split(a, fixed_.split[a]) || tiling_.split[a] != fixed_.split[a]))
                    return;
            }
            return choose_hoisted();
        }
        choose_hoisted();  // one engine may be faster than several that share DRAM
        for (size_t a = 0; a < axes; ++a) {
            for (size_t b = a; b < axes; ++b) {
                for (int64_t across = 2; across <= engines; ++across) {
                    if (b == a && across < engines) continue;
                    tiling_.split.assign(axes, 1);
                    if (!split(b, across) || (b != a && !split(a, engines / across))) continue;
                    choose_hoisted();
                }
            }
        }
        tiling_.split.assign(axes, 1);
    }
    bool split(size_t axis, int64_t engines) {
        if (request_.op.axes[axis].walk == Walk::sum) return false;
        tiling_.split[axis] = std::min(engines, tiling_.tiles(request_.op, axis));
        return tiling_.split[axis] > 1;
    }

    /// Chooses what to load once: constants that all iterations read; parts of a sum only if that leaves
    /// room.
    void choose_hoisted() {
        work_ = {};
        const bool parts = hoist(true);
        choose_depth();
        if (!parts) return;
        hoist(false);
        choose_depth();
    }
    /// Marks what all iterations of the tiling read; `parts`: also parts of a sum. True if there are such.
    bool hoist(bool parts) {
        bool any = false;
        tiling_.hoisted.assign(request_.op.operands.size(), false);
        for (size_t i = 0; i < tiling_.hoisted.size(); ++i) {
            if (request_.op.operands[i].place != Place::input || tiling_.follows(request_.op, i, Walk::loop))
                continue;
            tiling_.hoisted[i] = true;
            const bool of_parts = tiling_.parts(request_.op, i) > 1;
            any = any || of_parts;
            if (of_parts) tiling_.hoisted[i] = parts;
        }
        return any;
    }

    void choose_depth() {
        const int64_t iterations = iterations_of(tiling_);
        if (fixed_.depth != 0) {
            tiling_.depth = fixed_.depth;
            if (fixed_.depth <= iterations) consider();
            return;
        }
        const auto most = static_cast<int>(std::min<int64_t>(iterations, deepest));
        double last = std::numeric_limits<double>::infinity();
        for (tiling_.depth = std::min(2, most); tiling_.depth <= most; ++tiling_.depth) {
            if (!consider() || tiling_.cycles >= last) return;
            last = tiling_.cycles;
        }
    }

    bool consider() {
        const bool fits = evaluate(request_, products_, tiling_, work_, worst_choice());
        least_ = std::min(least_, tiling_.l1_bytes());
        if (fits && request_.considered != nullptr) request_.considered->push_back(tiling_);
        if (!fits) return false;
        enter(best_);
        if (request_.target.engines.size() > 1 && tiling_.lanes() == 1) enter(alone_);
        return true;
    }

    /// Returns the cycles above which a tiling would not enter the lists, or would leave them at the end. All
    /// that fit are listed where someone wants to see them.
    double worst_choice() const {
        constexpr double none = std::numeric_limits<double>::infinity();
        if (request_.considered != nullptr) return none;
        const auto worst = [&](const std::vector<Tiling>& list) {
            if (list.empty()) return none;
            const double last = list.size() < request_.keep ? none : list.back().cycles;
            return std::min(last, hopeless * list.front().cycles);
        };
        const bool both = request_.target.engines.size() > 1 && tiling_.lanes() == 1;
        return both ? std::max(worst(best_), worst(alone_)) : worst(best_);
    }

    /// Enters the tiling after those that are as fast; of the same tiles on the same engines only the fastest
    /// stays.
    void enter(std::vector<Tiling>& list) const {
        const auto twin = std::find_if(list.begin(), list.end(), [&](const Tiling& of) { return same(of); });
        if (twin != list.end()) {
            if (tiling_.cycles >= twin->cycles) return;
            list.erase(twin);
        } else if (list.size() == request_.keep) {
            if (tiling_.cycles >= list.back().cycles) return;
            list.pop_back();
        }
        const auto slower = [&](const Tiling& of) { return of.cycles > tiling_.cycles; };
        list.insert(std::find_if(list.begin(), list.end(), slower), tiling_);
    }
    bool same(const Tiling& of) const { return of.tile == tiling_.tile && of.split == tiling_.split; }

    /// Adds the best few also with as many in flight as fit: closed forms see little of how long transfers
    /// wait for each other.
    void add_deeper() {
        constexpr size_t few = 6;
        for (size_t i = 0, count = std::min(few, best_.size()); i < count; ++i) {
            tiling_ = best_[i];
            if (fixed_.depth == 0 && deepen(best_[i].depth)) best_.push_back(tiling_);
        }
    }
    /// Raises the depth to the most iterations in flight that fit, more than so many.
    bool deepen(int than) {
        const auto most = static_cast<int>(std::min<int64_t>(iterations_of(tiling_), deepest));
        for (tiling_.depth = most; tiling_.depth > than; --tiling_.depth) {
            if (evaluate(request_, tiling_)) return true;
        }
        return false;
    }

    static void leave_hopeless(std::vector<Tiling>& list) {
        const auto slow = [&](const Tiling& of) { return of.cycles > hopeless * list.front().cycles; };
        list.erase(std::find_if(list.begin(), list.end(), slow), list.end());
    }

    /// Adds what a device of one engine would choose: closed forms know little of what engines cost each
    /// other.
    void add_alone() {
        leave_hopeless(alone_);
        for (Tiling& of : alone_) {
            tiling_ = std::move(of);
            if (std::none_of(best_.begin(), best_.end(), [&](const Tiling& known) { return same(known); }))
                best_.push_back(std::move(tiling_));
        }
    }

    /// Adds what a device with less of something chooses, which spares it: the more so where closed forms are
    /// wrong about its price here.
    void add_of_smaller() {
        for (const Target& smaller : *request_.smaller) {
            TilingRequest request{request_.graph, request_.op, smaller, request_.homes, request_.strides};
            request.arena_bytes =
                std::min(request_.arena_bytes, smaller.l1_bytes / 2 / tile_align * tile_align);
            request.staging_bytes = std::min(request_.staging_bytes, request.arena_bytes);
            request.spare_bytes = smaller.l2_bytes < request_.target.l2_bytes ? 0 : request_.spare_bytes;
            request.first = request_.first;
            request.wish = request_.wish;
            request.keep = request_.keep;
            Search search(request);
            search.searched();
            for (Tiling& of : search.best_) {
                tiling_ = std::move(of);
                const auto known = [&](const Tiling& other) { return other.same_mapping(tiling_); };
                if (std::none_of(best_.begin(), best_.end(), known) && evaluate(request_, tiling_))
                    best_.push_back(tiling_);
            }
        }
    }

    [[noreturn]] void refuse_padding(size_t axis) const {
        throw UserError(fmt::format(
            "{} ({}): the mapping that is fixed for it is illegal: with tiles of {} along `{}` "
            "one lies in the "
            "padding alone, or the last is too small. Fix: choose another size.",
            request_.op.name, request_.op.source.type, fixed_.tile[axis], request_.op.axes[axis].name));
    }

    [[noreturn]] void refuse() const {
        if (least_ == std::numeric_limits<uint64_t>::max()) {
            throw UserError(fmt::format(
                "{} ({}): the mapping that is fixed for it is illegal: there are fewer tiles than "
                "engines or iterations in flight. Fix: give fewer of them, or smaller tiles.",
                request_.op.name, request_.op.source.type));
        }
        if (request_.wish != nullptr && request_.wish->fixes_tiles()) {
            throw UserError(
                fmt::format("{} ({}): SRAM memory exceeded: {} bytes required, {} bytes available for the "
                            "tiles that are fixed for it. Fix: give smaller tiles or fewer in flight.",
                            request_.op.name, request_.op.source.type, least_, 2 * request_.arena_bytes));
        }
        if (least_ <= 2 * request_.arena_bytes)
            throw UserError(
                fmt::format("{} ({}): SRAM memory exceeded: its smallest tiles fit L1, but not the {} bytes "
                            "of L2 in which "
                            "they stand on their way from DRAM. Fix: choose a device with a larger L2 "
                            "(--set l2.size_bytes=N) or fewer engines, or make the operation smaller.",
                            request_.op.name, request_.op.source.type, 2 * request_.staging_bytes));
        throw UserError(fmt::format(
            "{} ({}): SRAM memory exceeded: {} bytes required, {} bytes available for its smallest tiles. "
            "Fix: choose a "
            "device with a larger L1 (--set engine.l1.size_bytes=N), or make the operation smaller.",
            request_.op.name, request_.op.source.type, least_, 2 * request_.arena_bytes));
    }

    const TilingRequest& request_;
    const ProductTimes products_;
    FixedTiling fixed_;
    Tiling tiling_;
    TileWork work_;  ///< work of its tiles on its engines
    std::vector<size_t> sums_, free_, rows_;
    std::vector<std::vector<size_t>> turned_;  ///< rows_ in other orders
    std::vector<Tiling> best_;                 ///< the fastest first
    std::vector<Tiling> alone_;                ///< the fastest on one of several engines
    uint64_t least_ = std::numeric_limits<uint64_t>::max();
};

}  // namespace

std::vector<Tiling> tilings_around(const TilingRequest& request, const Tiling& from) {
    return Search(request).around(from);
}

std::vector<Tiling> fastest_tilings(const TilingRequest& request) {
    const auto search = [&] { return Search(request).run(); };
    const bool fixed = request.wish != nullptr && request.wish->fixes_tiles();
    if (fixed || request.considered != nullptr || request.searches == nullptr) return search();
    return request.searches->find(content_of(request), search);
}

}  // namespace kpu::compiler
