#include "compiler/lower/target.hpp"

#include <algorithm>
#include <cmath>

namespace kpu::lower {
namespace {

double ddr_bytes_per_cycle(const platforms::Platform& platform) {
    const proto::DdrDevice device = platforms::ddr_device(platform);
    const double bytes_per_us =
        double(platform.ddr().data_rate_mtps()) * device.bus_width_bits() / 8 * platform.ddr().channels();
    const double refreshes = device.trefi() > 0 ? double(device.trfc()) / device.trefi() : 0;
    return bytes_per_us / platform.clock().core_mhz() * (1 - refreshes);
}

Mover mover(const proto::Dma& dma, double link) {
    Mover result;
    result.port = dma.bytes_per_cycle();
    result.link = link;
    result.burst = dma.burst_bytes();
    result.row_cycles = dma.row_cycles();
    result.descriptor_cycles = dma.descriptor_cycles();
    result.units = dma.channels();
    return result;
}

/// Of rows of so many bytes, at `width` bytes a cycle: every burst takes whole cycles.
double burst_cycles(double rows, double bytes, double burst, double width) {
    const double row = bytes / rows, full = std::floor(row / burst);
    return rows * (full * std::ceil(burst / width) + std::ceil((row - full * burst) / width));
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

double Mover::unit_cycles(double rows, double bytes) const {
    return descriptor_cycles + rows * row_cycles + burst_cycles(rows, bytes, burst, port);
}
double Mover::link_cycles(double rows, double bytes) const { return burst_cycles(rows, bytes, burst, link); }

Target::Target(const platforms::Platform& of)
    : limits(platforms::limits_of(of)), platform(of), engines(platforms::engines_of(of)) {
    l1_bytes = limits.l1_bytes;
    for (const proto::Engine& engine : engines)
        l1_bytes = std::min<uint64_t>(l1_bytes, engine.l1().size_bytes());
    l2_bytes = limits.l2_bytes;
    ddr_bytes = limits.ddr_bytes;
    const proto::Engine& engine = engines.at(0);
    const double link = platform.interconnect().link_bytes_per_cycle();
    dma = mover(engine.dma(), link);
    system = mover(platform.system_dma(), platform.interconnect().system_link_bytes_per_cycle());
    store = dma;
    if (!platform.store_on_dma()) {
        store.port =
            std::min(engine.vector().operand_bytes_per_cycle(), engine.vector().result_bytes_per_cycle());
        store.units = std::max(1u, engine.vector().cstl_count());
    }
    ddr_bytes_per_cycle = lower::ddr_bytes_per_cycle(platform);
    const proto::DdrDevice device = platforms::ddr_device(platform);
    // several transfers at once close each other's pages at times: measured on strided tiles
    constexpr double closed = 0.4;
    ddr_row_cycles =
        closed * device.trc() * 2 / platform.ddr().data_rate_mtps() * platform.clock().core_mhz();
    ddr_channels = std::max(1u, platform.ddr().channels());
    ddr_interleave = std::max(1u, platform.ddr().channel_interleave_bytes());
    l2_bytes_per_cycle = double(platform.l2().ports()) * platform.l2().bytes_per_cycle();
    dispatch_cycles = platform.sequencer().dispatch_cycles();
    ddr_latency_cycles = (platform.ddr().controller_latency_ns() + 50.0) * platform.clock().core_mhz() / 1000;
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
    const std::optional<OpcodeId> id = find_opcode(name);
    return id && takes(kpu::opcode(*id), inputs, outputs);
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

}  // namespace kpu::lower
