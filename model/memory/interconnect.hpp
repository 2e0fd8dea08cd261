#pragma once

#include <memory>
#include <systemc>
#include <vector>

#include "model/memory/memory_system.hpp"
#include "model/memory/open_streams.hpp"
#include "model/memory/stream_protocol.hpp"

namespace kpu::model {

/// Routes streams between units and memories, and steps all memory resources. See interconnect.md.
class Interconnect : public sc_core::sc_module {
  public:
    enum class Stepping : uint8_t {
        fast,    ///< arithmetic up to the kernel's next event; the kernel is woken at completions
        oracle,  ///< one SystemC event per burst arrival: slow, same results
    };
    /// `initiators`: stream sockets of units, each to be bound once to port(i).
    Interconnect(const sc_core::sc_module_name& name, const MemoryConfig& config, unsigned initiators,
                 Stepping stepping = Stepping::fast);
    ~Interconnect() override;
    const char* kind() const override { return "interconnect"; }

    /// Returns a target socket port_<i>: units bind their initiator sockets here.
    StreamTargetSocket& port(unsigned i);
    /// Returns an initiator socket l2, l1_<k>, ddr_<i>: bind to the memory targets. Channels of DDR share one
    /// storage.
    StreamInitiatorSocket& l2();
    StreamInitiatorSocket& l1(unsigned engine);
    StreamInitiatorSocket& ddr(unsigned channel);

    /// The kernel will run until `end` (and execute the events of that time) and then pause: nothing beyond
    /// is served before the next call. The kernel does not report its own limit.
    void set_step_end(Picoseconds end);

    /// Records states and queue depths of every memory resource; unit_ids parallel to
    /// memory_system().resources().
    void trace_to(traces::EventSink* sink, const std::vector<uint16_t>& unit_ids);
    void trace_accesses_to(traces::EventSink& sink, const std::vector<uint16_t>& unit_ids) {
        memory_system_.trace_accesses_to(sink, unit_ids);
    }
    /// Ends the accounting at `elapsed`; no stream moves afterwards.
    void finish(Cycles elapsed);

    /// Statistics. Streams are opened through sockets only.
    MemorySystem& memory_system() { return memory_system_; }
    const MemorySystem& memory_system() const { return memory_system_; }

  private:
    class Port;
    class MemoryPort;
    struct InFlight {
        Port* port = nullptr;
        tlm::tlm_generic_payload* payload = nullptr;
        StreamExtension* extension = nullptr;
    };

    void step();
    void serve_arrivals(Cycles now);
    void deliver(Cycles now);
    void accept(Port& port, tlm::tlm_generic_payload& payload);
    void wake_at(Picoseconds time);
    Cycles horizon() const;
    MemoryPort* memory_at(uint64_t bus_address) const;
    bool direct_memory(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi);
    unsigned debug_access(tlm::tlm_generic_payload& payload);
    void invalidate(uint64_t first, uint64_t last);

    MemorySystem memory_system_;
    std::unique_ptr<OpenStreams> open_streams_;  ///< null unless traced
    Clock core_;
    Stepping stepping_;
    unsigned engines_;
    Cycles step_end_ = never;  ///< first cycle beyond the current step
    std::vector<std::unique_ptr<Port>> ports_;
    std::vector<std::unique_ptr<MemoryPort>> memories_;  ///< L2, L1 by engine, DDR channels
    std::vector<InFlight> in_flight_;                    ///< indexed by stream handle
    sc_core::sc_event step_event_{"step_due"};
    Picoseconds woken_ = ~Picoseconds{0};  ///< last edge at which a delta passed
};

}  // namespace kpu::model
