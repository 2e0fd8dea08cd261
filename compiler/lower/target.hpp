#pragma once

#include <string>
#include <vector>

#include "isa/device_limits.hpp"
#include "isa/opcodes.hpp"
#include "model/timing/systolic.hpp"
#include "platforms/platform.hpp"

namespace kpu::lower {

/// What lowering needs to know of a device.
struct Target {
    explicit Target(const platforms::Platform& platform);

    DeviceLimits limits;
    platforms::Platform platform;
    std::vector<proto::Engine> engines;
    uint64_t l1_bytes = 0;  ///< of the smallest engine
    uint64_t l2_bytes = 0, ddr_bytes = 0;
    double dma_bytes_per_cycle = 0;    ///< L2 to L1, one engine, all its channels
    double store_bytes_per_cycle = 0;  ///< L1 to L2, one unit
    double ddr_bytes_per_cycle = 0;    ///< of a core cycle: the slower of DRAM's pins and the system DMA
    uint32_t descriptor_cycles = 0;    ///< of a transfer
    double dma_bytes_per_row = 0;      ///< that could be moved while a row of memory begins
    double ddr_latency_cycles = 0;

    /// Whether some type variant of the device takes these operands (in the order of the opcode's row; absent
    /// ones left out).
    bool takes(const OpcodeSpec& spec, const std::vector<ElemType>& inputs,
               const std::vector<ElemType>& outputs) const;
    bool takes(std::string_view opcode, const std::vector<ElemType>& inputs,
               const std::vector<ElemType>& outputs) const;
    /// Whether the arrays have a rate for this product.
    bool has_rate(ElemType a, ElemType b) const;
    /// f32, bf16 or f16: the widest float type that products have. none: there is no float array.
    ElemType widest_float() const;
};

}  // namespace kpu::lower
