#include "model/sequencer/sequencer.hpp"

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::model {

Sequencer::Sequencer(const sc_core::sc_module_name& name, uint32_t index, std::vector<CommandRoute> routes)
    : sc_module(name),
      command("command", static_cast<unsigned>(routes.size())),
      arbiter("arbiter"),
      products("products"),
      index_(index),
      routes_(std::move(routes)) {
    for (CommandInitiatorSocket& socket : command) socket.bind(*this);
    products.register_nb_transport_fw(this, &Sequencer::ask);
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
    sent.product = order.product;
    sent.last = true;
    sent.port = route->unit_port;
    sent.sequencer = index_;
    sent.freed = false;
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    command[route->socket]->nb_transport_fw(entry.payload, phase, delay);
    if (order.product != nullptr) answer(*order.product, tlm::END_REQ);
    return sent;
}

void Sequencer::release(TaskCommand& done) {
    const auto entry =
        std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return &e->command == &done; });
    if (entry == entries_.end()) throw InternalError("a command came back to another sequencer");
    spare_.push_back(entry->get());
    if (done.product != nullptr) answer(*done.product, tlm::BEGIN_RESP);
}

tlm::tlm_sync_enum Sequencer::ask(int port, tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                  sc_core::sc_time&) {
    auto* request = payload.get_extension<ProductRequest>();
    if (phase != tlm::BEGIN_REQ || request == nullptr)
        throw InternalError("a sequencer was asked for something that is not a product");
    request->port = port;
    arbiter->product_wanted(*request);
    return tlm::TLM_ACCEPTED;
}

void Sequencer::answer(const ProductRequest& request, tlm::tlm_phase phase) {
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    products[request.port]->nb_transport_bw(*request.payload, phase, delay);
}

tlm::tlm_sync_enum Sequencer::nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                              sc_core::sc_time&) {
    TaskCommand* answered = payload.get_extension<TaskCommand>();
    if (answered == nullptr) throw InternalError("a unit answered something that is not a command");
    if (phase == tlm::END_REQ) {
        arbiter->issue_free(*answered);
        return tlm::TLM_ACCEPTED;
    }
    if (phase != tlm::BEGIN_RESP) throw InternalError("unexpected phase on a command socket");
    arbiter->task_completed(*answered);
    return tlm::TLM_COMPLETED;
}

}  // namespace kpu::model
