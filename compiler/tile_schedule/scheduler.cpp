#include "compiler/tile_schedule/scheduler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/tile_schedule/check.hpp"
#include "compiler/tile_schedule/form_parts.hpp"
#include "compiler/tile_schedule/tile_cache.hpp"

namespace kpu::tile_schedule {
namespace {

constexpr uint64_t most_work = 2'000'000;       ///< accesses looked at to choose among blocks
constexpr uint64_t most_products = 16'000'000;  ///< EXECUTEs of one product

/// Nodes that become one set of ops: y = relu(a . b + addend), or y = relu(x).
struct Fused {
    const Tensor* a = nullptr;
    const Tensor* b = nullptr;
    const Tensor* addend = nullptr;
    const Tensor* x = nullptr;
    bool relu = false;
    const Tensor* y = nullptr;
    std::vector<size_t> nodes;
};

// ---- the graph

class Fuser {
  public:
    Fuser(const Graph& graph, const Header& header) : graph_(graph), header_(header) {
        for (const Tensor& tensor : header.tensors) tensors_[tensor.name] = &tensor;
    }

    std::vector<Fused> run() {
        into_.resize(graph_.nodes.size());
        for (at_ = 0; at_ < graph_.nodes.size(); ++at_) check(graph_.nodes[at_]);
        for (at_ = 0; at_ < graph_.nodes.size(); ++at_) find_producer_to_fuse();
        std::vector<Fused> all;
        for (at_ = 0; at_ < graph_.nodes.size(); ++at_) {
            if (!is_fused_away(at_)) all.push_back(fused(at_));
        }
        return all;
    }

  private:
    [[noreturn]] void fail(const std::string& why) const {
        const Node& node = graph_.nodes[at_];
        throw UserError(fmt::format("node {}, {} -> `{}`: {}", at_, name_of(node.kind), node.output, why));
    }

    const Tensor* tensor(const std::string& name) const {
        const auto found = tensors_.find(name);
        if (found == tensors_.end())
            fail(fmt::format("there is no tensor `{}`. Fix: add it to the graph.", name));
        return found->second;
    }

    void check(const Node& node) {
        const size_t wanted = node.kind == Node::Kind::relu ? 1 : 2;
        if (node.inputs.size() != wanted)
            fail(fmt::format("it has {} inputs, and takes {}.", node.inputs.size(), wanted));
        const Tensor* y = tensor(node.output);
        for (const std::string& name : node.inputs) {
            const Tensor* x = tensor(name);
            ++uses_[name];
            const bool made = producer_.count(name) != 0;
            if (!made && (x->role == Role::intermediate || x->role == Role::output))
                fail(fmt::format(
                    "nothing before it computes `{}`. Fix: order the nodes, or declare it as input.", name));
        }
        if (y->role == Role::input || y->role == Role::weight)
            fail(fmt::format("`{}` is an {}. Fix: compute an intermediate or an output.", node.output,
                             name_of(y->role)));
        if (!producer_.emplace(node.output, at_).second) fail("another node computes it already.");
        check_shapes(node, *y);
    }

    void check_shapes(const Node& node, const Tensor& y) const {
        const Tensor& first = *tensor(node.inputs[0]);
        const auto shape = [](const Tensor& t) { return fmt::format("`{}` {}x{}", t.name, t.rows, t.cols); };
        bool fits = first.rows == y.rows && first.cols == y.cols;
        std::string shapes = shape(first);
        if (node.kind != Node::Kind::relu) {
            const Tensor& second = *tensor(node.inputs[1]);
            shapes += " and " + shape(second);
            fits = node.kind == Node::Kind::add
                       ? fits && second.rows == y.rows && second.cols == y.cols
                       : first.rows == y.rows && first.cols == second.rows && second.cols == y.cols;
        }
        if (!fits) fail(fmt::format("the shapes of {} do not fit {}.", shapes, shape(y)));
    }

    /// Returns the node that makes a tensor which nothing but the present node needs.
    std::optional<size_t> only_producer(const std::string& name) const {
        const auto found = producer_.find(name);
        if (found == producer_.end() || uses_.at(name) != 1 || tensor(name)->role != Role::intermediate)
            return std::nullopt;
        return found->second;
    }

