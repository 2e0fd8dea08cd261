#include "analysis/races.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "analysis/race_findings.hpp"
#include "execution/access_frontier.hpp"
#include "isa/expr.hpp"
#include "isa/footprint.hpp"
#include "isa/iterations.hpp"

namespace kpu::analysis {
namespace {

constexpr uint64_t pairs_in_all = uint64_t{1} << 25;  ///< pairs of operands looked at
constexpr size_t findings_in_all = 1000;

/// An operand with the range of bytes that all its instances stay in.
struct Placed {
    Access access;
    int64_t low = 0, end = 0;
};

class RaceSearch {
  public:
    RaceSearch(const BoundProgram& program, const execution::ScheduleOrder& order)
        : program_(program), order_(order), findings_(program, order), frontier_(program, order) {}

    std::vector<Finding> run() {
        std::vector<std::vector<Access>> by_buffer(program_.buffers.size());
        std::vector<bool> written(program_.buffers.size(), false);
        const auto buffer_of = [&](uint32_t region) { return program_.regions[region].buffer; };
        for (uint32_t s = 0; s < program_.statements.size(); ++s) {
            if (program_.statements[s].kind != BoundStatement::Kind::task) continue;
            const BoundTask& task = program_.tasks[program_.statements[s].index];
            for (const uint32_t region : task.inputs)
                by_buffer[buffer_of(region)].push_back({s, region, false});
            for (const uint32_t region : task.outputs) {
                by_buffer[buffer_of(region)].push_back({s, region, true});
                written[buffer_of(region)] = true;
            }
        }
        for (size_t b = 0; b < by_buffer.size(); ++b)
            if (written[b] && !findings_.stopped()) sweep(by_buffer[b]);
        return findings_.take();
    }

  private:
    std::optional<Placed> placed(const Access& access) const {
        const BoundRegion& region = program_.regions[access.region];
        const BoundBuffer& buffer = program_.buffers[region.buffer];
        Placed placed{access, static_cast<int64_t>(buffer.base),
                      static_cast<int64_t>(buffer.base + buffer.size)};
        const auto ranges = loop_ranges(program_, access.statement);
        if (ranges && !ranges->empty() && ranges->back().lo > ranges->back().hi)
            return std::nullopt;  // never executed
        const auto address = ranges ? bound_of(region.address, *ranges) : std::nullopt;
        if (address) {  // bytes outside the buffer are no race: the bounds are checked elsewhere
            placed.low = std::max(placed.low, address->lo);
            const auto reach = static_cast<int64_t>(footprint_of(region, 0).end());
            placed.end = std::min(placed.end, std::min(address->hi, placed.end) + reach);
        }
        return placed.low < placed.end ? std::optional(placed) : std::nullopt;
    }

    /// Compares each access with those before it in the text. Tasks outside of loops are compared with what
    /// says most of those before; only what races is compared with all of them, to name them.
    void sweep(const std::vector<Access>& accesses) {
        std::array<std::vector<Placed>, 2> lists;  // of tasks in loops, of others
        std::vector<bool> is_flat;                 // in the order of the text
        for (const Access& access : accesses) {
            const std::optional<Placed> one = placed(access);
            if (!one) continue;
            is_flat.push_back(order_.is_flat(access.statement));
            lists[is_flat.back()].push_back(*one);
        }
        const auto& [in_loops, flat] = lists;
        const std::vector<Summary> tree = summaries(in_loops);
        std::vector<Summary> flat_tree;  // mostly not needed
        frontier_.clear();
        std::array<size_t, 2> seen{};
        for (const bool outside : is_flat) {
            if (findings_.stopped()) return;
            const Placed& later = lists[outside][seen[outside]];
            if (outside ? frontier_.add(later.access) : races_with_flat(later)) {
                if (flat_tree.empty()) flat_tree = summaries(flat);
                meet({flat, flat_tree, later, seen[1], true}, {0, 1, flat_tree.size() / 2});
            }
            ++seen[outside];
            meet({in_loops, tree, later, seen[0], false}, {0, 1, tree.size() / 2});
        }
    }

    /// True if an access in a loop has a finding with one outside of loops before it.
    bool races_with_flat(const Placed& later) {
        const auto first = static_cast<uint64_t>(std::max<int64_t>(later.low, 0));
        const auto end = static_cast<uint64_t>(std::max<int64_t>(later.end, 0));
        const auto members = frontier_.near(first, end, later.access.write);
        return std::any_of(members.begin(), members.end(), [&](const Access& member) {
            return findings_.would_report(member, later.access);
        });
    }

    /// A part of a list of accesses: of the tree over it, node `at`, which spans `count` from `first` on.
    struct Part {
        size_t first = 0, at = 1, count = 0;
    };
    struct Summary {
        int64_t low = INT64_MAX, end = INT64_MIN;
        bool writes = false;
    };
    /// An access is compared with the first of a list.
    struct Meeting {
        const std::vector<Placed>& list;
        const std::vector<Summary>& tree;
        const Placed& later;
        size_t count = 0;
        bool flat = false;  ///< the list is of tasks outside of loops
    };

    static std::vector<Summary> summaries(const std::vector<Placed>& list) {
        size_t leaves = 1;
        while (leaves < list.size()) leaves *= 2;
        std::vector<Summary> tree(2 * leaves);
        for (size_t i = 0; i < list.size(); ++i)
            tree[leaves + i] = {list[i].low, list[i].end, list[i].access.write};
        for (size_t at = leaves; at-- > 1;) {
            const Summary &x = tree[2 * at], &y = tree[2 * at + 1];
            tree[at] = {std::min(x.low, y.low), std::max(x.end, y.end), x.writes || y.writes};
        }
        return tree;
    }

    /// Pairs whose ranges of bytes meet; many at a time are passed over when all of them are complete before it
    /// starts.
    void meet(const Meeting& meeting, const Part& part) {
        const auto& [list, tree, later, number, flat] = meeting;
        const Summary& all = tree[part.at];
        if (findings_.stopped() || part.first >= number || all.low >= later.end || all.end <= later.low)
            return;
        if (!all.writes && !later.access.write) return;
        const size_t last = std::min(part.first + part.count, number) - 1;
        const uint32_t from = list[part.first].access.statement, to = list[last].access.statement;
        if (!flat && order_.all_before(from, to, later.access.statement)) return;
        if (part.count > 1) {
            const size_t half = part.count / 2;
            meet(meeting, {part.first + half, 2 * part.at + 1, half});  // the nearest say most
            return meet(meeting, {part.first, 2 * part.at, half});
        }
        if (flat && order_.always_ordered(from, later.access.statement, ignored_)) return;
        if (pairs_++ >= pairs_in_all)
            findings_.stop(later.access, "the program has too many pairs of operands");
        if (findings_.size() >= findings_in_all) findings_.stop(later.access, "there are too many findings");
        if (!findings_.stopped()) findings_.check(list[part.first].access, later.access);
    }

    const BoundProgram& program_;
    const execution::ScheduleOrder& order_;
    RaceFindings findings_;
    execution::AccessFrontier frontier_;
    std::vector<execution::Escape> ignored_;
    uint64_t pairs_ = 0;
};

}  // namespace

std::vector<Finding> find_races(const BoundProgram& program, const execution::ScheduleOrder& order) {
    return RaceSearch(program, order).run();
}

}  // namespace kpu::analysis
