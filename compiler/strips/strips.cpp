#include "compiler/strips/strips.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/diagnostics.hpp"
#include "compiler/mapping/tiling.hpp"
#include "compiler/plan/plan.hpp"
#include "compiler/strips/chains.hpp"
#include "compiler/strips/cut_chain.hpp"

namespace kpu::compiler {

using graph::Graph;
using graph::Node;
using graph::ValueId;

namespace {

constexpr size_t longest_chain = 48;
constexpr uint64_t least_saving = 64 << 10;  ///< bytes of DRAM
constexpr int64_t numbers[] = {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64};

uint64_t bytes_of(const graph::Value& value) { return packed_bytes(value.elem, value.elements()); }

/// A graph and where its tensors live when it is lowered as it is.
struct Planned {
    Graph graph;
    MemoryPlan memory;

    /// Homes that are wished are those of the graph that is lowered in the end.
    Planned(const Graph& of, const Room& room) : graph(of) {
        insert_copies(graph);
        memory = plan_memory(graph, groups_of(graph), room, {});
    }
    const Storage& storage(ValueId id) const { return memory.storages[memory.views[id].storage]; }

    uint64_t traffic() const { return ddr_traffic(graph, memory); }
    bool in_ddr(ValueId id) const {
        if (graph.value(id).constant()) return true;
        if (memory.internal[id]) return false;
        return storage(id).home != Home::l2;
    }
};

bool multiplies_activations(const Graph& graph, const Node& node) {
    return node.spec().traits.needs == Needs::matrix && !graph.value(node.inputs[1]).constant();
}

bool has_scores_in_ddr(const Planned& planned) {
    const std::vector<Node>& nodes = planned.graph.nodes;
    return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
        return multiplies_activations(planned.graph, node) && planned.in_ddr(node.inputs[0]);
    });
}

/// Room of a chain's strips in L2, beside the tensors that live there when nothing is cut.
struct Limits {
    uint64_t l2_bytes = 0;
    /// Number of parts that products of activations are cut into, along their batches, in place of strips
    /// that fit: strips of parts may fit.
    int64_t parts = 0;
};

class Planner {
  public:
    Planner(const Steps& steps, const Planned& planned, const MappingWishes& wishes,
            const std::set<std::string>& left_out, const Limits& limits)
        : steps_(steps), planned_(planned), wishes_(wishes), left_out_(left_out), limits_(limits) {}

    /// Chains that do not overlap, in order, with the greatest saving of all such sets.
    std::vector<Chain> best() {
        const size_t count = steps_.all().size();
        std::vector<double> most(count + 1, 0);
        std::vector<std::optional<Chain>> ends(count + 1);
        for (size_t last = 0; last < count; ++last) {
            most[last + 1] = most[last];
            const ValueId result = steps_.made(last).at(0);
            const Dims shape = shape_of(steps_.graph().value(result));
            const size_t dims = limits_.parts == 0 ? shape.rank : std::max<size_t>(shape.rank, 2) - 2;
            for (size_t dim = 0; dim < dims; ++dim) {
                if (shape[dim] < 2) continue;
                ChainGrower grower(steps_, last, dim);
                while (grower.chain().strands.size() < longest_chain && grower.grow()) {
                    const Chain& chain = grower.chain();
                    if (steps_.all()[chain.first].renames) continue;
                    if (refused(chain.first)) break;
                    const double possible = saving(chain) + most[chain.first];
                    if (possible <= most[last + 1]) continue;
                    std::optional<Chain> found = smallest_cut(chain);
                    if (!found) continue;
                    const double saved = saving(*found) - again(*found) + most[chain.first];
                    if (saved <= most[last + 1] + double(least_saving)) continue;
                    most[last + 1] = saved;
                    ends[last + 1] = std::move(found);
                }
            }
        }
        std::vector<Chain> result;
        for (size_t end = count; end > 0;) {
            if (!ends[end] || most[end] == most[end - 1]) {
                --end;
                continue;
            }
            result.push_back(*ends[end]);
            end = ends[end]->first;
        }
        std::reverse(result.begin(), result.end());
        return result;
    }

  private:
    const graph::Value& value(ValueId id) const { return steps_.graph().value(id); }
    const Node& view(size_t step) const { return steps_.graph().nodes[steps_.all()[step].nodes.first]; }
    bool joins(size_t step) const { return compiler::joins(view(step)); }