    void find_producer_to_fuse() {
        const Node& node = graph_.nodes[at_];
        if (node.kind == Node::Kind::matmul) return;
        for (size_t i = 0; i < node.inputs.size(); ++i) {
            const auto producer = only_producer(node.inputs[i]);
            if (!producer) continue;
            const Node::Kind kind = graph_.nodes[*producer].kind;
            const bool sum = kind == Node::Kind::add && node.kind == Node::Kind::relu;
            if (kind != Node::Kind::matmul && !sum) continue;
            into_[at_] = Source{*producer, i};
            return;
        }
    }

    bool is_fused_away(size_t node) const {
        return std::any_of(into_.begin(), into_.end(),
                           [&](const auto& source) { return source && source->node == node; });
    }

    Fused fused(size_t at) {
        const Node& node = graph_.nodes[at];
        Fused result;
        if (node.kind == Node::Kind::matmul) {
            result.a = tensor(node.inputs[0]);
            result.b = tensor(node.inputs[1]);
        } else if (into_[at]) {
            result = fused(into_[at]->node);
        }
        if (node.kind == Node::Kind::relu) {
            if (!into_[at]) result.x = tensor(node.inputs[0]);
            result.relu = true;
        } else if (node.kind == Node::Kind::add) {
            if (!into_[at])
                fail(
                    "no op of a schedule adds two tensors: an Add must follow a MatMul whose result nothing "
                    "else "
                    "needs. Fix: keep the result of one MatMul for this Add alone.");
            result.addend = tensor(node.inputs[1 - into_[at]->input]);
        }
        check_types(result);
        result.y = tensor(node.output);
        result.nodes.push_back(at);
        return result;
    }

    /// A LOAD brings operands; as accumulators they can be taken only where both have one type.
    void check_types(const Fused& fused) const {
        const Format& format = header_.format;
        if ((fused.x != nullptr || fused.addend != nullptr) && format.elem != format.acc_elem())
            fail(fmt::format(
                "a loaded {} tile is not an accumulator, which is {}: {}. Fix: use f32 tiles, or {}.",
                name_of(format.elem), name_of(format.acc_elem()),
                fused.x != nullptr ? "a ReLU of its own cannot be stored" : "nothing can be added to it",
                fused.x != nullptr ? "a ReLU that follows a MatMul" : "leave out the Add"));
    }

    struct Source {
        size_t node, input;
    };
    const Graph& graph_;
    const Header& header_;
    std::map<std::string, const Tensor*> tensors_;
    std::map<std::string, size_t> producer_;
    std::map<std::string, size_t> uses_;
    std::vector<std::optional<Source>> into_;  ///< for each node: the node it continues
    size_t at_ = 0;
};

// ---- one product

struct Extent {
    uint32_t m = 0, n = 0, k = 0;  ///< tiles
};

/// Accumulators of a block, the order of blocks, and what is kept free.
struct Choice {
    uint32_t block_m = 1, block_n = 1;
    bool rows_outer = true;
    uint64_t accumulators = 0, operands = 0, capacity = 0;  ///< slots; operand tiles kept at most
    uint64_t spare = 0;
};

template <class Visit>
void visit_block(const Extent& tiles, const Choice& choice, uint32_t row, uint32_t col, const Visit& visit) {
    const uint32_t rows = std::min(choice.block_m, tiles.m - row),
                   cols = std::min(choice.block_n, tiles.n - col);
    for (uint32_t k = 0; k < tiles.k; ++k) {
        // the shorter side stays for the whole step, the other one streams by
        if (rows >= cols) {
            for (uint32_t i = 0; i < rows; ++i)
                for (uint32_t j = 0; j < cols; ++j) visit(row + i, col + j, k);
        } else {
            for (uint32_t j = 0; j < cols; ++j)
                for (uint32_t i = 0; i < rows; ++i) visit(row + i, col + j, k);
        }
    }
}

/// Calls visit(m, n, k) for every EXECUTE in order.
template <class Visit>
void visit_product(const Extent& tiles, const Choice& choice, const Visit& visit) {
    if (choice.rows_outer) {
        for (uint32_t row = 0; row < tiles.m; row += choice.block_m)
            for (uint32_t col = 0; col < tiles.n; col += choice.block_n)
                visit_block(tiles, choice, row, col, visit);
    } else {
        for (uint32_t col = 0; col < tiles.n; col += choice.block_n)
            for (uint32_t row = 0; row < tiles.m; row += choice.block_m)
                visit_block(tiles, choice, row, col, visit);
    }
}

class ProductPlanner {
  public:
    ProductPlanner(const Extent& tiles, uint64_t operand_slot, uint64_t acc_slot, uint64_t arena_bytes)
        : tiles_(tiles), operand_slot_(operand_slot), acc_slot_(acc_slot), arena_bytes_(arena_bytes) {}

