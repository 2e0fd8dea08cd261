#include "compiler/estimate/task_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "isa/footprint.hpp"
#include "model/timing/systolic.hpp"
#include "model/timing/vector.hpp"

namespace kpu::estimate {
namespace {

constexpr double accumulator_bytes = 4;

class Times {
  public:
    Times(const BoundProgram& program, const compiler::Target& target,
          const std::map<uint32_t, kernels::Work>& launches)
        : program_(program),
          target_(target),
          launches_(launches),
          device_(platforms::ddr_device(target.platform)),
          row_cycles_(device_.trc() * 2.0 / target.platform.ddr().data_rate_mtps() *
                      target.platform.clock().core_mhz()) {
        const double cycle = timing::ClockRatios(target.platform.clock()).sram;
        for (const proto::Engine& engine : target.engines) l1_.emplace_back(engine.l1(), cycle);
        first_channel_ = resources_ = first_engine_link + target.engines.size();
        const auto camps = [&](const BoundTask& task) {
            const auto in_few = [&](const BoundRegion& region) {
                return region.level == Level::ddr && lies_in_few(region, runs(footprint_of(region, 0)));
            };
            return task.moves() && (in_few(input(task, 0)) || in_few(output(task)));
        };
        if (target.ddr_channels > 1 && std::any_of(program.tasks.begin(), program.tasks.end(), camps))
            resources_ += static_cast<size_t>(target.ddr_channels);
    }

    size_t resources() const { return resources_; }

    TaskTime of(const BoundTask& task, uint32_t statement) const {
        if (task.moves()) return transfer(task);
        if (task.launches()) return launch(task, launches_.at(statement));
        return task.unit == UnitKind::nmu ? product(task) : vector(task);
    }

  private:
    const BoundRegion& input(const BoundTask& task, size_t i) const {
        return program_.regions[task.inputs[i]];
    }
    const BoundRegion& output(const BoundTask& task) const { return program_.regions[task.outputs[0]]; }
    const proto::Engine& engine(const BoundTask& task) const {
        return target_.engines[static_cast<size_t>(std::max(task.engine, 0))];
    }
    const timing::SramTime& l1(const BoundTask& task) const {
        return l1_[static_cast<size_t>(std::max(task.engine, 0))];
    }

    /// Returns the time until the first byte of an operand is there.
    double read_latency(const BoundTask& task, const BoundRegion& region) const {
        if (region.level == Level::l1) return l1(task).read_latency;
        return target_.l2.read_latency + target_.dma.link.hop;
    }
    double write_latency(const BoundTask& task, const BoundRegion& region) const {
        if (region.level == Level::l1) return l1(task).write_latency;
        return target_.l2.write_latency + target_.dma.link.hop;
    }

    /// Bytes of a region that cross a unit's port, in blocks of 16 cycles (model/unit).
    struct Crossing {
        double port = 0;  ///< cycles until the last byte has passed the port, and L1 with it
        double l1 = 0;    ///< cycles of all of L1
    };
    Crossing cross(const BoundTask& task, const BoundRegion& region, double bytes, double port) const {
        constexpr double block_cycles = 16;
        Crossing of{bytes / port, 0};
        if (region.level != Level::l1 || bytes <= 0) return of;
        const double block = std::min(runs(footprint_of(region, 0)).bytes, block_cycles * port);
        of.l1 = bytes / block * l1(task).share_of(block);
        of.port = std::max(of.port, (bytes - block) / port + l1(task).through(block));
        return of;
    }

