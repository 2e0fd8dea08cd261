#include "model/array/array_unit.hpp"

#include <algorithm>

#include "model/timing/systolic.hpp"
#include "platforms/platform.hpp"

namespace kpu::model {

namespace {

constexpr uint64_t accumulator_bytes = 4;

uint64_t bytes_of(const values::RegionView& view) {
    return (static_cast<uint64_t>(view.region->shape.product()) * bit_width(view.region->elem) + 7) / 8;
}

/// Walks over a region that move `bytes`.
uint32_t walks(uint64_t bytes, const values::RegionView& view) {
    const uint64_t own = std::max<uint64_t>(bytes_of(view), 1);
    return static_cast<uint32_t>(std::clamp<uint64_t>((bytes + own - 1) / own, 1, UINT32_MAX));
}

uint64_t bytes_of(uint64_t elements, const values::RegionView& view) {
    return (elements * bit_width(view.region->elem) + 7) / 8;
}

/// The formulas count cycles of the array's own clock, the unit core cycles.
class ArrayClock {
  public:
    explicit ArrayClock(const proto::Platform& platform)
        : core_(platforms::core_clock(platform).hz()), array_(platforms::array_clock(platform).hz()) {}
    Cycles in_core(Cycles cycles) const {
        if (core_ == array_) return cycles;
        return static_cast<Cycles>((static_cast<Wide>(cycles) * core_ + array_ - 1) / array_);
    }
    /// Of something per array cycle: per core cycle, at least 1.
    uint64_t per_core_cycle(uint64_t amount) const {
        if (core_ == array_) return amount;
        return std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<Wide>(amount) * array_ / core_));
    }
    timing::SystolicTime in_core(timing::SystolicTime time) const {
        for (Cycles* part :
             {&time.weight_load, &time.fill, &time.waits, &time.steady, &time.drain, &time.padding,
              &time.stationary_in, &time.operands_in, &time.occupancy, &time.entry_gap, &time.first_result})
            *part = in_core(*part);
        return time;
    }

  private:
    __extension__ typedef unsigned __int128 Wide;
    uint64_t core_, array_;
};

/// When the last element of an operand enters a physical array, in cycles from the begin.
Cycles due_of(size_t operand, const timing::SystolicArray& array, const timing::SystolicTime& time) {
    const size_t stationary = array.dataflow == proto::SystolicArray::is ? 0 : 1;
    if (array.dataflow == proto::SystolicArray::os || operand != stationary) return time.operands_in;
    return time.stationary_in;
}

timing::OperandPorts operand_ports(const proto::SystolicArray& array, const execution::TaskInstance& task) {
    const uint64_t bits = 8 * uint64_t{array.operand_bytes_per_cycle()};
    const auto element = [&](size_t i) {
        return static_cast<uint32_t>(bit_width(task.inputs[i].region->elem));
    };
    return {bits, bits, element(0), element(1)};
}

}  // namespace

const ArrayUnit::Formula& ArrayUnit::formula_of(const execution::TaskInstance& task) {
    const auto known = formulas_.find(task.task);
    if (known != formulas_.end()) return known->second;
    const proto::SystolicArray& parameters = place().engine_platform->array();
    const ArrayClock clock(*place().platform);
    Formula formula;
    formula.array = timing::array_for(parameters, task.inputs[0].region->elem, task.inputs[1].region->elem);
    const timing::GemmShape shape = timing::gemm_shape(*place().program, *task.task);
    formula.time = clock.in_core(timing::systolic_time(formula.array, shape));
    formula.macs = shape.macs();
    formula.peak_q16 = clock.per_core_cycle(formula.array.peak_q16());
    if (formula.array.timing == proto::SystolicArray::physical) {
        const auto starved =
            timing::starved_operands_in(formula.array, shape, operand_ports(parameters, task));
        if (starved) formula.starved_operands_in = clock.in_core(*starved);
    }
    return formulas_.emplace(task.task, formula).first->second;
}

