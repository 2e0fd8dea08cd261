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

tlm::tlm_sync_enum StreamInitiator::nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                                    sc_core::sc_time&) {
    if (phase != tlm::BEGIN_RESP) throw InternalError("unexpected phase on a stream socket");
    const auto found = std::find_if(in_flight_.begin(), in_flight_.end(),
                                    [&](const StreamTransaction* t) { return &t->payload == &payload; });
    if (found == in_flight_.end()) throw InternalError("completion of a stream that was not posted here");
    StreamTransaction& transaction = **found;
    in_flight_.erase(found);
    phase = tlm::END_RESP;
    client_.stream_completed(transaction);
    return tlm::TLM_COMPLETED;
}

}  // namespace kpu::model