    /// Strips that the user wants of a step; 0: it is open. Tiles and homes that are fixed are those of a whole.
    int64_t wished(size_t step) const {
        if (steps_.all()[step].renames) return 0;
        const std::string& name = steps_.all()[step].nodes.name;
        if (left_out_.count(name) > 0) return 1;
        const MappingWish wish = wishes_.of(name);
        return wish.strips.value_or(wish.fixes_tiles() || wish.output ? 1 : 0);
    }
    bool refused(size_t step) const { return wished(step) == 1; }

    // ---- what a chain saves

    /// Returns how often the bytes of a value are read, by steps of the chain; nothing: some view of them is
    /// kept whole.
    std::optional<double> times_read(const Chain& chain, ValueId id) const {
        double times = 0;
        if (chain.leaves.at(id)) return std::nullopt;
        for (const size_t reader : steps_.readers(id)) {
            if (!steps_.all()[reader].renames) {
                times += 1;
                continue;
            }
            for (const ValueId output : steps_.made(reader)) {
                const std::optional<double> again = times_read(chain, output);
                if (!again) return std::nullopt;
                times +=
                    *again * std::min(1.0, double(bytes_of(value(output))) / double(bytes_of(value(id))));
            }
        }
        return times;
    }

    /// Returns the bytes that need not go through DDR.
    double saving(const Chain& chain) const {
        double saved = 0;
        for (const auto& [id, dim] : chain.dims) {
            if (planned_.storage(id).home == Home::l2 || planned_.storage(id).output) continue;
            if (steps_.all()[static_cast<size_t>(steps_.maker(id))].renames) continue;
            if (const std::optional<double> times = times_read(chain, id))
                saved += double(bytes_of(value(id))) * (1 + *times);
        }
        for (size_t step = chain.first; step <= chain.last; ++step)
            saved += wished(step) > 1 ? 1e15 : 0;  // it is what the user wants
        return saved;
    }

    /// Returns the bytes that each strip reads again: weights, and what it needs whole.
    double again(const Chain& chain) const {
        double bytes = 0;
        for (size_t step = chain.first; step <= chain.last; ++step) {
            const Strand& strand = chain.strands[chain.last - step];
            for (const ValueId id : steps_.read(step)) {
                const bool inside = chain.dims.count(id) > 0 || strand.inputs.count(id) > 0;
                if (!inside && planned_.in_ddr(id) && chain.held.count(id) == 0)
                    bytes += double(bytes_of(value(id)));
            }
        }
        return bytes * double(chain.strips - 1);
    }

    // ---- room

    std::optional<Chain> smallest_cut(const Chain& chain) const {
        int64_t only = 0;
        for (size_t step = chain.first; step <= chain.last; ++step) {
            if (wished(step) == 0) continue;
            if (only > 0 && wished(step) != only) return std::nullopt;
            only = wished(step);
        }
        Chain result = chain;
        if (limits_.parts > 0) {
            const bool whole = only == 0 && products_of_activations(chain) > 1;
            return whole && cut(steps_, result, limits_.parts) ? std::optional(result) : std::nullopt;
        }
        if (only > 1) return cut(steps_, result, only) ? std::optional(result) : std::nullopt;
        const uint64_t others = beside(chain);
        if (others >= limits_.l2_bytes) return std::nullopt;
        const std::map<ValueId, size_t> given = given_whole(chain);
        uint64_t held = 0;
        for (const auto& [id, step] : given) held += align_up(bytes_of(value(id)));
        for (const bool hold : {true, false}) {
            if (hold && given.empty()) continue;
            for (const int64_t strips : numbers) {
                if (!cut(steps_, result, strips)) break;
                if (others + peak(result) + (hold ? held : 0) > limits_.l2_bytes) continue;
                if (hold) result.held = given;
                return result;
            }
        }
        return std::nullopt;
    }

    /// Returns what each strip reads all of, and the host gives or gets: it lives in DRAM. With the first
    /// step that reads it.
    std::map<ValueId, size_t> given_whole(const Chain& chain) const {
        std::map<ValueId, size_t> result;
        for (size_t step = chain.first; step <= chain.last; ++step) {
            const Strand& strand = chain.strands[chain.last - step];
            for (const ValueId id : steps_.read(step)) {
                if (value(id).constant() || chain.dims.count(id) > 0 || strand.inputs.count(id) > 0) continue;
                const Storage& storage = planned_.storage(id);
                if (storage.input || storage.output) result.emplace(id, step);
            }
        }
        return result;
    }

