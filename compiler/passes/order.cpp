// An order of small peak memory. The given order is cut into windows where little lives; within a window all
// orders are searched. What lives at its ends does not depend on the order inside, so windows do not disturb
// each other, and the peak never rises.
#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_map>

#include "compiler/graph/forms.hpp"
#include "compiler/passes/match.hpp"
#include "compiler/passes/passes.hpp"

namespace kpu::passes {
namespace {

/// Steps of the program and the arrays that they read and make.
struct Steps {
    struct Array {
        uint64_t bytes = 0;
        int32_t maker = -1;           ///< step; -1: there from the start
        std::vector<uint32_t> users;  ///< steps, ascending; the maker too
        bool stays = false;           ///< an output
    };
    std::vector<std::vector<NodeId>> nodes;
    std::vector<std::vector<uint32_t>> arrays;  ///< arrays of each step, without repetition
    std::vector<std::vector<uint32_t>> before;  ///< steps that make what each step reads
    std::vector<Array> all;
};

class StepBuilder {
  public:
    explicit StepBuilder(const Graph& graph)
        : graph_(graph), array_(graph.values.size(), -1), maker_(graph.values.size(), -1) {}

    Steps run() {
        const std::vector<std::optional<uint32_t>> forms = graph::forms_of(graph_);
        for (const graph::Port& port : graph_.inputs) add_array(port.value, -1);
        for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
            const Node& node = graph_.nodes[id];
            if (node.group == 0 || id == 0 || graph_.nodes[id - 1].group != node.group) {
                steps_.nodes.emplace_back();
                steps_.arrays.emplace_back();
                steps_.before.emplace_back();
            }
            steps_.nodes.back().push_back(id);
            add_node(id);
            keep_apart(forms[id]);
        }
        for (const graph::Port& port : graph_.outputs) {
            if (array_[port.value] >= 0) steps_.all[static_cast<size_t>(array_[port.value])].stays = true;
        }
        return std::move(steps_);
    }

  private:
    void add_array(ValueId id, int32_t maker) {
        const graph::Value& value = graph_.value(id);
        array_[id] = static_cast<int32_t>(steps_.all.size());
        steps_.all.push_back({packed_bytes(value.elem, value.elements()), maker, {}, false});
    }

    /// Keeps nodes of one form together: each form is a part of the program that may not run.
    void keep_apart(std::optional<uint32_t> form) {
        const auto step = static_cast<uint32_t>(steps_.nodes.size() - 1);
        if (form != form_) before_form_ = step > 0 && form_ ? std::optional(step - 1) : std::nullopt;
        form_ = form;
        if (form && before_form_) steps_.before.back().push_back(*before_form_);
    }

    void use(ValueId id) {
        if (array_[id] < 0) return;  // a constant
        const auto array = static_cast<uint32_t>(array_[id]);
        const auto step = static_cast<uint32_t>(steps_.nodes.size() - 1);
        std::vector<uint32_t>& users = steps_.all[array].users;
        if (!users.empty() && users.back() == step) return;
        users.push_back(step);
        steps_.arrays[step].push_back(array);
    }

    void add_node(NodeId id) {
        const Node& node = graph_.nodes[id];
        const auto step = static_cast<int32_t>(steps_.nodes.size() - 1);
        const bool ends =
            node.group == 0 || id + 1 == graph_.nodes.size() || graph_.nodes[id + 1].group != node.group;
        for (const ValueId operand : node.inputs) {
            use(operand);
            if (maker_[operand] >= 0 && maker_[operand] != step)
                steps_.before.back().push_back(static_cast<uint32_t>(maker_[operand]));
        }
        for (const ValueId output : node.outputs) {
            maker_[output] = step;
            if (!ends) continue;  // stays on chip
            if (is(node, "reshape") && array_[node.inputs[0]] >= 0) {
                array_[output] = array_[node.inputs[0]];
            } else {
                add_array(output, step);
            }
            use(output);
        }
    }

