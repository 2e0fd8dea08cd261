#include "model/memory/interconnect.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::model {

namespace {

Picoseconds kernel_time() { return sc_core::sc_time_stamp().value(); }

/// Arrivals are served so long after the core edge of their time, when all that happens at the edge is over,
/// unless it is known to be over earlier. No clock is so fast that its next edge is nearer.
constexpr Picoseconds after_edge = 1;

}  // namespace

/// The socket of one unit.
class Interconnect::Port : public StreamForwardInterface {
  public:
    Port(Interconnect& owner, const std::string& name) : socket(name.c_str()), owner_(owner) {
        socket.bind(*this);
    }

    StreamTargetSocket socket;

    tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                       sc_core::sc_time&) override {
        if (phase != tlm::BEGIN_REQ) throw InternalError("unexpected phase on a stream socket");
        owner_.accept(*this, payload);
        phase = tlm::END_REQ;
        return tlm::TLM_UPDATED;
    }
    void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time&) override {
        const bool done = owner_.debug_access(payload) == payload.get_data_length();
        payload.set_response_status(done ? tlm::TLM_OK_RESPONSE : tlm::TLM_ADDRESS_ERROR_RESPONSE);
    }
    bool get_direct_mem_ptr(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi) override {
        return owner_.direct_memory(payload, dmi);
    }
    unsigned transport_dbg(tlm::tlm_generic_payload& payload) override {
        return owner_.debug_access(payload);
    }

  private:
    Interconnect& owner_;
};

/// The socket towards one memory.
class Interconnect::MemoryPort : public StreamBackwardInterface {
  public:
    MemoryPort(Interconnect& owner, const std::string& name, uint64_t base)
        : socket(name.c_str()), base_(base), owner_(owner) {
        socket.bind(*this);
    }

    StreamInitiatorSocket socket;
    uint64_t base() const { return base_; }

    tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload&, tlm::tlm_phase&,
                                       sc_core::sc_time&) override {
        throw InternalError("a memory answered a descriptor that it never got");
    }
    void invalidate_direct_mem_ptr(sc_dt::uint64 first, sc_dt::uint64 last) override {
        owner_.invalidate(base_ + first, base_ + last);
    }

  private:
    uint64_t base_;  ///< bus address of byte 0
    Interconnect& owner_;
};

Interconnect::Interconnect(const sc_core::sc_module_name& name, const MemoryConfig& config,
                           unsigned initiators, Stepping stepping)
    : sc_module(name),
      memory_system_(config),
      core_(config.core),
      stepping_(stepping),
      engines_(static_cast<unsigned>(config.l1.size())) {
    if (sc_core::sc_get_time_resolution() != sc_core::sc_time(1, sc_core::SC_PS))
        throw InternalError("the kernel's time resolution must be 1 ps");
    for (unsigned i = 0; i < initiators; ++i)
        ports_.push_back(std::make_unique<Port>(*this, fmt::format("port_{}", i)));
    const auto memory = [&](const std::string& socket, Level level, unsigned engine) {
        memories_.push_back(std::make_unique<MemoryPort>(*this, socket, bus_address(level, engine, 0)));
    };
    memory("l2", Level::l2, 0);
    for (unsigned k = 0; k < engines_; ++k) memory(fmt::format("l1_{}", k), Level::l1, k);
    for (unsigned i = 0; i < config.ddr.channels; ++i) memory(fmt::format("ddr_{}", i), Level::ddr, 0);

    SC_HAS_PROCESS(Interconnect);
    SC_METHOD(step);
    sensitive << step_event_;
    dont_initialize();
}

Interconnect::~Interconnect() = default;

StreamTargetSocket& Interconnect::port(unsigned i) { return ports_.at(i)->socket; }
StreamInitiatorSocket& Interconnect::l2() { return memories_.front()->socket; }
StreamInitiatorSocket& Interconnect::l1(unsigned engine) {
    if (engine >= engines_) throw InternalError("no such engine");
    return memories_[1 + engine]->socket;
}
StreamInitiatorSocket& Interconnect::ddr(unsigned channel) {
    return memories_.at(1 + engines_ + channel)->socket;
}

void Interconnect::set_step_end(Picoseconds end) {
    step_end_ = end >= ~Picoseconds{0} / 2 ? never : core_.edges_before(end + 1);
}

void Interconnect::trace_to(traces::EventSink* sink, const std::vector<uint16_t>& unit_ids) {
    memory_system_.trace_to(sink, unit_ids);
    open_streams_ = std::make_unique<OpenStreams>(memory_system_, *sink, unit_ids);
}

void Interconnect::finish(Cycles elapsed) {
    memory_system_.finish(elapsed);
    if (open_streams_) open_streams_->flush();
}

