#pragma once

#include <systemc>

#include "model/memory/stream_protocol.hpp"
#include "values/memory_image.hpp"

namespace kpu::model {

/// A memory at the end of the interconnect: holds the bytes of a level, grants DMI to them, and reads and
/// writes them through transport_dbg and b_transport, which take no time. Addresses are offsets in the level.
/// Its timing is stepped with all other memory resources by the interconnect, so no stream descriptor ends
/// here.
class MemoryTarget : public sc_core::sc_module, public StreamForwardInterface {
  public:
    /// `storage` must outlive the module.
    MemoryTarget(const sc_core::sc_module_name& name, values::MemoryLevel& storage);
    const char* kind() const override { return "memory"; }

    StreamTargetSocket socket;

    tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                       sc_core::sc_time& delay) override;
    void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) override;
    bool get_direct_mem_ptr(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi) override;
    unsigned transport_dbg(tlm::tlm_generic_payload& payload) override;

  private:
    values::MemoryLevel& storage_;
};

}  // namespace kpu::model
