// Cost of the SystemC kernel and the sockets for the tasks of the tile program (tile_program.hpp) when
// nothing is modelled: commands (model/task), descriptors and their completions (model/memory), dispatches
// (model/sequencer), and no work. Run: build/release/bin/systemc_bench; what follows: docs/performance.md.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <systemc>
#include <utility>
#include <vector>

#include "model/device/sim_context.hpp"
#include "model/memory/stream_protocol.hpp"
#include "model/task/task_command.hpp"
#include "tests/bench/tile_program.hpp"

namespace kpu::model {
namespace {

using bench::tiles_in_flight;
using sc_core::sc_time;

constexpr Picoseconds cycle_ps = 1000;

/// A task of a tile: its streams, and how long each of them takes. A tile takes the DRAM as long as in the
/// model.
struct Kind {
    uint32_t unit, streams;
    Cycles cycles;
    bool from_dram;
};
enum Role : uint8_t { load_a, load_b, product, store, roles };
constexpr std::array<Kind, roles> kinds{
    {{0, 1, 110, true}, {0, 1, 110, true}, {1, 3, 100, false}, {2, 1, 54, true}}};
constexpr uint32_t units = 3;

/// Ends every stream at a time known when it begins: those of the DRAM one after the other.
class Memory : public sc_core::sc_module {
  public:
    explicit Memory(const sc_core::sc_module_name& name) : sc_module(name) {
        for (uint32_t u = 0; u < units; ++u) ports_.push_back(std::make_unique<Port>(*this, u));
        SC_HAS_PROCESS(Memory);
        SC_METHOD(step);
        sensitive << due_;
        dont_initialize();
    }
    StreamTargetSocket& port(uint32_t unit) { return ports_[unit]->socket; }
    uint64_t activations() const { return activations_; }

  private:
    struct Port : StreamForwardInterface {
        Port(Memory& owner, uint32_t unit)
            : socket(("port_" + std::to_string(unit)).c_str()), memory(owner), number(unit) {
            socket.bind(*this);
        }
        tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                           sc_time&) override {
            memory.accept(payload, number);
            phase = tlm::END_REQ;
            return tlm::TLM_UPDATED;
        }
        void b_transport(tlm::tlm_generic_payload&, sc_time&) override {}
        bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
        unsigned transport_dbg(tlm::tlm_generic_payload&) override { return 0; }
        StreamTargetSocket socket;
        Memory& memory;
        uint32_t number;
    };
    struct End {
        Picoseconds time;
        tlm::tlm_generic_payload* payload;
        uint32_t unit;
        bool operator>(const End& other) const { return time > other.time; }
    };

    void accept(tlm::tlm_generic_payload& payload, uint32_t unit) {
        const StreamRequest& request = payload.get_extension<StreamExtension>()->request;
        const Picoseconds now = sc_core::sc_time_stamp().value();
        const bool dram = request.source.level == Level::ddr;
        const Picoseconds begin = dram ? std::max(dram_free_, now) : now;
        const Picoseconds end = begin + request.pace_cycles * cycle_ps;
        if (dram) dram_free_ = end;
        const bool first = ends_.empty() || end < ends_.top().time;
        ends_.push({end, &payload, unit});
        if (first) due_.notify(sc_time::from_value(end - now));
    }
    /// Completions wait until all that was due at their time has run.
    void step() {
        ++activations_;
        const Picoseconds now = sc_core::sc_time_stamp().value();
        if (woken_ != now && sc_core::sc_pending_activity_at_current_time()) {
            woken_ = now;
            due_.notify(sc_core::SC_ZERO_TIME);
            return;
        }
        while (!ends_.empty() && ends_.top().time <= now) {
            const End end = ends_.top();
            ends_.pop();
            tlm::tlm_phase phase = tlm::BEGIN_RESP;
            sc_time delay;
            ports_[end.unit]->socket->nb_transport_bw(*end.payload, phase, delay);
        }
        if (!ends_.empty()) due_.notify(sc_time::from_value(ends_.top().time - now));
    }

    std::vector<std::unique_ptr<Port>> ports_;
    std::priority_queue<End, std::vector<End>, std::greater<End>> ends_;
    sc_core::sc_event due_;
    Picoseconds dram_free_ = 0, woken_ = ~Picoseconds{0};
    uint64_t activations_ = 0;
};

/// A task is its streams.
class Unit : public sc_core::sc_module,
             public tlm::tlm_fw_transport_if<CommandProtocol>,
             public StreamClient {
  public:
    explicit Unit(const sc_core::sc_module_name& name)
        : sc_module(name), commands("commands"), streams("streams", *this) {
        commands.bind(*this);
    }
    CommandTargetSocket commands;
    StreamInitiator streams;

    tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                                       sc_time&) override {
        const auto& command = *payload.get_extension<TaskCommand>();
        const Kind& kind = kinds[command.serial % roles];
        Job& job = jobs_[command.serial];
        job.command = &payload;
        job.left = kind.streams;
        for (uint32_t s = 0; s < kind.streams; ++s) {
            StreamTransaction& stream = job.streams[s];
            stream.context = &job;
            stream.extension.request.pace_cycles = kind.cycles;
            stream.extension.request.source.level = kind.from_dram ? Level::ddr : Level::l1;
            streams.post(stream);
        }
        return tlm::TLM_ACCEPTED;
    }
    void stream_completed(StreamTransaction& stream) override {
        Job& job = *static_cast<Job*>(stream.context);
        if (--job.left > 0) return;
        tlm::tlm_phase phase = tlm::BEGIN_RESP;
        sc_time delay;
        commands->nb_transport_bw(*job.command, phase, delay);
    }
    void b_transport(tlm::tlm_generic_payload&, sc_time&) override {}
    bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
    unsigned transport_dbg(tlm::tlm_generic_payload&) override { return 0; }

