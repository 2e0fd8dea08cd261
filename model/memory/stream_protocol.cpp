#include "model/memory/stream_protocol.hpp"

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::model {

void StreamInitiator::post(StreamTransaction& transaction) {
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    in_flight_.push_back(&transaction);
    const tlm::tlm_sync_enum status = socket->nb_transport_fw(transaction.payload, phase, delay);
    if (status != tlm::TLM_UPDATED || phase != tlm::END_REQ)
        throw InternalError("the interconnect did not accept a stream descriptor");
}

values::MemoryLevel& StreamInitiator::direct_memory(Level level, unsigned engine) {
    StorageExtension extension;
    tlm::tlm_generic_payload payload;
    payload.set_address(bus_address(level, engine, 0));
    payload.set_extension(&extension);
    tlm::tlm_dmi dmi;
    const bool granted = socket->get_direct_mem_ptr(payload, dmi);
    payload.clear_extension(&extension);
    if (!granted || extension.storage == nullptr || extension.storage->data() != dmi.get_dmi_ptr())
        throw InternalError("a memory did not grant direct access");
    return *extension.storage;
}

tlm::tlm_sync_enum StreamInitiator::nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                                    sc_core::sc_time&) {
    if (phase != tlm::BEGIN_RESP) throw InternalError("unexpected phase on a stream socket");
    const auto found = std::find_if(in_flight_.begin(), in_flight_.end(),
                                    [&](const StreamTransaction* t) { return &t->payload == &payload; });
    if (found == in_flight_.end()) throw InternalError("completion of a stream that was not posted here");
    StreamTransaction& transaction = **found;
    in_flight_.erase(found);
    const StreamExtension& extension = transaction.extension;
    for (const StreamSide* side : {&extension.request.source, &extension.request.destination}) {
        if (side->is_memory)
            bytes_[static_cast<size_t>(side->level)][side == &extension.request.source ? 0 : 1] +=
                extension.result.bytes;
    }
    phase = tlm::END_RESP;
    client_.stream_completed(transaction);
    return tlm::TLM_COMPLETED;
}

}  // namespace kpu::model