    size_t products_of_activations(const Chain& chain) const {
        size_t count = 0;
        for (size_t step = chain.first; step <= chain.last; ++step)
            count += multiplies_activations(steps_.graph(), view(step)) ? 1 : 0;
        return count;
    }

    /// Returns the bytes of tensors that stand in L2 as a whole while the chain is worked off.
    uint64_t beside(const Chain& chain) const {
        const std::vector<NodeRange>& groups = planned_.memory.groups;
        // groups of the planned graph have copies between them: compare by what lives there
        uint32_t first = static_cast<uint32_t>(groups.size()), last = 0;
        std::vector<bool> own(planned_.memory.storages.size(), false);
        for (const auto& [id, dim] : chain.dims) {
            const Storage& storage = planned_.storage(id);
            first = std::min(first, storage.first);
            if (chain.leaves.at(id)) continue;
            own[planned_.memory.views[id].storage] = true;
            last = std::max(last, storage.last);
        }
        for (const auto& [id, leaves] : chain.leaves) {
            if (leaves) own[planned_.memory.views[id].storage] = false;
        }
        uint64_t bytes = 0;
        for (size_t s = 0; s < own.size(); ++s) {
            const Storage& storage = planned_.memory.storages[s];
            const bool alive = storage.first <= last && first <= storage.last;
            if (alive && !own[s] && storage.home == Home::l2 && !storage.input && !storage.output)
                bytes += align_up(storage.bytes);
        }
        return bytes;
    }

    /// Returns the last step of the chain that reads a value's bytes.
    size_t last_use(const Chain& chain, ValueId id) const {
        size_t last = static_cast<size_t>(steps_.maker(id));
        for (const size_t reader : steps_.readers(id)) {
            if (reader > chain.last) continue;
            last = std::max(last, reader);
            if (!steps_.all()[reader].renames) continue;
            for (const ValueId output : steps_.made(reader)) last = std::max(last, last_use(chain, output));
        }
        return last;
    }

    /// Returns the most bytes that strips of tensors, and the rows that the next strip needs too, take at a
    /// time.
    uint64_t peak(const Chain& chain) const {
        std::vector<uint64_t> live(chain.strands.size() + 1, 0);
        uint64_t tails = 0;
        for (const auto& [id, needed] : chain.needed) {
            const auto step = static_cast<size_t>(steps_.maker(id));
            if (chain.leaves.at(id) || (steps_.all()[step].renames && !joins(step))) continue;
            const uint64_t row =
                bytes_of(value(id)) / static_cast<uint64_t>(shape_of(value(id))[chain.dims.at(id)]) + 1;
            int64_t most = 0, tail = 0;
            for (size_t s = 0; s < needed.size(); ++s) {
                most = std::max(most, needed[s].count());
                if (s > 0) tail = std::max(tail, needed[s - 1].hi - needed[s].lo);
            }
            tails += tail > 0 ? align_up(row * static_cast<uint64_t>(tail)) : 0;
            for (size_t at = step; at <= last_use(chain, id); ++at)
                live[at - chain.first] += align_up(row * static_cast<uint64_t>(most));
        }
        return tails + *std::max_element(live.begin(), live.end());
    }

    const Steps& steps_;
    const Planned& planned_;
    const MappingWishes& wishes_;
    const std::set<std::string>& left_out_;
    Limits limits_;
};

std::set<std::string> operations_of(const Steps& steps, const Chain& chain) {
    std::set<std::string> names;
    for (size_t step = chain.first; step <= chain.last; ++step) {
        if (!steps.all()[step].renames) names.insert(steps.all()[step].nodes.name);
    }
    return names;
}

void check_wishes(const Graph& graph, const MappingWishes& wishes) {
    for (const NodeRange& group : groups_of(graph).ranges) {
        const Node& node = graph.nodes[group.first];
        const int64_t wished = wishes.of(group.name).strips.value_or(1);
        if (wished <= 1 || wished == node.strips) continue;
        throw UserError(
            fmt::format("{} ({}): the mapping that is fixed for it is illegal: it cannot be cut into {} "
                        "strips together with "
                        "its neighbours. Fix: choose fewer, or leave it open.",
                        group.name, node.source.type, wished));
    }
}