    /// Returns the feasible choice with the fewest loads; of equals the one that leaves more room. Room for
    /// the next load may cost one load in eight.
    Choice best() const {
        const auto [roomy, roomy_loads] = fewest_loads({2, 1});
        const auto [full, full_loads] = fewest_loads({0});
        if (roomy && roomy_loads <= full_loads + full_loads / 8) return *roomy;
        if (full) return *full;
        throw UserError(
            fmt::format("an arena of {} bytes does not hold two operand tiles and an accumulator, {} bytes. "
                        "Fix: give it more.",
                        arena_bytes_, 2 * operand_slot_ + acc_slot_));
    }

    std::vector<uint32_t> accesses(const Choice& choice) const {
        std::vector<uint32_t> list;
        list.reserve(size_t{2} * tiles_.m * tiles_.n * tiles_.k);
        visit_product(tiles_, choice, [&](uint32_t m, uint32_t n, uint32_t k) {
            list.push_back(a_tile(m, k));
            list.push_back(b_tile(k, n));
        });
        return list;
    }
    uint32_t a_tile(uint32_t m, uint32_t k) const { return m * tiles_.k + k; }
    uint32_t b_tile(uint32_t k, uint32_t n) const { return tiles_.m * tiles_.k + k * tiles_.n + n; }
    uint32_t tile_count() const { return tiles_.m * tiles_.k + tiles_.k * tiles_.n; }

  private:
    /// Adds for each width of a block its greatest height.
    void add_blocks(uint64_t spare, std::vector<Choice>& choices) const {
        for (uint32_t n = 1; n <= tiles_.n; ++n) {
            for (uint32_t m = tiles_.m; m > 0; m = m > 64 ? m / 2 : m - 1) {
                Choice choice;
                choice.block_m = m;
                choice.block_n = n;
                choice.spare = spare;
                if (!fits(choice)) continue;
                choices.push_back(choice);
                choice.rows_outer = false;
                choices.push_back(choice);
                break;
            }
            Choice narrow;
            narrow.block_n = n;
            narrow.spare = spare;
            if (!fits(narrow)) break;
            choices.push_back(narrow);
        }
    }

    bool fits(Choice& choice) const {
        const uint64_t block = uint64_t{choice.block_m} * choice.block_n;
        choice.accumulators = block + (choice.spare > 0 ? 1 : 0);
        if (choice.accumulators * acc_slot_ > arena_bytes_) return false;
        choice.operands = std::min<uint64_t>((arena_bytes_ - choice.accumulators * acc_slot_) / operand_slot_,
                                             tile_count() + choice.spare);
        const uint64_t needed = std::min(choice.block_m, choice.block_n) + 1;
        if (choice.operands < needed + choice.spare) return false;
        choice.capacity = choice.operands - choice.spare;
        return true;
    }

    /// Loads when nothing is kept from block to block.
    uint64_t estimate(const Choice& choice) const {
        const uint64_t rows = (tiles_.m + choice.block_m - 1) / choice.block_m,
                       cols = (tiles_.n + choice.block_n - 1) / choice.block_n;
        return tiles_.k * (cols * tiles_.m + rows * tiles_.n);
    }

