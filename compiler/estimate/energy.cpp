#include "compiler/estimate/energy.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "isa/footprint.hpp"
#include "model/timing/systolic.hpp"
#include "model/timing/vector.hpp"
#include "traces/ledger.hpp"

namespace kpu::estimate {
namespace {

using traces::Component;

constexpr double accumulator_bytes = 4;

class Counter {
  public:
    Counter(const BoundProgram& program, const compiler::Target& target, const traces::EnergyPrices& prices)
        : program_(program),
          target_(target),
          prices_(prices),
          device_(platforms::ddr_device(target.platform)),
          by_op_(program.ops.size(), 0) {}

    /// own_cycles: of an array, of all instances.
    void count(const BoundTask& task, double instances, double own_cycles, const kernels::Work& work) {
        op_ = task.op;
        instances_ = instances;
        book(Component::ctrl, "instr", 1);
        if (task.moves()) {
            transfer(task);
        } else if (task.launches()) {
            launch(task, work);
        } else if (task.unit == UnitKind::nmu) {
            product(task, instances > 0 ? own_cycles / instances : 0);
        } else {
            vector(task);
        }
    }

    Energy energy(const Course& course) const {
        Energy result;
        for (const double pj : by_op_) result.total_pj += pj;
        result.by_op = by_op_;
        const double ns = course.cycles * 1e3 / target_.platform.clock().core_mhz();
        for (const traces::StaticPower& power : prices_.statics) {
            const bool gates = prices_.clock_gating && course.cycles > 0;
            const double on = gates ? course.on[static_cast<size_t>(power.component)] / course.cycles : 1;
            result.total_pj += (power.on_mw * on + power.gated_mw * (1 - on)) * ns;
        }
        const double ranks = target_.platform.ddr().channels() * target_.platform.ddr().ranks();
        const double clocks = ns / device_.tck_ns();
        result.total_pj += (prices_.dram_background_mw + prices_.phy_static_mw) * ns;
        result.total_pj += ranks * clocks / device_.trefi() * price(Component::dram, "refresh");
        if (target_.platform.ddr().fidelity() == "burst")  // rows stay open
            result.total_pj += ranks * clocks * price(Component::dram, "state.active");
        return result;
    }

  private:
    double price(Component component, const std::string& action) const {
        return prices_.actions[prices_.find(component, action)].energy_pj;
    }
    void book(Component component, const std::string& action, double count) {
        by_op_[op_] += instances_ * count * price(component, action);
    }

    const BoundRegion& input(const BoundTask& task, size_t i) const {
        return program_.regions[task.inputs[i]];
    }
    const BoundRegion& output(const BoundTask& task) const { return program_.regions[task.outputs[0]]; }
    const proto::Engine& engine(const BoundTask& task) const {
        return target_.engines[static_cast<size_t>(std::max(task.engine, 0))];
    }

    /// Pieces of `size` bytes that a walk of so many bytes over a region touches.
    static double pieces(const BoundRegion& region, double size, double bytes) {
        const Footprint footprint = footprint_of(region, 0);
        const auto run = double(std::max<uint64_t>(footprint.run_bytes, 1));
        return bytes / run * std::ceil(run / size);
    }

    void dram(bool read, double bursts, double activations) {
        book(Component::dram, read ? "read" : "write", bursts);
        book(Component::phy, "burst", bursts);
        book(Component::dram, "activate", activations);
    }

    void memory(const BoundTask& task, const BoundRegion& region, bool read, double bytes) {
        if (region.level == Level::ddr) {
            const auto pieces_of = [&](double size) { return pieces(region, size, bytes); };
            return dram(read, pieces_of(device_.burst_bytes()), std::ceil(pieces_of(device_.row_bytes())));
        }
        const bool l1 = region.level == Level::l1;
        const proto::Sram& sram = l1 ? engine(task).l1() : target_.platform.l2();
        book(l1 ? Component::l1 : Component::l2, read ? "read" : "write",
             pieces(region, sram.access_width_bytes(), bytes));
    }