    TaskTime product(const BoundTask& task) const {
        const proto::SystolicArray& parameters = engine(task).array();
        const double ratio = 1 / target_.array_cycles;
        const timing::SystolicArray array =
            timing::array_for(parameters, input(task, 0).elem, input(task, 1).elem);
        const timing::SystolicTime time = timing::systolic_time(array, timing::gemm_shape(program_, task));
        const bool physical = array.timing == proto::SystolicArray::physical;
        TaskTime of;
        of.overlaps = physical;
        of.lead = physical ? l1(task).read_latency : 0;
        of.entry_gap = ratio * double(time.entry_gap);
        of.fill = ratio * double(time.weight_load + time.fill + time.waits);
        of.steady = ratio * double(time.steady);
        of.drain = ratio * double(time.drain);
        of.occupancy = ratio * double(time.occupancy);
        const bool os = array.dataflow == proto::SystolicArray::os;
        const size_t stationary = array.dataflow == proto::SystolicArray::is ? 0 : 1;
        const double port = parameters.operand_bytes_per_cycle() / ratio;
        std::vector<double> read;  // cycles of each operand
        for (size_t i = 0; i < task.inputs.size(); ++i) {
            const BoundRegion& region = input(task, i);
            const double reads = i == 0   ? double(time.a_reads)
                                 : i == 1 ? double(time.b_reads)
                                          : double(region.shape.product());
            const Crossing in = cross(task, region, reads * bit_width(region.elem) / 8, port);
            read.push_back(in.port);
            of.in_l1 += in.l1;
        }
        const BoundRegion& y = output(task);
        const double bytes = double(time.writes - time.partial_reads) * bit_width(y.elem) / 8 +
                             double(time.partial_reads) * accumulator_bytes;
        const Crossing out = cross(task, y, bytes, parameters.result_bytes_per_cycle() / ratio);
        of.in_l1 += out.l1;
        of.operands = -1e300;
        for (size_t i = 0; i < task.inputs.size(); ++i) {
            double due = of.fill + of.steady;
            if (physical && i < 2)
                due = ratio * double(!os && i == stationary ? time.stationary_in : time.operands_in);
            of.operands =
                std::max(of.operands, read_latency(task, input(task, i)) + std::max(read[i], of.in_l1) - due);
        }
        const double window = of.fill + of.steady + of.drain - ratio * double(time.first_result);
        of.result = std::max(0.0, out.port - window) + write_latency(task, y);
        return of;
    }

    TaskTime vector(const BoundTask& task) const {
        const proto::Vector& parameters = engine(task).vector();
        const timing::VectorTime time = timing::vector_time(parameters, program_, task);
        TaskTime of;
        of.overlaps = true;
        of.steady = of.occupancy = double(time.steady);
        of.drain = double(time.latency);
        const double bytes = double(footprint_of(output(task), 0).total_bytes());
        const Crossing out = cross(task, output(task), bytes, parameters.result_bytes_per_cycle());
        of.in_l1 = out.l1;
        std::vector<double> read;  // cycles of each operand
        for (size_t i = 0; i < task.inputs.size(); ++i) {
            const double passed =
                double(footprint_of(input(task, i), 0).total_bytes()) * (i == 0 ? time.passes : 1);
            const Crossing in = cross(task, input(task, i), passed, parameters.operand_bytes_per_cycle());
            read.push_back(in.port);
            of.in_l1 += in.l1;
        }
        of.operands = -1e300;
        for (size_t i = 0; i < task.inputs.size(); ++i) {
            const double through = std::max({of.steady, read[i], of.in_l1});
            of.operands = std::max(of.operands, read_latency(task, input(task, i)) + through - of.steady);
        }
        const double window = of.steady / time.passes;
        of.result = std::max(0.0, out.port - window) + write_latency(task, output(task));
        return of;
    }

    /// Times a launch's workgroups, side by side on all units that may take them.
    TaskTime launch(const BoundTask& task, const kernels::Work& work) const {
        const proto::Vector& parameters = engine(task).vector();
        TaskTime of;
        of.steady = of.occupancy =
            work.lane_operations / target_.lanes_of(work) + target_.copy_cycles(work, output(task).elem);
        of.drain = std::max(1u, parameters.pipeline_latency_cycles());
        return of;
    }

    // ---- transfers

    int64_t channel_period() const { return target_.ddr_channels * target_.ddr_interleave; }

