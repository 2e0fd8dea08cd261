#include "model/memory/memory_target.hpp"

#include <cstring>

#include "base/diagnostics.hpp"

namespace kpu::model {

MemoryTarget::MemoryTarget(const sc_core::sc_module_name& name, values::MemoryLevel& storage)
    : sc_module(name), socket("socket"), storage_(storage) {
    socket.bind(*this);
}

tlm::tlm_sync_enum MemoryTarget::nb_transport_fw(tlm::tlm_generic_payload&, tlm::tlm_phase&,
                                                 sc_core::sc_time&) {
    throw InternalError("a stream descriptor reached a memory: the interconnect serves them");
}

void MemoryTarget::b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time&) {
    const bool done = transport_dbg(payload) == payload.get_data_length();
    payload.set_response_status(done ? tlm::TLM_OK_RESPONSE : tlm::TLM_ADDRESS_ERROR_RESPONSE);
}

bool MemoryTarget::get_direct_mem_ptr(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi) {
    dmi.init();
    dmi.allow_read_write();
    dmi.set_dmi_ptr(storage_.data());
    dmi.set_start_address(0);
    dmi.set_end_address(storage_.size() - 1);
    if (auto* extension = payload.get_extension<StorageExtension>()) extension->storage = &storage_;
    return true;
}

unsigned MemoryTarget::transport_dbg(tlm::tlm_generic_payload& payload) {
    const uint64_t address = payload.get_address();
    const unsigned length = payload.get_data_length();
    if (address > storage_.size() || length > storage_.size() - address) return 0;
    if (payload.is_read())
        std::memcpy(payload.get_data_ptr(), storage_.data() + address, length);
    else if (payload.is_write())
        storage_.write(address, payload.get_data_ptr(), length);
    else
        return 0;
    return length;
}

}  // namespace kpu::model