    const Graph& graph_;
    std::vector<int32_t> array_;                  ///< array of each value; -1: none
    std::vector<int32_t> maker_;                  ///< step; -1: none
    std::optional<uint32_t> form_, before_form_;  ///< form of the last node; the last step of the form before
    Steps steps_;
};

/// Bytes that live while each step runs, and after it, in the order of the graph.
struct Profile {
    uint64_t start = 0;
    std::vector<uint64_t> during, behind;
    uint64_t peak() const { return during.empty() ? start : *std::max_element(during.begin(), during.end()); }
};

Profile profile_of(const Steps& steps) {
    Profile profile;
    std::vector<uint64_t> made(steps.nodes.size(), 0), freed(steps.nodes.size(), 0);
    for (const Steps::Array& array : steps.all) {
        (array.maker < 0 ? profile.start : made[static_cast<size_t>(array.maker)]) += array.bytes;
        // an input that nobody reads lives on: it is the host's
        if (!array.stays && !array.users.empty()) freed[array.users.back()] += array.bytes;
    }
    uint64_t live = profile.start;
    for (size_t i = 0; i < steps.nodes.size(); ++i) {
        live += made[i];
        profile.during.push_back(live);
        live -= freed[i];
        profile.behind.push_back(live);
    }
    return profile;
}

/// Steps [first, first + count), count <= 64, as sets of bits.
class Window {
  public:
    Window(const Steps& steps, size_t first, size_t count)
        : first_(first), count_(count), uses_(count), makes_(count, 0), needs_(count, 0) {
        std::unordered_map<uint32_t, size_t> seen;
        for (size_t i = 0; i < count; ++i) {
            for (const uint32_t array : steps.arrays[first + i]) {
                if (seen.emplace(array, arrays_.size()).second) add(steps.all[array]);
                uses_[i].push_back(seen.at(array));
                if (steps.all[array].maker == static_cast<int32_t>(first + i))
                    makes_[i] += steps.all[array].bytes;
            }
            for (const uint32_t step : steps.before[first + i]) {
                if (step >= first) needs_[i] |= bit(step - first);
            }
        }
    }

    /// Returns an order with a lower peak than `limit`, which is that of the present one; empty: none was
    /// found. `live`: bytes at the start. `budget`: sets of steps that may still be looked at.
    std::vector<size_t> search(uint64_t live, uint64_t limit, int64_t& budget) const {
        const uint64_t all = count_ == 64 ? ~uint64_t{0} : bit(count_) - 1;
        std::priority_queue<State> waiting;
        std::unordered_map<uint64_t, Way> best;
        waiting.push({0, 0, live});
        while (!waiting.empty() && budget-- > 0) {
            const State state = waiting.top();
            waiting.pop();
            if (state.done == all) return path(best, all);
            if (state.done != 0 && best.at(state.done).peak < state.peak)
                continue;  // a better way came later
            for (size_t i = 0; i < count_; ++i) {
                const uint64_t done = state.done | bit(i);
                if (done == state.done || (needs_[i] & ~state.done) != 0) continue;
                const uint64_t peak = std::max(state.peak, state.live + makes_[i]);
                const auto [at, fresh] = best.emplace(done, Way{peak, i});
                if (peak >= limit || (!fresh && at->second.peak <= peak)) continue;
                at->second = {peak, i};
                waiting.push({peak, done, state.live + makes_[i] - freed(state.done, i)});
            }
        }
        return {};
    }

  private:
    struct Local {
        uint64_t bytes, users;
        bool stays;  ///< beyond the window
    };
    struct State {
        uint64_t peak, done, live;
        bool operator<(const State& o) const {  // the lowest peak first, then the furthest
            return peak != o.peak ? peak > o.peak : __builtin_popcountll(done) < __builtin_popcountll(o.done);
        }
    };
    struct Way {
        uint64_t peak;
        size_t last;  ///< the step that completed the set
    };

    static uint64_t bit(size_t i) { return uint64_t{1} << i; }

    void add(const Steps::Array& array) {
        Local local{array.bytes, 0, array.stays};
        for (const uint32_t user : array.users) {
            if (user >= first_ && user < first_ + count_) local.users |= bit(user - first_);
            local.stays = local.stays || user >= first_ + count_;
        }
        arrays_.push_back(local);
    }

    uint64_t freed(uint64_t done, size_t step) const {
        uint64_t bytes = 0;
        for (const size_t i : uses_[step]) {
            if (!arrays_[i].stays && (arrays_[i].users & ~(done | bit(step))) == 0) bytes += arrays_[i].bytes;
        }
        return bytes;
    }

    std::vector<size_t> path(const std::unordered_map<uint64_t, Way>& best, uint64_t set) const {
        std::vector<size_t> result;
        while (set != 0) {
            result.push_back(best.at(set).last);
            set &= ~bit(result.back());
        }
        std::reverse(result.begin(), result.end());
        return result;
    }

