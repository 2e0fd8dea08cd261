#include "compiler/estimate/bound.hpp"

#include <algorithm>

#include "isa/footprint.hpp"
#include "model/timing/systolic.hpp"
#include "model/timing/vector.hpp"
#include "platforms/units.hpp"

namespace kpu::estimate {
namespace {

enum Resource : size_t {
    array,
    vpus,
    cstls,  // vector units that also store
    dma,
    engine_links,
    l2,
    system_dma,
    system_link,
    pins,
    resources
};
constexpr std::array<std::string_view, resources> names = {"array", "vector", "vector", "dma", "dma",
                                                           "dma",   "dram",   "dram",   "dram"};
using Work = std::array<double, resources>;  ///< cycles in which each resource can do it

class Bounds {
  public:
    Bounds(const BoundProgram& program, const compiler::Target& target,
           const std::map<uint32_t, kernels::Work>& launches)
        : program_(program), target_(target), launches_(launches) {
        const proto::Platform& platform = target.platform;
        const proto::DdrDevice device = platforms::ddr_device(platform);
        pins_ = double(platform.ddr().data_rate_mtps()) * device.bus_width_bits() / 8 *
                platform.ddr().channels() / platform.clock().core_mhz();
    }

    void add(uint32_t statement, double times, Work& work) const {
        const BoundTask& task = program_.tasks[program_.statements[statement].index];
        if (task.moves()) return move(task, times, work);
        const double units = unit_count(task.unit);
        if (task.unit == UnitKind::nmu) {
            work[array] += times * double(task.macs) / peak(task) / units;
        } else if (task.launches()) {
            const kernels::Work& of = launches_.at(statement);
            // Its steps may depend on values: certain is that lanes make its result, what is not copied.
            const double least = std::min(double(task.elements), of.lane_operations);
            work[vector_of(task)] += times * least / target_.lanes_of(of) / units;
            copy(task, times * of.copies * of.length_of_a_copy, work);
        } else {
            work[vector_of(task)] +=
                times * double(timing::vector_time(engine(task).vector(), program_, task).steady) / units;
        }
    }

  private:
    /// Returns the resource of a vector task. Units that also store are apart: they work beside the others.
    static Resource vector_of(const BoundTask& task) { return task.unit == UnitKind::cstl ? cstls : vpus; }
    const proto::Engine& engine(const BoundTask& task) const {
        return target_.engines[static_cast<size_t>(std::max(task.engine, 0))];
    }
    /// Returns the number of units of the device.
    double unit_count(UnitKind kind) const {
        if (!row_of(kind).per_engine) return platforms::unit_count(target_.platform, nullptr, kind);
        double count = 0;
        for (const proto::Engine& of : target_.engines)
            count += platforms::unit_count(target_.platform, &of, kind);
        return count;
    }

    /// MACs of a core cycle, of one array.
    double peak(const BoundTask& task) const {
        const auto elem = [&](size_t i) { return program_.regions[task.inputs[i]].elem; };
        const timing::SystolicArray of = timing::array_for(engine(task).array(), elem(0), elem(1));
        return double(of.peak_q16()) / 65536 * target_.array_cycles;
    }

    /// Counts what a kernel copies from DDR to L1.
    void copy(const BoundTask& task, double elements, Work& work) const {
        const double bytes = elements * bit_width(program_.regions[task.outputs[0]].elem) / 8;
        work[dma] += bytes / target_.dma.port / unit_count(UnitKind::dma);
        pass(bytes, {Level::ddr, Level::l1}, work);
    }

    /// Adds bytes between two memories.
    void pass(double bytes, std::initializer_list<Level> ends, Work& work) const {
        bool ddr = false;
        for (const Level end : ends) {
            ddr = ddr || end == Level::ddr;
            if (end == Level::ddr) work[pins] += bytes / pins_;
            if (end == Level::l2) work[l2] += bytes / target_.l2.bytes_per_cycle;
            if (end == Level::l1)
                work[engine_links] +=
                    bytes / target_.dma.link.bytes_per_cycle() / double(target_.engines.size());
        }
        if (ddr) work[system_link] += bytes / target_.system.link.bytes_per_cycle();
    }

    void move(const BoundTask& task, double times, Work& work) const {
        const BoundRegion &from = program_.regions[task.inputs[0]], &to = program_.regions[task.outputs[0]];
        const double bytes = times * double(footprint_of(from, 0).total_bytes());
        const bool system = task.unit == UnitKind::sdma, on_vector = computes(task.unit);
        const compiler::Mover& mover = system ? target_.system : task.stores() ? target_.store : target_.dma;
        const Resource by = system ? system_dma : on_vector ? vector_of(task) : dma;
        work[by] += bytes / mover.port / unit_count(task.unit);
        pass(bytes, {from.level, to.level}, work);
    }

    const BoundProgram& program_;
    const compiler::Target& target_;
    const std::map<uint32_t, kernels::Work>& launches_;
    double pins_ = 1;  ///< bytes of a core cycle
};

}  // namespace

std::vector<Bound> bounds(const BoundProgram& program, const compiler::Target& target,
                          const std::vector<uint64_t>& instances,
                          const std::map<uint32_t, kernels::Work>& launches) {
    const Bounds of(program, target, launches);
    std::vector<Work> work(program.ops.size(), Work{});
    for (uint32_t s = 0; s < program.statements.size(); ++s) {
        if (program.statements[s].kind != BoundStatement::Kind::task) continue;
        const uint32_t task = program.statements[s].index, op = program.tasks[task].op;
        if (op < work.size()) of.add(s, double(instances[task]), work[op]);
    }
    std::vector<Bound> result;
    for (const Work& each : work) {
        const auto most = std::max_element(each.begin(), each.end());
        if (*most > 0)
            result.push_back({names[static_cast<size_t>(most - each.begin())], *most});
        else
            result.emplace_back();
    }
    return result;
}

}  // namespace kpu::estimate