    std::pair<std::optional<Choice>, uint64_t> fewest_loads(std::initializer_list<uint64_t> spares) const {
        std::vector<Choice> choices;
        for (const uint64_t spare : spares) add_blocks(spare, choices);
        std::stable_sort(choices.begin(), choices.end(),
                         [&](const Choice& a, const Choice& b) { return estimate(a) < estimate(b); });
        const uint64_t work = std::max<uint64_t>(1, uint64_t{2} * tiles_.m * tiles_.n * tiles_.k);
        choices.resize(std::min<size_t>(choices.size(), std::max<uint64_t>(1, most_work / work)));
        std::optional<Choice> best;
        uint64_t fewest = UINT64_MAX / 2;
        for (const Choice& choice : choices) {
            const uint64_t loads = count_loads(choice);
            if (loads > fewest || (loads == fewest && choice.spare <= best->spare)) continue;
            best = choice;
            fewest = loads;
        }
        return {best, fewest};
    }

    uint64_t count_loads(const Choice& choice) const {
        const std::vector<uint32_t> list = accesses(choice);
        TileCache cache(list, tile_count(), choice.capacity);
        uint64_t loads = 0;
        const auto ignore = [](uint32_t) {};
        for (size_t i = 0; i < list.size(); ++i) cache.access(ignore, [&](uint32_t) { ++loads; });
        return loads;
    }

    Extent tiles_;
    uint64_t operand_slot_, acc_slot_, arena_bytes_;
};

// ---- ops

class Emitter {
  public:
    Emitter(Schedule& schedule, uint64_t arena_bytes)
        : schedule_(schedule),
          format_(schedule.header.format),
          arena_bytes_(arena_bytes),
          operand_slot_(aligned(format_.operand_bytes())),
          acc_slot_(aligned(format_.acc_bytes())) {}

    void emit(const Fused& fused) {
        if (fused.x != nullptr) {
            emit_relu(fused);
        } else {
            emit_product(fused);
        }
    }

    /// Returns the loads of tiles that are no operands: addends, and what a ReLU takes.
    uint64_t other_loads() const { return other_loads_; }

  private:
    static uint64_t aligned(uint64_t bytes) {
        return (bytes + address_align - 1) / address_align * address_align;
    }

    void load(const Tensor& tensor, uint32_t row, uint32_t col, uint32_t address) {
        schedule_.ops.push_back(Load{tensor.id, row, col, address, format_.operand_bytes(), -1});
    }
    void store(const Fused& fused, uint32_t row, uint32_t col, uint32_t address) {
        schedule_.ops.push_back(Store{fused.y->id, row, col, address, format_.acc_bytes(),
                                      fused.relu ? Activation::relu : Activation::none, -1});
    }

    void emit_relu(const Fused& fused) {
        const auto rows = static_cast<uint32_t>(fused.x->tile_rows(format_.tile)),
                   cols = static_cast<uint32_t>(fused.x->tile_cols(format_.tile));
        const uint64_t slots = std::min<uint64_t>(arena_bytes_ / acc_slot_, 8);
        if (slots == 0)
            throw UserError(fmt::format("an arena of {} bytes does not hold a tile.", arena_bytes_));
        SlotQueue queue(0, acc_slot_, slots);
        for (uint32_t r = 0; r < rows; ++r) {
            for (uint32_t c = 0; c < cols; ++c) {
                const uint32_t address = queue.take();
                load(*fused.x, r, c, address);
                ++other_loads_;
                store(fused, r, c, address);
                queue.give(address);
            }
        }
    }

