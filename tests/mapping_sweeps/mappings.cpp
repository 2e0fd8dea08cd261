#include <fmt/format.h>

#include "base/diagnostics.hpp"
#include "tests/mapping_sweeps/layers.hpp"

namespace kpu::sweeps {
namespace {

/// Odometer over all sizes of the tiles.
class Sizes {
  public:
    explicit Sizes(const compiler::TileOp& op) {
        for (const compiler::Axis& axis : op.axes) {
            if (axis.extent > 1) axes_.push_back(&axis);
        }
        size_.assign(axes_.size(), 1);
    }
    bool next() {
        for (size_t a = 0; a < axes_.size(); ++a) {
            if (++size_[a] <= axes_[a]->extent) return true;
            size_[a] = 1;
        }
        return false;
    }
    std::map<std::string, int64_t> tile() const {
        std::map<std::string, int64_t> result;
        for (size_t a = 0; a < axes_.size(); ++a) result[axes_[a]->name] = size_[a];
        return result;
    }

  private:
    std::vector<const compiler::Axis*> axes_;
    std::vector<int64_t> size_;
};

}  // namespace

/// A run is given up when it is slower than the fastest so far.
Mappings simulate_mappings(const Layer& layer, ElemType elem, const platforms::Platform& platform) {
    const graph::Graph graph = graph_of({layer}, elem);
    const compiler::Target target(platform);
    Mappings result;
    result.chosen = result.best = times_of(graph, platform).simulated;
    result.best_tiles = "as chosen";
    const compiler::TileOp op = compiler::plan(graph, target).ops.at(0).op;
    Sizes sizes(op);
    do {
        for (int64_t depth = 1; depth <= 4; ++depth) {
            compiler::MappingWish wish;
            wish.pattern = "*";
            wish.tile = sizes.tile();
            wish.in_flight = depth;
            compiler::Guide guide;
            guide.wishes = compiler::MappingWishes({wish});
            std::shared_ptr<const Module> module;
            try {
                module = std::make_shared<const Module>(
                    compiler::emit(compiler::plan(graph, target, guide), target).module);
            } catch (const UserError&) {
                continue;  // no legal mapping
            }
            ++result.legal;
            const double cycles = cycles_of(module, platform, static_cast<Cycles>(result.best));
            if (cycles >= result.best) continue;
            result.best = cycles;
            result.best_tiles = fmt::format("{} in flight", depth);
            for (const auto& [axis, size] : wish.tile) result.best_tiles += fmt::format(" {} {}", axis, size);
        }
    } while (sizes.next());
    return result;
}

}  // namespace kpu::sweeps