void ArrayUnit::plan(Job& job) {
    const execution::TaskInstance& task = *job.command->task;
    const proto::SystolicArray& parameters = place().engine_platform->array();
    const Formula& formula = formula_of(task);
    const timing::SystolicArray& array = formula.array;
    const timing::SystolicTime& time = formula.time;
    const ArrayClock clock(*place().platform);
    const auto port = [&](uint32_t bytes) { return static_cast<uint32_t>(clock.per_core_cycle(bytes)); };
    const uint32_t operand_port = port(parameters.operand_bytes_per_cycle());
    const uint32_t result_port = port(parameters.result_bytes_per_cycle());
    const bool physical = array.timing == proto::SystolicArray::physical;

    TaskReport& report = job.command->report;
    report.fill = time.weight_load + time.fill + time.waits;
    report.steady = time.steady;
    report.drain = time.drain;
    report.work = formula.macs;
    report.peak_q16 = formula.peak_q16;
    report.unit_cycles_q16 = clock.per_core_cycle(65536);
    report.processing_elements = array.rows * array.cols;
    job.overlap = job.prefetch = physical;
    job.lead = physical ? place().engine_platform->l1().read_latency_cycles() : 0;
    job.entry_gap = time.entry_gap;
    job.occupancy = time.occupancy;
    job.result_after_operands = physical && time.folds <= 1;
    job.first_result = time.first_result;

    const Cycles steady_end = report.fill + report.steady;
    for (size_t i = 0; i < task.inputs.size(); ++i) {
        const uint64_t reads = i == 0 ? time.a_reads : i == 1 ? time.b_reads : 0;
        const Cycles due = physical && i < 2 ? due_of(i, array, time) : steady_end;
        add_operand(job, task.inputs[i], bytes_of(reads, task.inputs[i]), {0, due}, operand_port);
        // the reference tool's array asks for its operands in the steady state, and has the fill to get them
        if (!physical) job.operands.back().stream->extension.request.pace_cycles = time.steady;
    }
    if (formula.starved_operands_in) starve_uneven_folds(job, *formula.starved_operands_in, time.operands_in);
    const values::RegionView& result = task.outputs[0];
    const uint64_t partial = time.partial_reads * accumulator_bytes;
    // folds over K after the first read the partial sums back, from the place of the result
    if (partial > 0) {
        add_operand(job, result, partial, {clock.in_core(array.rows) + time.steady / time.folds, steady_end},
                    result_port);
    }
    job.results.push_back(memory_stream(job, result, false, result_port));
    job.results[0]->extension.request.destination.repeat =
        walks(partial + bytes_of(time.writes - time.partial_reads, result), result);
}

/// A stream's reads are spread evenly over the task. Where whole folds ask for more than a port delivers, and
/// edge folds for less, the array waits for longer than that.
void ArrayUnit::starve_uneven_folds(Job& job, Cycles starved, Cycles operands_in) {
    Cycles waits = 0;  // of streams that are spread evenly
    for (size_t i = 0; i < 2; ++i) {
        const Cycles through = job.operands[i].earliest - job.lead, due = job.operands[i].due;
        waits = std::max(waits, through - std::min(through, due));
    }
    job.uneven = starved - std::min(starved, operands_in + waits);
}

void ArrayUnit::add_operand(Job& job, const values::RegionView& view, uint64_t bytes, Window window,
                            uint32_t port) {
    auto operand = memory_stream(job, view, true, port);
    StreamRequest& request = operand->extension.request;
    request.source.repeat = walks(bytes, view);
    request.pace_offset = window.from;
    request.pace_cycles = window.to - window.from;
    const uint64_t moved = request.source.repeat * bytes_of(view);
    const Cycles earliest = job.overlap ? job.lead + (moved + port - 1) / port : 0;
    job.operands.push_back({std::move(operand), window.to, earliest});
}

}  // namespace kpu::model