    void emit_product(const Fused& fused) {
        const Extent tiles{static_cast<uint32_t>(fused.a->tile_rows(format_.tile)),
                           static_cast<uint32_t>(fused.b->tile_cols(format_.tile)),
                           static_cast<uint32_t>(fused.a->tile_cols(format_.tile))};
        if (uint64_t{tiles.m} * tiles.n > most_products / tiles.k)
            throw UserError(fmt::format("the product for `{}` takes more than {} EXECUTEs. Fix: split it.",
                                        fused.y->name, most_products));
        const ProductPlanner planner(tiles, operand_slot_, acc_slot_, arena_bytes_);
        const Choice choice = planner.best();
        const std::vector<uint32_t> accesses = planner.accesses(choice);
        TileCache cache(accesses, planner.tile_count(), choice.capacity);
        SlotQueue sums(0, acc_slot_, choice.accumulators);
        SlotQueue operands(choice.accumulators * acc_slot_, operand_slot_, choice.operands);
        std::vector<uint32_t> slot_of(planner.tile_count());
        std::map<std::pair<uint32_t, uint32_t>, uint32_t> sum_of;
        const auto drop = [&](uint32_t tile) { operands.give(slot_of[tile]); };
        visit_product(tiles, choice, [&](uint32_t m, uint32_t n, uint32_t k) {
            cache.access(drop, [&](uint32_t tile) { load(*fused.a, m, k, slot_of[tile] = operands.take()); });
            cache.access(drop, [&](uint32_t tile) { load(*fused.b, k, n, slot_of[tile] = operands.take()); });
            if (k == 0) {
                sum_of[{m, n}] = sums.take();
                if (fused.addend != nullptr) {
                    load(*fused.addend, m, n, sum_of[{m, n}]);
                    ++other_loads_;
                }
            }
            const uint32_t sum = sum_of[{m, n}];
            // k = 0 would clear the addend
            schedule_.ops.push_back(Execute{m, n, fused.addend != nullptr ? k + 1 : k,
                                            slot_of[planner.a_tile(m, k)], slot_of[planner.b_tile(k, n)], sum,
                                            -1});
            cache.drop_dead(drop);
            if (k + 1 < tiles.k) return;
            store(fused, m, n, sum);
            sums.give(sum);
            sum_of.erase({m, n});
        });
    }

    Schedule& schedule_;
    const Format& format_;
    uint64_t arena_bytes_, operand_slot_, acc_slot_;
    uint64_t other_loads_ = 0;
};

/// Sets the tensors of a graph, with ids.
void set_header(Header& target, const Graph& graph, const Format& format) {
    HeaderBuilder header(target);
    std::string why = header.set_tile(format.tile, format.elem);
    target.format.arena = format.arena;
    for (size_t i = 0; i < graph.tensors.size() && why.empty(); ++i) {
        Tensor tensor = graph.tensors[i];
        tensor.id = static_cast<uint32_t>(i);
        if (tensor.role == Role::any)
            why = fmt::format("tensor `{}` has no role. Fix: input, weight, intermediate or output.",
                              tensor.name);
        if (why.empty()) why = header.add(std::move(tensor));
    }
    if (!why.empty()) throw UserError(why);
}

}  // namespace

std::string_view name_of(Node::Kind kind) {
    static constexpr std::string_view names[] = {"MatMul", "ReLU", "Add"};
    return names[static_cast<size_t>(kind)];
}

std::vector<FusedNodes> fuse_nodes(const Graph& graph, const Format& format) {
    Header header;
    set_header(header, graph, format);
    std::vector<FusedNodes> all;
    for (const Fused& fused : Fuser(graph, header).run()) {
        const uint32_t tile = header.format.tile;
        all.push_back({fused.nodes, static_cast<uint32_t>(fused.y->tile_rows(tile)),
                       static_cast<uint32_t>(fused.y->tile_cols(tile)),
                       fused.a == nullptr ? 0 : static_cast<uint32_t>(fused.a->tile_cols(tile))});
    }
    return all;
}

Schedule schedule_graph(const Graph& graph, const Format& format, uint64_t arena_bytes,
                        SchedulerReport* report) {
    Schedule schedule;
    schedule.origin = "graph";
    schedule.has_header = true;
    set_header(schedule.header, graph, format);
    const uint64_t reachable = std::min<uint64_t>(arena_bytes, uint64_t{1} << 32);
    Emitter emitter(schedule, reachable);
    for (const Fused& fused : Fuser(graph, schedule.header).run()) emitter.emit(fused);
    AnalysisOptions options;
    options.arena_bytes = reachable;
    const Analysis analysis = analyse(schedule, options);
    require_legal(analysis, schedule);  // types of tensors, scales
    if (report != nullptr) {
        *report = {analysis.loads, analysis.executes, analysis.stores,
                   2 * analysis.executes + emitter.other_loads(), analysis.peak_bytes};
    }
    return schedule;
}

}  // namespace kpu::tile_schedule
