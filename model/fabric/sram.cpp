#include "model/fabric/sram.hpp"

namespace kpu::model {

Sram::Sram(const SramConfig& config)
    : banks_(config.banks),
      interleave_(config.interleave_bytes),
      port_width_(config.bytes_per_cycle),
      bank_width_(config.bank_width_bytes),
      word_(config.access_width_bytes),
      read_latency_(config.read_latency_cycles),
      write_latency_(config.write_latency_cycles),
      block_cycles_(bank_width_.ceil(config.interleave_bytes)),
      port_free_(config.ports, 0),
      bank_free_(config.banks, 0) {}

}  // namespace kpu::model