  private:
    struct Job {
        tlm::tlm_generic_payload* command = nullptr;
        uint32_t left = 0;
        std::array<StreamTransaction, 3> streams;
    };
    std::array<Job, size_t{tiles_in_flight} * roles> jobs_;  ///< indexed by serial
};

/// Gives each task to its unit when those before it are complete: collects in one delta, decides in the next.
class Sequencer : public sc_core::sc_module {
  public:
    explicit Sequencer(const sc_core::sc_module_name& name) : sc_module(name) {
        for (uint32_t u = 0; u < units; ++u) ports_.push_back(std::make_unique<Port>(*this, u));
        for (uint32_t serial = 0; serial < tasks_.size(); ++serial) {
            tasks_[serial].command.serial = serial;
            tasks_[serial].payload.set_extension(&tasks_[serial].command);
        }
        SC_HAS_PROCESS(Sequencer);
        SC_METHOD(collect);  // runs once at time 0
        sensitive << completed_;
        SC_METHOD(arbitrate);
        sensitive << collected_;
        dont_initialize();
        for (uint32_t slot = 0; slot < tiles_in_flight; ++slot) begin_tile(slot);
    }
    ~Sequencer() override {
        for (Task& task : tasks_) task.payload.clear_extension(&task.command);
    }
    CommandInitiatorSocket& port(uint32_t unit) { return ports_[unit]->socket; }
    int64_t completed_tiles() const { return done_; }
    uint64_t activations() const { return activations_; }

  private:
    struct Port : tlm::tlm_bw_transport_if<CommandProtocol> {
        Port(Sequencer& sequencer, uint32_t unit)
            : socket(("port_" + std::to_string(unit)).c_str()), owner(sequencer) {
            socket.bind(*this);
        }
        tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                                           sc_time&) override {
            owner.complete(payload.get_extension<TaskCommand>()->serial);
            return tlm::TLM_COMPLETED;
        }
        void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
        CommandInitiatorSocket socket;
        Sequencer& owner;
    };
    struct Task {
        TaskCommand command;
        tlm::tlm_generic_payload payload;
    };

    void begin_tile(uint32_t slot) {
        if (begun_ == bench::resnet50_tile_count) return;
        ++begun_;
        loads_left_[slot] = 2;
        ready_.push_back(slot * roles + load_a);
        ready_.push_back(slot * roles + load_b);
    }
    void complete(uint32_t serial) {
        const uint32_t slot = serial / roles;
        switch (serial % roles) {
            case load_a:
            case load_b:
                if (--loads_left_[slot] == 0) ready_.push_back(slot * roles + product);
                break;
            case product:
                ready_.push_back(slot * roles + store);
                break;
            default:
                ++done_;
                begin_tile(slot);
        }
        completed_.notify(sc_core::SC_ZERO_TIME);
    }
    void collect() {
        ++activations_;
        if (!ready_.empty()) collected_.notify(sc_core::SC_ZERO_TIME);
    }
    void arbitrate() {
        ++activations_;
        for (const uint32_t serial : ready_) {
            tlm::tlm_phase phase = tlm::BEGIN_REQ;
            sc_time delay;
            ports_[kinds[serial % roles].unit]->socket->nb_transport_fw(tasks_[serial].payload, phase, delay);
        }
        ready_.clear();
    }

    std::vector<std::unique_ptr<Port>> ports_;
    std::array<Task, size_t{tiles_in_flight} * roles> tasks_;
    std::array<uint32_t, tiles_in_flight> loads_left_{};
    std::vector<uint32_t> ready_;
    int64_t begun_ = 0, done_ = 0;
    uint64_t activations_ = 0;
    sc_core::sc_event completed_, collected_;
};

void bm_tile_events(benchmark::State& state) {
    uint64_t activations = 0;
    for (auto _ : state) {
        SimContext context;
        const SimContext::Entry entry(context);
        Memory memory("memory");
        Sequencer sequencer("sequencer");
        std::vector<std::unique_ptr<Unit>> all;
        for (uint32_t u = 0; u < units; ++u) {
            all.push_back(std::make_unique<Unit>(("unit_" + std::to_string(u)).c_str()));
            sequencer.port(u).bind(all[u]->commands);
            all[u]->streams.socket.bind(memory.port(u));
        }
        sc_core::sc_start();
        if (sequencer.completed_tiles() != bench::resnet50_tile_count) state.SkipWithError("did not finish");
        activations = memory.activations() + sequencer.activations();
    }
    state.counters["activations"] = static_cast<double>(activations);
}
BENCHMARK(bm_tile_events)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kpu::model

BENCHMARK_MAIN();
