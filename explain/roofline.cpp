#include "explain/roofline.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace kpu::explain {

namespace {

constexpr std::array<const char*, 3> level_names{"DRAM", "L2", "L1"};
static_assert(static_cast<int>(Level::ddr) == 0 && static_cast<int>(Level::l2) == 1 &&
              static_cast<int>(Level::l1) == 2);

class Rooflines {
  public:
    Rooflines(const RunGraph& graph, const std::vector<OpTerms>& ops) : graph_(graph), ops_(ops) {
        for (const traces::UnitInfo& unit : graph.info().units) {
            ++counts_[unit.kind];
            if (const auto level = level_of(unit.kind))
                peaks_[static_cast<size_t>(*level)] += unit.peak_per_cycle;
        }
        read_tasks();
    }

    std::vector<RooflinePoint> points() {
        std::vector<RooflinePoint> result;
        OpTerms all;
        Sums run;
        for (size_t i = 0; i < ops_.size(); ++i) {
            all.operations += ops_[i].operations;
            for (size_t level = 0; level < 3; ++level) all.bytes[level] += ops_[i].bytes[level];
            for (const auto& [kind, peak] : sums_[i].peaks) run.peaks[kind] = std::max(run.peaks[kind], peak);
        }
        run.active = graph_.total();
        result.push_back(point(all, run));
        for (size_t i = 0; i < ops_.size(); ++i) {
            if (sums_[i].active > 0) result.push_back(point(ops_[i], sums_[i]));
        }
        return result;
    }

  private:
    struct Sums {
        Cycles active = 0;
        Cycles until = 0;                  ///< end of what is counted
        std::map<UnitKind, double> peaks;  ///< operations per cycle of one unit
    };

    /// Reads the union of the times of an operation's tasks, and the rates of the units that they use.
    void read_tasks() {
        sums_.resize(ops_.size());
        std::vector<uint32_t> order;
        for (uint32_t t = 0; t < graph_.tasks().size(); ++t)
            if (graph_.tasks()[t].begun()) order.push_back(t);
        std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
            return graph_.tasks()[a].begin < graph_.tasks()[b].begin;
        });
        for (const uint32_t t : order) {
            const TaskRun& task = graph_.tasks()[t];
            Sums& sums = sums_[std::min<size_t>(task.op, sums_.size() - 1)];
            const Cycles end = task.ended() ? task.end : graph_.total();
            const Cycles from = std::max(task.begin, sums.until);
            if (end > from) {
                sums.active += end - from;
                sums.until = end;
            }
            const traces::TaskWork* work = graph_.work_of(task);
            if (work == nullptr || work->mover) continue;
            const UnitKind kind = graph_.info().units[task.unit].kind;
            const double operations = (row_of(kind).macs ? 2.0 : 1.0) * double(work->peak_q16) / 65536;
            sums.peaks[kind] = std::max(sums.peaks[kind], operations);
        }
    }

    RooflinePoint point(const OpTerms& op, const Sums& sums) const {
        RooflinePoint result;
        result.op = op.op;
        result.operations = op.operations;
        result.active = sums.active;
        const double active = std::max<double>(1, static_cast<double>(sums.active));
        for (const auto& [kind, peak] : sums.peaks) result.peak += peak * counts_.at(kind);
        result.attained = static_cast<double>(op.operations) / active;
        if (op.operations > 0) {
            result.limit = "compute";
            result.roof = result.peak;
        }
        for (size_t i = 0; i < 3; ++i) {
            RooflineLevel& level = result.levels[i];
            level.bytes = op.bytes[i];
            level.peak_bytes = peaks_[i];
            level.attained_bytes = static_cast<double>(op.bytes[i]) / active;
            if (op.operations == 0 || op.bytes[i] == 0) continue;
            level.intensity = static_cast<double>(op.operations) / static_cast<double>(op.bytes[i]);
            if (level.intensity * level.peak_bytes < result.roof) {
                result.roof = level.intensity * level.peak_bytes;
                result.limit = level_names[i];
            }
        }
        return result;
    }

    const RunGraph& graph_;
    const std::vector<OpTerms>& ops_;
    std::map<UnitKind, int> counts_;
    std::array<double, 3> peaks_{};
    std::vector<Sums> sums_;
};

}  // namespace

std::vector<RooflinePoint> roofline(const RunGraph& graph, const std::vector<OpTerms>& ops) {
    return Rooflines(graph, ops).points();
}

}  // namespace kpu::explain
