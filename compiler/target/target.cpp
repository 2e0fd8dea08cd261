#include "compiler/target/target.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "platforms/ddr.hpp"
#include "platforms/units.hpp"

namespace kpu::compiler {
namespace {

double ddr_bytes_per_cycle(const platforms::Platform& platform) {
    const proto::DdrDevice device = platforms::ddr_device(platform);
    const double bytes_per_us =
        double(platform.ddr().data_rate_mtps()) * device.bus_width_bits() / 8 * platform.ddr().channels();
    const double refreshes = device.trefi() > 0 ? double(device.trfc()) / device.trefi() : 0;
    return bytes_per_us / platform.clock().core_mhz() * (1 - refreshes);
}

/// Returns the latency of a read whose row is closed: the controller both ways, the row, the column, the
/// burst.
double ddr_latency_ns(const platforms::Platform& platform) {
    const proto::DdrDevice device = platforms::ddr_device(platform);
    const proto::Ddr& ddr = platform.ddr();
    const double half = ddr.controller_latency_ns() / 2.0;
    double controller = 2 * half;
    if (ddr.fidelity() == "burst" && ddr.controller().has_request_nck())
        controller += ddr.controller().request_nck() * device.tck_ns() - half;
    if (ddr.fidelity() == "burst" && ddr.controller().has_response_nck())
        controller += ddr.controller().response_nck() * device.tck_ns() - half;
    return controller + device.tck_ns() * (device.trcd() + device.cl() + device.burst_nck());
}

Mover mover(const proto::Dma& dma, const timing::LinkTime& link) {
    Mover result;
    result.port = dma.bytes_per_cycle();
    result.link = link;
    result.burst = dma.burst_bytes();
    result.row_cycles = dma.row_cycles();
    result.descriptor_cycles = dma.descriptor_cycles();
    result.units = dma.channels();
    return result;
}

/// Returns how often, on average, a run meets a multiple of `burst` between its ends, if runs begin at
/// multiples of `step`.
double crossings(double run, int64_t step, int64_t burst) {
    const auto apart = static_cast<double>(std::gcd(step, burst));
    return (std::ceil(run / apart) - 1) * apart / static_cast<double>(burst);
}

bool binds(const TypeVariant::Binding& binding, const std::vector<OperandSpec>& operands,
           const std::vector<ElemType>& types, bool product) {
    for (size_t i = 0; i < operands.size(); ++i) {
        if (operands[i].name != binding.operand) continue;
        const bool given = i < types.size();
        if (binding.absent) return !given;
        if (!given) return !product;  // a product's bias is there exactly when the variant binds it
        return binding.any || types[i] == binding.type;
    }
    return true;  // of another operand
}

}  // namespace

/// Returns the cycles at `width` bytes a cycle. Transfers are cut at the ends of runs and where either side
/// has a multiple of the burst, and every piece takes whole cycles.
double Mover::burst_cycles(const Runs& runs, double width) const {
    const auto size = static_cast<int64_t>(burst), run = static_cast<int64_t>(runs.bytes);
    const int64_t here = runs.here(), there = runs.there();
    if (here % size == 0 && (runs.alike || there % size == 0)) {
        const double full = std::floor(runs.bytes / burst);
        return runs.count *
               (full * std::ceil(burst / width) + std::ceil((runs.bytes - full * burst) / width));
    }
    const double pieces =
        1 + crossings(runs.bytes, here, size) + (runs.alike ? 0 : crossings(runs.bytes, there, size));
    const auto apart = static_cast<double>(std::gcd(std::gcd(run, here), static_cast<int64_t>(width)));
    return runs.count * std::max(pieces, runs.bytes / width + pieces * (width - apart) / (2 * width));
}

double Mover::unit_cycles(const Runs& runs) const {
    return descriptor_cycles + runs.count * row_cycles + burst_cycles(runs, port);
}
double Mover::link_cycles(const Runs& runs) const { return link.cycle * burst_cycles(runs, link.width); }

Target::Target(const platforms::Platform& of) : limits(platforms::limits_of(of)), platform(of) {
    l1_bytes = limits.l1_bytes;
    for (const proto::Engine& engine : platforms::engines_of(platform)) {
        engines.push_back(engine);
        l1_bytes = std::min<uint64_t>(l1_bytes, engine.l1().size_bytes());
    }
    staging_bytes = l1_bytes;
    l2_bytes = limits.l2_bytes;
    ddr_bytes = limits.ddr_bytes;
    const proto::Engine& engine = engines.at(0);
    dma = mover(engine.dma(), timing::engine_link(platform));
    system = mover(platform.system_dma(), timing::system_link(platform));
    store = dma;
    if (!platform.store_on_dma()) {
        store.port =
            std::min(engine.vector().operand_bytes_per_cycle(), engine.vector().result_bytes_per_cycle());
        store.units = std::max(1u, engine.vector().cstl_count());
    }
    const timing::ClockRatios clocks(platform.clock());
    array_cycles = 1 / clocks.array;
    l1 = timing::SramTime(engine.l1(), clocks.sram);
    l2 = timing::SramTime(platform.l2(), clocks.sram);
    ddr_bytes_per_cycle = compiler::ddr_bytes_per_cycle(platform);
    const proto::DdrDevice device = platforms::ddr_device(platform);
    // several transfers at once close each other's pages at times: measured on strided tiles
    constexpr double closed = 0.4;
    ddr_row_cycles =
        closed * device.trc() * 2 / platform.ddr().data_rate_mtps() * platform.clock().core_mhz();
    ddr_page_bytes = double(device.row_bytes()) * device.bank_groups();
    ddr_bank_groups = std::max(1u, device.bank_groups());
    ddr_group_cycles = double(device.tccd_l()) / device.burst_nck();
    // from write to read data, and back
    const double turn = double(device.twtr_l()) + device.rd_to_wr() + device.cwl() - device.burst_nck();
    ddr_turn_cycles = std::max(0.0, turn) / device.burst_nck() * dram_burst_bytes / ddr_bytes_per_cycle;
    const proto::DdrController& usual = platforms::default_ddr_controller();
    const proto::DdrController& own = platform.ddr().controller();
    if (platform.ddr().fidelity() == "burst")
        ddr_batch_bursts = double(own.has_write_high() ? own.write_high() : usual.write_high()) -
                           double(own.has_write_low() ? own.write_low() : usual.write_low());
    ddr_channels = std::max(1u, platform.ddr().channels());
    ddr_interleave = std::max(1u, platform.ddr().channel_interleave_bytes());
    // both sides' bursts, as the memory system has them
    cut_bytes = std::min<int64_t>(platform.system_dma().burst_bytes(), ddr_interleave);
    const int64_t of_l2 =
        std::max<int64_t>(platform.system_dma().burst_bytes(), platform.l2().interleave_bytes());
    if (cut_bytes < dram_burst_bytes || of_l2 % cut_bytes != 0 || int64_t{tile_align} % of_l2 != 0)
        cut_bytes = 0;
    launch_cycles = platform.sequencer().launch_cycles();
    dispatch_cycles = platform.sequencer().dispatch_cycles();
    ddr_latency_cycles = ddr_latency_ns(platform) * platform.clock().core_mhz() / 1000;
}

double Target::array_busy(const timing::SystolicTime& time, const timing::GemmShape& shape,
                          const ProductBytes& bytes) const {
    const proto::SystolicArray& array = engines[0].array();
    const double operands = array.operand_bytes_per_cycle(),
                 results = double(shape.m * shape.n * shape.groups);
    return std::max({double(time.occupancy), double(time.a_reads) * bytes.a / operands,
                     double(time.b_reads) * bytes.b / operands, results * bytes.sums / operands,
                     results * bytes.result / array.result_bytes_per_cycle()});
}

double Target::l1_busy(const timing::SystolicTime& time, const timing::GemmShape& shape,
                       const ProductBytes& bytes) const {
    const double results = double(shape.m * shape.n * shape.groups);
    return (double(time.a_reads) * bytes.a + double(time.b_reads) * bytes.b +
            results * (bytes.sums + bytes.result)) /
           l1.bytes_per_cycle;
}

double Target::dram_bursts(const Runs& of) const {
    const auto step = double(std::gcd(of.here(), dram_burst_bytes));
    const double touched = (std::ceil(of.bytes / step) * step + dram_burst_bytes - step) / dram_burst_bytes;
    if (of.alike || cut_bytes == 0) return touched;
    const double within =
        1 - double(std::gcd(std::gcd(of.here(), of.there()), dram_burst_bytes)) / dram_burst_bytes;
    return touched + within * crossings(of.bytes, of.there(), cut_bytes);
}

double Target::turning(const Runs& written) const {
    const double request = std::min({system.burst, written.bytes, double(ddr_interleave)});
    const double at_once =
        ddr_batch_bursts > 0 ? ddr_batch_bursts : std::max(1.0, std::round(request / dram_burst_bytes));
    // Requests of both directions must follow each other in one channel. The fewer there are the oftener they do: with one, all
    // (YOLOv8n in int8 on LPDDR5 is predicted within 1 %); with eight, hardly any (256 x 640 x 256 in bf16 on core128-hbm2).
    const double met = 1 / double(ddr_channels * ddr_channels);
    return met * written.count * dram_bursts(written) / at_once * ddr_turn_cycles;
}

double Target::closed_pages(const Runs& of) const {
    if (of.count <= 1) return 0;
    return of.count * ddr_row_cycles / double(ddr_channels) *
           std::min(1.0, double(of.stride) / ddr_page_bytes);
}

double Target::same_group(const Runs& of) const {
    if (of.count <= 1) return 1;
    const auto step = static_cast<int64_t>(std::max(1.0, std::round(double(of.stride) / dram_burst_bytes)));
    const double visited = std::ceil(of.bytes / dram_burst_bytes) * double(ddr_bank_groups) /
                           double(std::gcd(step, ddr_bank_groups));
    return std::max(1.0, ddr_group_cycles / std::min(double(ddr_bank_groups), visited));
}

double Target::channel_share(const Runs& of, double beside) const {
    if (of.count <= 1) return 1;
    const int64_t period = ddr_channels * ddr_interleave;
    const int64_t apart = std::gcd(of.stride, period);
    const double blocks = std::ceil(of.bytes * beside / double(ddr_interleave));
    const double starts = double(period) / double(std::max(apart, ddr_interleave));
    return std::min(1.0, blocks * starts / double(ddr_channels));
}

double Target::lanes_of(const kernels::Work& work) const {
    return double(std::min<int64_t>(engines[0].vector().lanes(), work.invocations));
}

double Target::copy_cycles(const kernels::Work& work, ElemType elem) const {
    if (work.copies == 0) return 0;
    const Runs row{1, double(bit_width(elem)) / 8 * work.length_of_a_copy};
    constexpr double issue = 7;  // statements of a copy
    const double begins = dma.descriptor_cycles + dma.row_cycles + ddr_latency_cycles + ddr_row_cycles +
                          2 * dma.link.hop + l1.write_latency;
    const double moves = std::max({row.bytes / dma.port / dma.units, dma.link_cycles(row),
                                   copy_pins({0, 1, work.length_of_a_copy}, elem)});
    // a channel begins a copy when its last one has ended; meanwhile those of other channels move, if they are not in step
    constexpr double out_of_step = 0.4;  // measured
    const double meanwhile = out_of_step * std::min(begins, (dma.units - 1) * moves);
    const double rounds = std::ceil(work.copies / dma.units);
    return issue * std::min(work.copies, dma.units) + rounds * begins + work.copies * moves -
           (rounds - 1) * meanwhile;
}

double Target::copy_pins(const kernels::Work& work, ElemType elem) const {
    const Runs row{1, double(bit_width(elem)) / 8 * work.length_of_a_copy};
    return work.copies * dram_bursts(row) * dram_burst_bytes / ddr_bytes_per_cycle;
}

int64_t Target::units_at_once(bool from_ddr) const {
    const Mover& mover = from_ddr ? system : dma;
    const double source =
        std::min(from_ddr ? ddr_bytes_per_cycle : l2.bytes_per_cycle, mover.link.bytes_per_cycle());
    return static_cast<int64_t>(std::clamp(std::ceil(source / mover.port), 1.0, mover.units));
}

int64_t Target::pieces(bool from_ddr, uint64_t bytes, int64_t lanes) const {
    if (bytes < large_constant) return 1;
    return from_ddr ? (units_at_once(true) + lanes - 1) / lanes : units_at_once(false);
}

bool Target::takes(const OpcodeSpec& spec, const std::vector<ElemType>& inputs,
                   const std::vector<ElemType>& outputs) const {
    if (spec.types != nullptr && !spec.types(spec, inputs, outputs)) return false;
    if (spec.macs != nullptr && !has_rate(inputs[0], inputs[1])) return false;
    if (spec.family.empty()) return true;
    const bool product = spec.macs != nullptr;
    return std::any_of(limits.variants.begin(), limits.variants.end(), [&](const TypeVariant& variant) {
        return variant.opcode == spec.family &&
               std::all_of(variant.bindings.begin(), variant.bindings.end(),
                           [&](const TypeVariant::Binding& binding) {
                               return binds(binding, spec.inputs, inputs, product) &&
                                      binds(binding, spec.outputs, outputs, product);
                           });
    });
}

bool Target::takes(std::string_view name, const std::vector<ElemType>& inputs,
                   const std::vector<ElemType>& outputs) const {
    const std::optional<OpcodeId> id = kernels::find_spec(name);
    return id && takes(kernels::spec_of(*id), inputs, outputs);
}

bool Target::has_unit_for(std::string_view name) const {
    const std::optional<OpcodeId> id = kernels::find_spec(name);
    return id && std::all_of(engines.begin(), engines.end(), [&](const proto::Engine& engine) {
               return platforms::unit_count(platform, &engine, kernels::spec_of(*id).unit) > 0;
           });
}

bool Target::has_rate(ElemType a, ElemType b) const {
    const std::string name = timing::rate_name(a, b);
    return std::all_of(engines.begin(), engines.end(), [&](const proto::Engine& engine) {
        const auto& rates = engine.array().rate();
        return std::any_of(rates.begin(), rates.end(),
                           [&](const proto::MacRate& rate) { return rate.type() == name; });
    });
}

ElemType Target::widest_float() const {
    for (const ElemType type : {ElemType::f32, ElemType::bf16, ElemType::f16}) {
        if (takes("gemm", {type, type}, {type})) return type;
    }
    return ElemType::none;
}

}  // namespace kpu::compiler