    /// Returns where a region begins in the first two iterations of loops.
    static std::array<int64_t, 2> beginnings(const BoundRegion& region) {
        std::array<int64_t, 2> result{};
        for (size_t i = 0; i < result.size(); ++i) {
            LoopValues loops;
            for (size_t depth = 0; depth < loops.inline_values.size(); ++depth)
                loops.push(static_cast<int64_t>(i));
            result[i] = region.address.eval(loops);
        }
        return result;
    }
    /// True for rows in few of DRAM's channels, which stay the same ones while loops go on.
    bool lies_in_few(const BoundRegion& region, const compiler::Runs& of) const {
        if (target_.channel_share(of) >= 1) return false;
        const auto [first, second] = beginnings(region);
        return (second - first) % channel_period() == 0;
    }
    /// Adds a flow's demand on each channel, by what lies in it: others that lie in the same ones wait,
    /// however idle the rest is.
    void add_channels(const BoundRegion& region, const compiler::Runs& of, double pins, Flow& flow) const {
        const auto channels = static_cast<size_t>(target_.ddr_channels);
        if (resources_ == first_channel_) return;
        std::vector<double> lies(channels, 1);
        if (lies_in_few(region, of)) {
            lies.assign(channels, 0);
            const int64_t begin = beginnings(region)[0];
            const int64_t apart = std::gcd(of.stride, channel_period());
            const auto blocks = static_cast<int64_t>(std::ceil(of.bytes / double(target_.ddr_interleave)));
            for (int64_t start = 0; start < channel_period(); start += apart) {
                for (int64_t block = 0; block < blocks; ++block) {
                    const int64_t at = (begin + start) / target_.ddr_interleave + block;
                    lies[static_cast<size_t>(at) % channels] += 1;
                }
            }
        }
        const double sum = std::accumulate(lies.begin(), lies.end(), 0.0);
        for (size_t c = 0; c < channels; ++c)
            flow.demand[first_channel_ + c] += pins * double(channels) * lies[c] / sum;
    }

    static compiler::Runs runs(const Footprint& bytes) {
        const double run = std::max<double>(1, double(bytes.run_bytes));
        return {double(bytes.total_bytes()) / run, run, bytes.dims > 0 ? bytes.stride_bytes[0] : 0};
    }

    /// Adds what a flow takes of DRAM's pins, and how much longer it takes as its rows do not lie in all
    /// channels.
    void add_pins(const BoundRegion& region, const compiler::Runs& of, bool reads, Flow& flow) const {
        constexpr double burst = compiler::dram_burst_bytes;
        const double moved =
            of.count * target_.dram_bursts(of) * burst / target_.ddr_bytes_per_cycle * target_.same_group(of);
        // rows of a channel's banks are opened while data of others moves; a bank opens one in tRC
        const double page = target_.ddr_page_bytes, channels = double(target_.ddr_channels);
        const double stride = double(of.stride) / channels;
        const auto banks = static_cast<int64_t>(device_.banks_per_group());
        const auto step = static_cast<int64_t>(std::max(1.0, std::round(stride / page)));
        const double visited = double(banks) / double(std::gcd(step, banks));
        const double opened = of.count > 1 ? of.count / channels * std::min(1.0, stride / page) : 0;
        const double pages = opened * row_cycles_ / visited;
        const double pins = std::max(moved, pages);
        flow.demand[ddr_pins] += pins;
        add_channels(region, of, pins, flow);
        if (!reads) flow.turning = target_.turning(of);
        if (of.count > 1) flow.closing = std::max(0.0, moved + target_.closed_pages(of) - pins);
        flow.alone = std::max(flow.alone, pins / target_.channel_share(of));
    }

    /// Finds where runs begin, in the first two iterations of loops.
    void find_beginnings(const BoundRegion& from, const BoundRegion& to, compiler::Runs& source,
                         compiler::Runs& destination) const {
        const int64_t cut = target_.cut_bytes;
        bool alike = cut > 0 && (source.count == 1) == (destination.count == 1) &&
                     (source.stride - destination.stride) % cut == 0;
        const std::array<int64_t, 2> a = beginnings(from), b = beginnings(to);
        for (size_t i = 0; i < a.size(); ++i) {
            source.apart = std::gcd(source.apart, a[i]);
            destination.apart = std::gcd(destination.apart, b[i]);
            alike = alike && (a[i] - b[i]) % cut == 0;
        }
        source.alike = destination.alike = alike;
    }

    /// Returns the time from a burst's arrival at a memory until it leaves it; none where a DRAM controller
    /// answers, which no link holds up.
    double from_source(const BoundRegion& from, double burst) const {
        if (from.level == Level::ddr)
            return target_.platform.ddr().fidelity() == "burst" ? 0 : target_.ddr_latency_cycles;
        const timing::SramTime& memory = from.level == Level::l2 ? target_.l2 : l1_[from.engine];
        return memory.through(burst) + memory.read_latency;
    }

