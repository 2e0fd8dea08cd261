#include "model/array/array_unit.hpp"

#include <algorithm>

#include "isa/mac_share.hpp"
#include "model/timing/systolic.hpp"
#include "model/unit/unit_module.hpp"
#include "platforms/platform.hpp"

namespace kpu::model {

namespace {

constexpr uint64_t accumulator_bytes = 4;

uint64_t bytes_of(uint64_t elements, ElemType elem) {
    return (elements * static_cast<uint64_t>(bit_width(elem)) + 7) / 8;
}

/// Walks over what has `own` bytes that move `bytes`.
uint32_t walks(uint64_t bytes, uint64_t own) {
    own = std::max<uint64_t>(own, 1);
    return static_cast<uint32_t>(std::clamp<uint64_t>((bytes + own - 1) / own, 1, UINT32_MAX));
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
    /// Converts an amount per array cycle to one per core cycle, at least 1.
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

/// Returns when the last element of an operand enters a physical array, in cycles from the begin.
Cycles due_of(size_t operand, const timing::SystolicArray& array, const timing::SystolicTime& time) {
    const size_t stationary = array.dataflow == proto::SystolicArray::is ? 0 : 1;
    if (array.dataflow == proto::SystolicArray::os || operand != stationary) return time.operands_in;
    return time.stationary_in;
}

timing::OperandPorts operand_ports(const proto::SystolicArray& array, ElemType a, ElemType b) {
    const uint64_t bits = 8 * uint64_t{array.operand_bytes_per_cycle()};
    return {bits, bits, static_cast<uint32_t>(bit_width(a)), static_cast<uint32_t>(bit_width(b))};
}

/// Returns the type that a MAC is priced as.
ElemType priced_type(ElemType a, ElemType b) {
    return a == ElemType::i8 && b == ElemType::i4 ? ElemType::i4 : a;
}

}  // namespace

uint32_t ArrayUnit::port(uint32_t bytes_per_array_cycle) const {
    return static_cast<uint32_t>(ArrayClock(*place().platform).per_core_cycle(bytes_per_array_cycle));
}

ArrayUnit::Operand ArrayUnit::operand_of(const BoundTask& task, OperandRef ref) const {
    const BoundRegion& region = region_of(task, ref);
    return {region.elem, static_cast<uint64_t>(region.shape.product()), region_side(task, ref), ref};
}

TaskPlan ArrayUnit::plan(const BoundTask& task, uint32_t) {
    Work work;
    work.op = task.op;
    work.shape = timing::gemm_shape(*place().program, task);
    for (size_t i = 0; i < task.inputs.size(); ++i) work.inputs.push_back(operand_of(task, input(i)));
    work.result = operand_of(task, output(0));
    return plan(work);
}

TaskPlan ArrayUnit::plan_product(const Product& product) {
    Work work;
    work.op = product.op;
    work.shape = {product.m, product.n, product.k, product.groups};
    uint64_t address = product.address;
    const auto next = [&](ElemType elem, uint64_t elements) {
        Operand operand{elem, elements, {}, {}};
        operand.side.is_memory = true;
        operand.side.level = Level::l1;
        operand.side.engine = place().engine;
        operand.side.pattern.address = address;
        operand.side.pattern.run_bytes = bytes_of(elements, elem);
        // what does not fit after it begins at the same place
        const uint64_t end = address + operand.side.pattern.run_bytes;
        if (end <= place().engine_platform->l1().size_bytes()) address = end;
        return operand;
    };
    work.inputs.push_back(next(product.a, product.groups * product.m * product.k));
    work.inputs.push_back(next(product.b, product.groups * product.k * product.n));
    work.result = next(product.result, product.groups * product.m * product.n);
    return plan(work);
}

ArrayUnit::Formula ArrayUnit::formula_of(const Work& work) const {
    const ElemType a = work.inputs[0].elem, b = work.inputs[1].elem;
    const proto::SystolicArray& parameters = place().engine_platform->array();
    const ArrayClock clock(*place().platform);
    Formula formula;
    formula.array = timing::array_for(parameters, a, b);
    formula.time = clock.in_core(timing::systolic_time(formula.array, work.shape));
    formula.macs = work.shape.macs();
    formula.peak_q16 = clock.per_core_cycle(formula.array.peak_q16());
    if (formula.array.timing == proto::SystolicArray::physical) {
        const auto starved =
            timing::starved_operands_in(formula.array, work.shape, operand_ports(parameters, a, b));
        if (starved) formula.starved_operands_in = clock.in_core(*starved);
    }
    return formula;
}

TaskPlan ArrayUnit::plan(const Work& work) const {
    const Formula formula = formula_of(work);
    const timing::SystolicTime& time = formula.time;
    const bool physical = formula.array.timing == proto::SystolicArray::physical;
    TaskPlan plan;
    plan.fill = time.weight_load + time.fill + time.waits;
    plan.steady = time.steady;
    plan.drain = time.drain;
    plan.work = mac_share(*place().program, work.op).useful(formula.macs);
    plan.repeated = formula.macs - plan.work;
    plan.peak_q16 = formula.peak_q16;
    plan.unit_cycles_q16 = ArrayClock(*place().platform).per_core_cycle(65536);
    plan.processing_elements = formula.array.rows * formula.array.cols;
    plan.overlap = plan.prefetch = physical;
    plan.lead = physical ? place().engine_platform->l1().read_latency_cycles() : 0;
    plan.entry_gap = time.entry_gap;
    plan.occupancy = time.occupancy;
    plan.result_after_operands = physical && time.folds <= 1;
    plan.first_result = time.first_result;
    plan.macs = mac_work(work.inputs[0].elem, work.inputs[1].elem);
    plan_operands(work, formula, plan);
    plan_result(work, formula, plan);
    plan_energy(work, plan);
    return plan;
}

void ArrayUnit::plan_operands(const Work& work, const Formula& formula, TaskPlan& plan) const {
    const timing::SystolicTime& time = formula.time;
    const bool physical = formula.array.timing == proto::SystolicArray::physical;
    const proto::SystolicArray& parameters = place().engine_platform->array();
    const Cycles steady_end = plan.fill + plan.steady;
    for (size_t i = 0; i < work.inputs.size(); ++i) {
        const uint64_t reads = i == 0 ? time.a_reads : i == 1 ? time.b_reads : 0;
        const Cycles due = physical && i < 2 ? due_of(i, formula.array, time) : steady_end;
        add_operand(work, work.inputs[i], bytes_of(reads, work.inputs[i].elem), {0, due},
                    port(parameters.operand_bytes_per_cycle()), plan);
        // the reference tool's array asks for its operands in the steady state, and has the fill to get them
        if (!physical) plan.operands.back().request.pace_cycles = time.steady;
    }
    if (formula.starved_operands_in)
        starve_uneven_folds(plan, *formula.starved_operands_in, time.operands_in);
    const uint64_t partial = time.partial_reads * accumulator_bytes;
    // folds over K after the first read the partial sums back, from the place of the result
    if (partial > 0) {
        const Cycles first_fold = ArrayClock(*place().platform).in_core(formula.array.rows);
        add_operand(work, work.result, partial, {first_fold + time.steady / time.folds, steady_end},
                    port(parameters.result_bytes_per_cycle()), plan);
    }
}

void ArrayUnit::plan_result(const Work& work, const Formula& formula, TaskPlan& plan) const {
    const timing::SystolicTime& time = formula.time;
    const uint32_t result_port = port(place().engine_platform->array().result_bytes_per_cycle());
    const Operand& result = work.result;
    PlannedStream stream_out = port_stream(work.op, result.side, false, result_port);
    stream_out.destination = result.ref;
    stream_out.request.destination.repeat = walks(
        time.partial_reads * accumulator_bytes + bytes_of(time.writes - time.partial_reads, result.elem),
        bytes_of(result.elements, result.elem));
    plan.results.push_back(stream_out);
}

void ArrayUnit::plan_energy(const Work& work, TaskPlan& plan) const {
    using traces::Component;
    using Basis = EnergyAction::Basis;
    const ElemType type = priced_type(work.inputs[0].elem, work.inputs[1].elem);
    const uint64_t macs = plan.work + plan.repeated;
    // at rate r an element does r MACs in a cycle in which it is active
    const auto active = static_cast<uint64_t>(double(macs) * double(plan.processing_elements) *
                                              double(plan.unit_cycles_q16) / double(plan.peak_q16));
    plan.energy = {{Component::array, "mac." + std::string(name_of(without_es(type))), macs, Basis::task},
                   {Component::array, "pe.shift", active, Basis::active},
                   {Component::array, "pe.idle", active, Basis::idle}};
}

/// MACs of a type per core cycle, of all arrays of the device.
MacWork ArrayUnit::mac_work(ElemType a, ElemType b) const {
    __extension__ typedef unsigned __int128 Wide;
    const proto::Platform& platform = *place().platform;
    MacWork work{a, b, timing::rate_name(a, b), 0};
    for (const proto::Engine& engine : platforms::engines_of(platform)) {
        for (const proto::MacRate& rate : engine.array().rate()) {
            if (rate.type() != work.type) continue;
            work.device_peak_q16 +=
                timing::array_for(engine.array(), a, b).peak_q16() * engine.array().count();
        }
    }
    work.device_peak_q16 =
        static_cast<uint64_t>(static_cast<Wide>(work.device_peak_q16) *
                              platforms::array_clock(platform).hz() / platforms::core_clock(platform).hz());
    return work;
}

/// A stream's reads are spread evenly over the task. Where whole folds ask for more than a port delivers, and
/// edge folds for less, the array waits for longer than that.
void ArrayUnit::starve_uneven_folds(TaskPlan& plan, Cycles starved, Cycles operands_in) {
    Cycles waits = 0;  // of streams that are spread evenly
    for (size_t i = 0; i < 2; ++i) {
        const Cycles through = plan.operands[i].earliest - plan.lead, due = plan.operands[i].due;
        waits = std::max(waits, through - std::min(through, due));
    }
    plan.uneven = starved - std::min(starved, operands_in + waits);
}

void ArrayUnit::add_operand(const Work& work, const Operand& operand, uint64_t bytes, Window window,
                            uint32_t port_bytes, TaskPlan& plan) const {
    const uint64_t own = bytes_of(operand.elements, operand.elem);
    PlannedStream planned = port_stream(work.op, operand.side, true, port_bytes);
    planned.source = operand.ref;
    StreamRequest& request = planned.request;
    request.source.repeat = walks(bytes, own);
    request.pace_offset = window.from;
    request.pace_cycles = window.to - window.from;
    const uint64_t moved = request.source.repeat * own;
    planned.due = window.to;
    planned.earliest = plan.overlap ? plan.lead + (moved + port_bytes - 1) / port_bytes : 0;
    plan.operands.push_back(planned);
}

extern const UnitModule array_unit_module;
const UnitModule array_unit_module{{UnitKind::nmu}, make_unit<ArrayUnit>};

}  // namespace kpu::model