/// Moves nodes that only rename bytes right after what they rename, so that none of them is in the midst of a
/// chain that reads it whole (the values of attention, between softmax and product).
Graph with_early_views(const Graph& graph) {
    Graph result = graph;
    result.nodes.clear();
    const std::vector<std::vector<graph::NodeId>> users = graph::users(graph);
    const std::vector<int32_t> makers = graph::producers(graph);
    std::vector<bool> placed(graph.nodes.size(), false);
    std::vector<graph::NodeId> waiting;
    const auto ready = [&](const Node& node) {
        return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
            return makers[id] < 0 || placed[static_cast<size_t>(makers[id])];
        });
    };
    const auto is_early = [&](graph::NodeId n) {
        const Node& view = graph.nodes[n];
        return view.group == 0 && renames(graph, view) && !joins(view) && ready(view);
    };
    const auto place = [&](graph::NodeId first) {
        for (waiting.push_back(first); !waiting.empty();) {
            const graph::NodeId n = waiting.back();
            waiting.pop_back();
            if (placed[n]) continue;
            placed[n] = true;
            result.nodes.push_back(graph.nodes[n]);
            for (const ValueId output : graph.nodes[n].outputs)
                std::copy_if(users[output].begin(), users[output].end(), std::back_inserter(waiting),
                             is_early);
        }
    };
    for (graph::NodeId n = 0; n < graph.nodes.size(); ++n) {
        if (is_early(n)) place(n);  // of an input of the graph
    }
    for (graph::NodeId n = 0; n < graph.nodes.size(); ++n) place(n);
    return result;
}

/// Looks for the graph whose tensors take the fewest bytes through DDR.
class Search {
  public:
    Search(const Graph& graph, const Room& room, int64_t columns, const MappingWishes& wishes,
           const std::set<std::string>& left_out)
        : planned_(graph, room),
          steps_(graph, columns),
          columns_(columns),
          room_(room),
          wishes_(wishes),
          left_out_(left_out),
          least_(planned_.traffic()) {}

    void run() {
        // first fit leaves gaps: a plan with more room to spare may fit better; but it has more strips, which take longer
        for (const uint64_t percent : {95, 80, 65}) consider({room_.l2 * percent / 100, 0});
    }

    /// Heads of attention apart, and the rows of each in strips, which then read keys and values of few heads again.
    void run_apart() {
        if (!has_scores_in_ddr(planned_)) return;
        for (const int64_t parts : numbers) {
            const std::vector<Chain> chains =
                Planner(steps_, planned_, wishes_, left_out_, {0, parts}).best();
            if (chains.empty()) return;
            const Graph apart = with_early_views(with_strips(steps_, chains));
            Search of_parts(apart, room_, columns_, wishes_, left_out_);
            of_parts.run();
            if (!of_parts.best || of_parts.least_ + gain(true) > least_) continue;
            least_ = of_parts.least_;
            best = std::move(of_parts.best);
            best->heads_apart = true;
        }
    }

    std::optional<InStrips> best;

  private:
    uint64_t gain(bool again) const { return std::max(least_saving, again ? planned_.traffic() / 20 : 0); }

    void consider(const Limits& limits) {
        const std::vector<Chain> chains = Planner(steps_, planned_, wishes_, left_out_, limits).best();
        if (chains.empty()) return;
        InStrips candidate{with_strips(steps_, chains), {}, false};
        const uint64_t traffic = Planned(candidate.graph, room_).traffic();
        if (traffic + gain(best.has_value()) > least_ && !(wishes_.any_strips() && !best)) return;
        least_ = traffic;
        for (const Chain& chain : chains) candidate.chains.push_back(operations_of(steps_, chain));
        best = std::move(candidate);
    }

    Planned planned_;
    Steps steps_;
    int64_t columns_;
    const Room& room_;
    const MappingWishes& wishes_;
    const std::set<std::string>& left_out_;
    uint64_t least_;
};

}  // namespace

std::optional<InStrips> in_strips(const Graph& graph, const Target& target, const MappingWishes& wishes,
                                  const std::set<std::string>& left_out, bool heads_apart) {
    const Room room = room_of_tensors(graph, target);
    Search search(graph, room, target.engines[0].array().cols(), wishes, left_out);
    search.run();
    if (heads_apart) search.run_apart();
    check_wishes(search.best ? search.best->graph : graph, wishes);
    return std::move(search.best);
}

}  // namespace kpu::compiler