    /// Adds a stream between a unit of an engine and a memory.
    void operand(const BoundTask& task, const BoundRegion& region, bool read, double bytes) {
        memory(task, region, read, bytes);
        if (region.level == Level::l2) book(Component::noc, "byte", bytes);
    }

    void transfer(const BoundTask& task) {
        const BoundRegion &from = input(task, 0), &to = output(task);
        const auto bytes =
            double(std::max(footprint_of(from, 0).total_bytes(), footprint_of(to, 0).total_bytes()));
        memory(task, from, true, bytes);
        memory(task, to, false, bytes);
        const auto distance = [](Level level) {
            return level == Level::ddr ? -1 : level == Level::l1 ? 1 : 0;
        };
        book(Component::noc, "byte", bytes * std::abs(distance(from.level) - distance(to.level)));
        book(Component::dma, "descriptor", 1);
        const bool of_system = task.unit == UnitKind::sdma;
        const proto::Dma& dma = of_system ? target_.platform.system_dma() : engine(task).dma();
        book(Component::dma, "burst", std::ceil(bytes / traces::dma_beat_group_bytes(dma.burst_bytes())));
    }

    void product(const BoundTask& task, double own_cycles) {
        const BoundRegion &a = input(task, 0), &b = input(task, 1), &y = output(task);
        const timing::SystolicArray array = timing::array_for(engine(task).array(), a.elem, b.elem);
        const timing::SystolicTime time = timing::systolic_time(array, timing::gemm_shape(program_, task));
        const double macs = double(task.macs), active = macs / array.rate;
        const double all = double(array.rows * array.cols) * own_cycles * target_.array_cycles;
        const ElemType type = b.elem == ElemType::i4 ? b.elem : without_es(a.elem);
        book(Component::array, "mac." + std::string(name_of(type)), macs);
        book(Component::array, "pe.shift", active);
        book(Component::array, "pe.idle", std::max(0.0, all - active));
        const auto bytes = [](double elements, const BoundRegion& region) {
            return elements * bit_width(region.elem) / 8;
        };
        operand(task, a, true, bytes(double(time.a_reads), a));
        operand(task, b, true, bytes(double(time.b_reads), b));
        for (size_t i = 2; i < task.inputs.size(); ++i)
            operand(task, input(task, i), true, double(footprint_of(input(task, i), 0).total_bytes()));
        const double partial = double(time.partial_reads) * accumulator_bytes;
        operand(task, y, true, partial);
        operand(task, y, false, partial + bytes(double(time.writes - time.partial_reads), y));
    }

    void vector(const BoundTask& task) {
        const timing::VectorTime time = timing::vector_time(engine(task).vector(), program_, task);
        const OpcodeSpec& spec = opcode(task.opcode);
        const ElemType type = spec.work == WorkCount::operands ? input(task, 0).elem : output(task).elem;
        book(Component::vector, std::string(energy_action(spec, type)), double(time.work) * time.passes);
        for (size_t i = 0; i < task.inputs.size(); ++i) {
            const auto bytes = double(footprint_of(input(task, i), 0).total_bytes());
            operand(task, input(task, i), true, bytes * (i == 0 ? time.passes : 1));
        }
        operand(task, output(task), false, double(footprint_of(output(task), 0).total_bytes()));
    }

    /// Books a launch: its lanes' operations count as those of floats; its operands as read and written once,
    /// but for what it copies parts of.
    void launch(const BoundTask& task, const kernels::Work& work) {
        book(Component::vector, "op.f32", work.lane_operations);
        for (const uint32_t i : task.inputs) {
            const BoundRegion& region = program_.regions[i];
            if (region.level == Level::l1)
                operand(task, region, true, double(footprint_of(region, 0).total_bytes()));
            else
                copies(task, region, work);
        }
        for (const uint32_t i : task.outputs)
            operand(task, program_.regions[i], false,
                    double(footprint_of(program_.regions[i], 0).total_bytes()));
    }

