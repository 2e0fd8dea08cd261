#include "model/sequencer/sequencer.hpp"

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::model {

Sequencer::Sequencer(const sc_core::sc_module_name& name, uint32_t index, std::vector<CommandRoute> routes)
    : sc_module(name),
      command("command", static_cast<unsigned>(routes.size())),
      arbiter("arbiter"),
      index_(index),
      routes_(std::move(routes)) {
    for (CommandInitiatorSocket& socket : command) socket.bind(*this);
}

TaskCommand& Sequencer::dispatch(const Order& order) {
    const auto route = std::find_if(routes_.begin(), routes_.end(),
                                    [&](const CommandRoute& r) { return r.unit == order.unit; });
    if (route == routes_.end()) throw InternalError("a sequencer has no command socket to that unit");
    if (spare_.empty()) {
        entries_.push_back(std::make_unique<Entry>());
        spare_.push_back(entries_.back().get());
    }
    Entry& entry = *spare_.back();
    spare_.pop_back();
    TaskCommand& sent = entry.command;
    sent.payload = &entry.payload;
    sent.task = order.task;
    sent.serial = order.task->serial;
    sent.unit = order.unit;
    sent.first_unit = order.first_unit;
    sent.partner = order.partner;
    sent.partner_bytes_per_cycle = order.partner_bytes_per_cycle;
    sent.launch = order.launch;
    sent.last = true;
    sent.port = route->unit_port;
    sent.sequencer = index_;
    sent.freed = false;
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    command[route->socket]->nb_transport_fw(entry.payload, phase, delay);
    return sent;
}

void Sequencer::release(TaskCommand& done) {
    const auto entry =
        std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return &e->command == &done; });
    if (entry == entries_.end()) throw InternalError("a command came back to another sequencer");
    spare_.push_back(entry->get());
}

tlm::tlm_sync_enum Sequencer::nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                              sc_core::sc_time&) {
    TaskCommand* answered = payload.get_extension<TaskCommand>();
    if (answered == nullptr) throw InternalError("a unit answered something that is no command");
    if (phase == tlm::END_REQ) {
        arbiter->issue_free(*answered);
        return tlm::TLM_ACCEPTED;
    }
    if (phase != tlm::BEGIN_RESP) throw InternalError("unexpected phase on a command socket");
    arbiter->task_completed(*answered);
    return tlm::TLM_COMPLETED;
}

}  // namespace kpu::model