void Interconnect::accept(Port& port, tlm::tlm_generic_payload& payload) {
    auto* extension = payload.get_extension<StreamExtension>();
    if (extension == nullptr) throw InternalError("a stream transaction lacks its mandatory extension");
    const Cycles now = core_.edges_before(kernel_time());
    const MemorySystem::Handle handle = memory_system_.open(extension->request, now);
    if (open_streams_) open_streams_->opened(handle, extension->request, now);
    if (handle >= in_flight_.size()) in_flight_.resize(handle + 1);
    in_flight_[handle] = {&port, &payload, extension};
    extension->progress = &memory_system_.result(handle);
    wake_at(core_.edge(now) + after_edge);
}

/// Steps at an edge, once all that was due at that time has run: takes completions, including those that only
/// the answer of a DRAM tells. After the edge, or when nothing came of them: arrivals.
void Interconnect::step() {
    const Picoseconds now = kernel_time();
    const Cycles cycle = core_.last_edge(now);
    if (now != core_.edge(cycle)) return serve_arrivals(cycle);
    if (woken_ != now && sc_core::sc_pending_activity_at_current_time()) {
        woken_ = now;
        step_event_.notify(sc_core::SC_ZERO_TIME);
        return;
    }
    memory_system_.take_answers(cycle);
    deliver(cycle);
    if (sc_core::sc_pending_activity_at_current_time())
        wake_at(now + after_edge);
    else
        serve_arrivals(cycle);
}

void Interconnect::serve_arrivals(Cycles now) {
    const Cycles limit = horizon();
    if (stepping_ == Stepping::fast)
        memory_system_.advance(limit);
    else
        memory_system_.advance_one(std::min(limit, now + 1));
    const Cycles completion = memory_system_.next_completion(), arrival = memory_system_.next_arrival();
    if (completion <= arrival && completion != never)
        wake_at(core_.edge(completion));
    else if (arrival != never)
        wake_at(core_.edge(arrival) + after_edge);
}

/// Returns the first cycle at which something else may happen: the kernel's next event, or the end of the
/// step.
Cycles Interconnect::horizon() const {
    sc_core::sc_time next;
    if (!sc_core::sc_get_curr_simcontext()->next_time(next)) return step_end_;
    return std::min(step_end_, core_.edges_before(next.value()));
}

void Interconnect::wake_at(Picoseconds time) {
    const Picoseconds now = kernel_time();
    step_event_.notify(sc_core::sc_time::from_value(time > now ? time - now : 0));
}

void Interconnect::deliver(Cycles now) {
    for (const MemorySystem::Handle handle : memory_system_.take_completed(now)) {
        const InFlight done = in_flight_[handle];
        done.extension->progress = nullptr;
        memory_system_.close(handle, done.extension->result);
        if (open_streams_) open_streams_->closed(handle, now);
        tlm::tlm_phase phase = tlm::BEGIN_RESP;
        sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
        const tlm::tlm_sync_enum status = done.port->socket->nb_transport_bw(*done.payload, phase, delay);
        if (status != tlm::TLM_COMPLETED && !(status == tlm::TLM_UPDATED && phase == tlm::END_RESP))
            throw InternalError("a unit did not end its stream transaction");
    }
}

Interconnect::MemoryPort* Interconnect::memory_at(uint64_t address) const {
    const unsigned engine = engine_of_bus_address(address);
    switch (level_of_bus_address(address)) {
        case Level::l2:
            return memories_.front().get();
        case Level::l1:
            return engine < engines_ ? memories_[1 + engine].get() : nullptr;
        case Level::ddr:
            return memories_[1 + engines_].get();
    }
    return nullptr;
}

bool Interconnect::direct_memory(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi) {
    MemoryPort* memory = memory_at(payload.get_address());
    if (memory == nullptr) return false;
    const uint64_t address = payload.get_address();
    payload.set_address(address - memory->base());
    const bool granted = memory->socket->get_direct_mem_ptr(payload, dmi);
    payload.set_address(address);
    dmi.set_start_address(dmi.get_start_address() + memory->base());
    dmi.set_end_address(dmi.get_end_address() + memory->base());
    return granted;
}

unsigned Interconnect::debug_access(tlm::tlm_generic_payload& payload) {
    MemoryPort* memory = memory_at(payload.get_address());
    if (memory == nullptr) return 0;
    const uint64_t address = payload.get_address();
    payload.set_address(address - memory->base());
    const unsigned count = memory->socket->transport_dbg(payload);
    payload.set_address(address);
    return count;
}

void Interconnect::invalidate(uint64_t first, uint64_t last) {
    for (const auto& port : ports_) port->socket->invalidate_direct_mem_ptr(first, last);
}

}  // namespace kpu::model