    TaskTime transfer(const BoundTask& task) const {
        const BoundRegion &from = input(task, 0), &to = output(task);
        const bool of_system = task.unit == UnitKind::sdma;
        const compiler::Mover& mover = of_system       ? target_.system
                                       : task.stores() ? target_.store
                                                       : target_.dma;
        const proto::Dma& dma = of_system ? target_.platform.system_dma() : engine(task).dma();
        compiler::Runs source = runs(footprint_of(from, 0)), destination = runs(footprint_of(to, 0));
        find_beginnings(from, to, source, destination);
        const compiler::Runs& cut = source.count >= destination.count ? source : destination;
        TaskTime of;
        of.moves = true;
        Flow& flow = of.flow;
        flow.bytes = std::max(1.0, cut.all());
        flow.demand.assign(resources_, 0);
        const double unit = mover.unit_cycles(cut) - mover.descriptor_cycles;
        of.before = mover.descriptor_cycles;
        of.port = flow.bytes / mover.port;
        flow.alone = flow.issue = std::max(1.0, unit);
        const double burst = std::min(double(dma.burst_bytes()), cut.bytes), bursts = flow.bytes / burst;
        // cycles of a burst: in all that it passes, in the slowest of it
        double passing = 0, slowest = 0;
        const auto pass = [&](double cycles) {
            passing += cycles;
            slowest = std::max(slowest, cycles);
        };
        pass(burst / mover.port);
        for (const BoundRegion* side : {&from, &to}) {
            const bool read = side == &from;
            if (side->level == Level::ddr) {
                add_pins(*side, read ? source : destination, read, flow);
                of.behind += target_.ddr_latency_cycles;
            } else if (side->level == Level::l2) {
                flow.demand[l2_ports] += bursts * target_.l2.share_of(burst);
                pass(target_.l2.through(burst));
                of.behind += read ? target_.l2.read_latency : target_.l2.write_latency;
            } else {
                // what passes an engine's link passes its L1
                const timing::SramTime& own = l1_[side->engine];
                of.in_l1 = bursts * own.share_of(burst);
                flow.demand[first_engine_link + side->engine] +=
                    std::max(target_.dma.link_cycles(cut), of.in_l1);
                pass(own.through(burst));
                of.behind += read ? own.read_latency : own.write_latency;
            }
        }
        const double fetched = from_source(from, burst);
        const auto pass_link = [&](const timing::LinkTime& link) {
            const double occupied = burst / link.bytes_per_cycle();
            pass(occupied);
            of.behind += link.hop;
            // the source takes a burst when the link has room for it
            if (link.queue > 0)
                flow.alone = std::max(flow.alone, bursts / link.queue * (fetched + occupied + link.hop));
        };
        if (from.level == Level::l1 || to.level == Level::l1) pass_link(target_.dma.link);
        if (from.level == Level::ddr || to.level == Level::ddr) {
            flow.demand[system_link] += target_.system.link_cycles(cut);
            pass_link(target_.system.link);
        }
        for (const double cycles : flow.demand) flow.alone = std::max(flow.alone, cycles);
        // Little: the bytes on their way over the time that they are
        flow.window = double(std::max(1u, dma.max_outstanding_bursts())) * burst;
        flow.alone = std::max(flow.alone, flow.bytes * (of.behind + passing) / flow.window);
        of.behind += passing - slowest;  // the last burst leaves the slowest, and has the rest to go
        return of;
    }

    const BoundProgram& program_;
    const compiler::Target& target_;
    const std::map<uint32_t, kernels::Work>& launches_;
    const proto::DdrDevice device_;
    const double row_cycles_;           ///< from one row of a bank to its next
    std::vector<timing::SramTime> l1_;  ///< indexed by engine
    size_t first_channel_ = 0, resources_ = 0;
};

}  // namespace

TaskTimes task_times(const BoundProgram& program, const compiler::Target& target,
                     const std::map<uint32_t, kernels::Work>& launches) {
    const Times times(program, target, launches);
    TaskTimes result{std::vector<TaskTime>(program.tasks.size()), times.resources()};
    for (uint32_t s = 0; s < program.statements.size(); ++s) {
        if (program.statements[s].kind != BoundStatement::Kind::task) continue;
        const uint32_t index = program.statements[s].index;
        result.of[index] = times.of(program.tasks[index], s);
    }
    return result;
}

}  // namespace kpu::estimate