    /// Counts rows that a kernel copies to L1; their writes there are those of its result.
    void copies(const BoundTask& task, const BoundRegion& from, const kernels::Work& work) {
        const double row = work.length_of_a_copy * bit_width(from.elem) / 8, bytes = work.copies * row;
        const bool ddr = from.level == Level::ddr;
        if (ddr)
            dram(true, work.copies * std::ceil(row / device_.burst_bytes()),
                 work.copies * std::ceil(row / device_.row_bytes()));
        else
            memory(task, from, true, bytes);
        book(Component::noc, "byte", bytes * (ddr ? 2 : 1));
        book(Component::dma, "descriptor", work.copies);
        book(Component::dma, "burst",
             work.copies * std::ceil(row / traces::dma_beat_group_bytes(engine(task).dma().burst_bytes())));
    }

    const BoundProgram& program_;
    const compiler::Target& target_;
    const traces::EnergyPrices& prices_;
    const proto::DdrDevice device_;
    std::vector<double> by_op_;
    uint32_t op_ = 0;
    double instances_ = 0;
};

}  // namespace

Activity::Activity(const BoundProgram& program, const platforms::Platform& platform)
    : active_(traces::component_count, traces::ActiveIntervals(platform.energy().idle_to_gate_cycles())) {
    for (const BoundTask& task : program.tasks) {
        Use use;
        use.unit = task.moves()                 ? Component::dma
                   : task.unit == UnitKind::nmu ? Component::array
                                                : Component::vector;
        for (const auto* regions : {&task.inputs, &task.outputs}) {
            for (const uint32_t number : *regions) {
                const BoundRegion& region = program.regions[number];
                if (region.level == Level::l1) use.l1 = true;
                if (region.level == Level::l2)
                    use.l2_cycles += double(region.extent) / platform.interconnect().link_bytes_per_cycle();
            }
        }
        use.links = use.l2_cycles > 0 && (use.l1 || task.unit == UnitKind::sdma);
        // a transfer keeps L2 busy throughout, a computation while its operand comes
        if (task.moves() && use.l2_cycles > 0) use.l2_cycles = HUGE_VAL;
        uses_.push_back(use);
    }
}

void Activity::add(uint32_t task, double from, double to) {
    const Use& use = uses_[task];
    const auto mark = [&](Component component, double until) {
        const auto first = static_cast<Cycles>(from);
        active_[static_cast<size_t>(component)].add(first, std::max(first + 1, static_cast<Cycles>(until)));
    };
    mark(Component::ctrl, from);
    mark(use.unit, to);
    if (use.l1) mark(Component::l1, to);
    if (use.l2_cycles > 0) mark(Component::l2, std::min(to, from + use.l2_cycles));
    if (use.links) mark(Component::noc, std::min(to, from + use.l2_cycles));
}

std::array<double, traces::component_count> Activity::on(double cycles) {
    std::array<double, traces::component_count> result{};
    for (size_t c = 0; c < result.size(); ++c) {
        for (const auto& [from, to] : active_[c].on_until(static_cast<Cycles>(std::ceil(cycles))))
            result[c] += double(to - from);
        result[c] = std::min(result[c], cycles);
    }
    return result;
}

Energy energy_of(const BoundProgram& program, const compiler::Target& target, const Course& course,
                 const std::map<uint32_t, kernels::Work>& launches) {
    const traces::EnergyPrices prices = platforms::energy_prices(target.platform);
    if (!prices.not_modelled.empty()) return {0, std::vector<double>(program.ops.size(), 0)};
    Counter counter(program, target, prices);
    for (uint32_t s = 0; s < program.statements.size(); ++s) {
        if (program.statements[s].kind != BoundStatement::Kind::task) continue;
        const uint32_t index = program.statements[s].index;
        const auto work = launches.find(s);
        counter.count(program.tasks[index], double(course.instances[index]), course.own_cycles[index],
                      work == launches.end() ? kernels::Work{} : work->second);
    }
    return counter.energy(course);
}

}  // namespace kpu::estimate