    size_t first_, count_;
    std::vector<Local> arrays_;
    std::vector<std::vector<size_t>> uses_;  ///< arrays_ of each step
    std::vector<uint64_t> makes_;            ///< bytes
    std::vector<uint64_t> needs_;            ///< steps that must be done before
};

/// Returns the end of a window that starts at `first`: where least lives.
size_t window_end(const Profile& profile, size_t first) {
    constexpr size_t least = 16, most = 32;
    const size_t count = profile.behind.size();
    if (count - first <= most) return count;
    size_t best = first + least;
    for (size_t end = best; end <= first + most; ++end) {
        if (profile.behind[end - 1] <= profile.behind[best - 1]) best = end;
    }
    return best;
}

/// Steps that free more than they make run as soon as they can, if that raises no peak: less lives meanwhile, and operations
/// that hand over to each other are neighbours.
std::vector<size_t> eager_order(const Steps& steps) {
    const Profile profile = profile_of(steps);
    const uint64_t peak = profile.peak();
    const size_t count = steps.nodes.size();
    std::vector<uint64_t> makes(count, 0), frees(count, 0);
    std::vector<size_t> after(count, 0);  // the first place at which a step can run and free what it does
    for (size_t i = 0; i < count; ++i) {
        for (const uint32_t step : steps.before[i]) after[i] = std::max<size_t>(after[i], step + 1u);
        for (const uint32_t number : steps.arrays[i]) {
            const Steps::Array& array = steps.all[number];
            if (array.maker == static_cast<int32_t>(i)) makes[i] += array.bytes;
            if (array.stays || array.users.back() != i) continue;
            frees[i] += array.bytes;
            if (array.users.size() > 1)
                after[i] = std::max<size_t>(after[i], array.users[array.users.size() - 2] + 1u);
        }
    }
    std::vector<size_t> order;
    std::vector<uint64_t> before = {
        profile.start};  // what lives before each place of `order`, and after the last
    for (size_t i = 0; i < count; ++i) {
        size_t place = order.size();
        while (frees[i] > makes[i] && place > 0 && order[place - 1] >= after[i] &&
               before[place - 1] + makes[i] <= peak)
            --place;
        order.insert(order.begin() + static_cast<ptrdiff_t>(place), i);
        before.insert(before.begin() + static_cast<ptrdiff_t>(place), before[place]);
        for (size_t at = place + 1; at < before.size(); ++at) before[at] = before[at] + makes[i] - frees[i];
    }
    return order;
}

/// Returns the steps in their new order.
std::vector<size_t> small_order(const Steps& steps) {
    const Profile profile = profile_of(steps);
    std::vector<size_t> result;
    int64_t total = 1'000'000;  // sets of steps: a second or two for the largest of networks
    for (size_t first = 0; first < steps.nodes.size();) {
        const size_t end = window_end(profile, first);
        const uint64_t live = first == 0 ? profile.start : profile.behind[first - 1];
        const uint64_t limit = *std::max_element(profile.during.begin() + static_cast<ptrdiff_t>(first),
                                                 profile.during.begin() + static_cast<ptrdiff_t>(end));
        int64_t budget = std::min<int64_t>(total, 40'000);
        total -= budget;
        const std::vector<size_t> found = Window(steps, first, end - first).search(live, limit, budget);
        total += budget;
        for (size_t i = 0; i < end - first; ++i) result.push_back(first + (found.empty() ? i : found[i]));
        first = end;
    }
    return result;
}

}  // namespace

uint64_t peak_bytes(const Graph& graph) { return profile_of(StepBuilder(graph).run()).peak(); }

namespace {

void reorder(Graph& graph, const Steps& steps, const std::vector<size_t>& order) {
    std::vector<Node> nodes;
    for (const size_t step : order) {
        for (const NodeId id : steps.nodes[step]) nodes.push_back(std::move(graph.nodes[id]));
    }
    graph.nodes = std::move(nodes);
}

}  // namespace

void order(Graph& graph, const Options&) {
    // a better order has its windows elsewhere, so that another search may find more
    for (int round = 0; round < 3; ++round) {
        const Steps steps = StepBuilder(graph).run();
        const uint64_t before = profile_of(steps).peak();
        reorder(graph, steps, small_order(steps));
        if (peak_bytes(graph) == before) break;
    }
    const Steps steps = StepBuilder(graph).run();
    reorder(graph, steps, eager_order(steps));
}

}  // namespace kpu::passes
