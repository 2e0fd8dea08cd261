#include "compiler/mapping/wishes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::compiler {
namespace {

bool names(const MappingWish& wish, const std::string& name) {
    return wish.pattern == name || fnmatch(wish.pattern.c_str(), name.c_str(), 0) == 0;
}

/// Checks the fixed tiling of one operation axis by axis.
class Fixing {
  public:
    Fixing(const TilingRequest& request, const MappingWish& wish) : op_(request.op), wish_(wish) {
        engines_ = static_cast<int64_t>(request.target.engines.size());
    }

    FixedTiling run() {
        FixedTiling fixed;
        fixed.tile.assign(op_.axes.size(), 0);
        for (const auto& [name, size] : wish_.tile) fixed.tile[axis(name)] = size_of(name, size);
        if (!wish_.engines.empty()) fixed.split = split(fixed.tile);
        if (wish_.in_flight) {
            if (*wish_.in_flight < 1 || *wish_.in_flight > most_in_flight)
                refuse(fmt::format("in_flight is {}", *wish_.in_flight),
                       fmt::format("give 1 to {}", most_in_flight));
            fixed.depth = static_cast<int>(*wish_.in_flight);
        }
        return fixed;
    }

  private:
    static constexpr int64_t most_in_flight = 64;

    size_t axis(const std::string& name) const {
        std::vector<std::string> known;
        for (size_t a = 0; a < op_.axes.size(); ++a) {
            if (op_.axes[a].name == name) return a;
            known.push_back(fmt::format("{} ({})", op_.axes[a].name, op_.axes[a].extent));
        }
        refuse(fmt::format("it has no axis `{}`", name),
               fmt::format("its axes are {}", fmt::join(known, ", ")));
    }

    int64_t size_of(const std::string& name, int64_t size) const {
        const Axis& of = op_.axes[axis(name)];
        if (size < 1 || size > of.extent)
            refuse(fmt::format("a tile of {} along `{}`", size, name),
                   fmt::format("give 1 to {}", of.extent));
        if (of.whole && size != of.extent)
            refuse(fmt::format("`{}` cannot be cut here", name), fmt::format("give {}", of.extent));
        if (of.single && size != 1)
            refuse(fmt::format("tiles along `{}` have one index here", name), "give 1");
        return size;
    }

    std::vector<int64_t> split(const std::vector<int64_t>& tile) const {
        std::vector<int64_t> result(op_.axes.size(), 1);
        int64_t lanes = 1;
        for (const auto& [name, across] : wish_.engines) {
            const size_t a = axis(name);
            const Axis& of = op_.axes[a];
            if (across < 1 || across > engines_ || (lanes *= across) > engines_)
                refuse(fmt::format("{} engines along `{}`", across, name),
                       fmt::format("the device has {}", engines_));
            if (of.walk == Walk::sum && across > 1)
                refuse(fmt::format("engines cannot share the sum `{}`", name), "split another axis");
            if (tile[a] != 0 && (of.extent + tile[a] - 1) / tile[a] < across)
                refuse(fmt::format("{} engines along `{}`, which has {} tiles", across, name,
                                   (of.extent + tile[a] - 1) / tile[a]),
                       "give fewer engines or smaller tiles");
            result[a] = across;
        }
        return result;
    }

    [[noreturn]] void refuse(const std::string& what, const std::string& fix) const {
        throw UserError(fmt::format("{} ({}): the mapping that is fixed for it is illegal: {}. Fix: {}.",
                                    op_.name, op_.source.type, what, fix));
    }

    const TileOp& op_;
    const MappingWish& wish_;
    int64_t engines_ = 1;
};

}  // namespace

MappingWishes::MappingWishes(std::vector<MappingWish> wishes, DeviceWish device)
    : wishes_(std::move(wishes)), device_(device) {
    std::stable_sort(wishes_.begin(), wishes_.end(), [](const MappingWish& a, const MappingWish& b) {
        return a.pattern.size() < b.pattern.size();
    });
}

MappingWish MappingWishes::of(const std::string& name) const {
    MappingWish result;
    result.pattern = name;
    for (const MappingWish& wish : wishes_) {
        if (!names(wish, name)) continue;
        for (const auto& [axis, size] : wish.tile) result.tile[axis] = size;
        for (const auto& [axis, across] : wish.engines) result.engines[axis] = across;
        if (wish.in_flight) result.in_flight = wish.in_flight;
        if (wish.output) result.output = wish.output;
        if (wish.strips) result.strips = wish.strips;
        if (wish.fuse) result.fuse = wish.fuse;
    }
    return result;
}

bool MappingWishes::any_strips() const {
    return std::any_of(wishes_.begin(), wishes_.end(),
                       [](const MappingWish& wish) { return wish.strips.value_or(1) > 1; });
}

void MappingWishes::check(const graph::Graph& graph, const std::vector<NodeRange>& operations) const {
    for (const MappingWish& wish : wishes_) {
        const auto node = [&](const graph::Node& of) { return names(wish, of.source.name); };
        const auto operation = [&](const NodeRange& of) { return names(wish, of.name); };
        if (std::any_of(graph.nodes.begin(), graph.nodes.end(), node) ||
            std::any_of(operations.begin(), operations.end(), operation))
            continue;
        throw UserError(
            fmt::format("--mapping: the network has no operation `{}`. Fix: give a name of ops.csv, or a "
                        "pattern with `*`; --write-mapping lists all.",
                        wish.pattern));
    }
}

void MappingWishes::mark_alone(graph::Graph& graph) const {
    for (graph::Node& node : graph.nodes) node.alone = !of(node.source.name).fuse.value_or(true);
}

FixedTiling fix(const TilingRequest& request, const MappingWish& wish) { return Fixing(request, wish).run(); }

}  // namespace kpu::compiler
