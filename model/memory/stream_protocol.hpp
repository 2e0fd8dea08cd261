#pragma once

#include <systemc>
#include <tlm>
#include <vector>

#include "isa/bus_address.hpp"
#include "model/stream/stream.hpp"
#include "values/memory_image.hpp"

namespace kpu::model {

/// The protocol of streams: own traits, because the N-dimensional pattern of a descriptor is a mandatory
/// extension.
///
///     unit           -> BEGIN_REQ   a descriptor
///     memory system  returns TLM_UPDATED with END_REQ: accepted at once, so several can be outstanding
///     memory system  -> BEGIN_RESP  the last byte is visible; kernel time is that core edge
///     unit           returns TLM_COMPLETED, or TLM_UPDATED with END_RESP; the transaction is its own again
///
/// The time argument is always zero. Requests are posted at edges of the core clock; a request between two
/// edges is taken as of the next. b_transport, transport_dbg and get_direct_mem_ptr carry plain payloads
/// without extension at bus addresses (isa/bus_address.hpp): back doors that take no time.
struct StreamProtocol {
    using tlm_payload_type = tlm::tlm_generic_payload;
    using tlm_phase_type = tlm::tlm_phase;
};

constexpr unsigned stream_bus_bits = 64;
using StreamInitiatorSocket = tlm::tlm_initiator_socket<stream_bus_bits, StreamProtocol>;
using StreamTargetSocket = tlm::tlm_target_socket<stream_bus_bits, StreamProtocol>;
using StreamForwardInterface = tlm::tlm_fw_transport_if<StreamProtocol>;
using StreamBackwardInterface = tlm::tlm_bw_transport_if<StreamProtocol>;

/// The mandatory extension.
class StreamExtension : public tlm::tlm_extension<StreamExtension> {
  public:
    StreamRequest request;
    StreamResult result;                     ///< complete at BEGIN_RESP
    const StreamResult* progress = nullptr;  ///< state known so far, from END_REQ to BEGIN_RESP; else null

    tlm::tlm_extension_base* clone() const override { return new StreamExtension(*this); }
    void copy_from(const tlm::tlm_extension_base& other) override {
        *this = static_cast<const StreamExtension&>(other);
    }
};

/// A descriptor in flight. The poster owns it from construction to destruction and must keep it until its
/// completion.
struct StreamTransaction {
    tlm::tlm_generic_payload payload;
    StreamExtension extension;
    void* context = nullptr;  ///< the poster's

    StreamTransaction() {
        payload.set_command(tlm::TLM_IGNORE_COMMAND);
        payload.set_extension(&extension);
    }
    ~StreamTransaction() { payload.clear_extension(&extension); }
    StreamTransaction(const StreamTransaction&) = delete;
    StreamTransaction& operator=(const StreamTransaction&) = delete;
};

/// Asks a memory for its storage with get_direct_mem_ptr: DMI itself gives the bytes, this also the map of
/// those that were ever written, which lies beside them.
struct StorageExtension : tlm::tlm_extension<StorageExtension> {
    values::MemoryLevel* storage = nullptr;

    tlm::tlm_extension_base* clone() const override { return new StorageExtension(*this); }
    void copy_from(const tlm::tlm_extension_base& other) override {
        *this = static_cast<const StorageExtension&>(other);
    }
};

/// The interface of units that post streams. Called at the kernel time of the completion; may post again.
class StreamClient {
  public:
    virtual ~StreamClient() = default;
    /// Called when a stream is complete. The result is in transaction.extension.result.
    virtual void stream_completed(StreamTransaction& transaction) = 0;
};

/// The initiator end of the protocol: a unit holds one (or more) and binds `socket` to a port of the
/// interconnect.
class StreamInitiator : public StreamBackwardInterface {
  public:
    StreamInitiator(const char* name, StreamClient& client) : socket(name), client_(client) {
        socket.bind(*this);
    }

    StreamInitiatorSocket socket;

    /// Posts transaction.extension.request now. A descriptor that the interconnect refuses is a bug:
    /// InternalError.
    void post(StreamTransaction& transaction);

    /// Returns the storage of a level, through the socket. InternalError where the interconnect has none.
    values::MemoryLevel& direct_memory(Level level, unsigned engine);
    /// Returns the bytes of completed streams that the socket read from and wrote to a level.
    uint64_t bytes(Level level, bool read) const { return bytes_[static_cast<size_t>(level)][read ? 0 : 1]; }

    tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                       sc_core::sc_time& delay) override;
    void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

  private:
    StreamClient& client_;
    uint64_t bytes_[3][2] = {};
    std::vector<StreamTransaction*> in_flight_;
};

}  // namespace kpu::model
