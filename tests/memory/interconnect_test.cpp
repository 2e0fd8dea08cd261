#include "model/memory/interconnect.hpp"

#include <gtest/gtest.h>

#include "model/memory/memory_target.hpp"
#include "tests/memory/workload.hpp"

namespace kpu::model {
namespace {

using namespace test;

/// A simulation context of its own, current while it lives.
class Context {
  public:
    Context() : before_(sc_core::sc_curr_simcontext), own_(new sc_core::sc_simcontext) { enter(); }
    ~Context() {
        delete own_;
        sc_core::sc_curr_simcontext = before_;
    }
    void enter() { sc_core::sc_curr_simcontext = own_; }

  private:
    sc_core::sc_simcontext* before_;
    sc_core::sc_simcontext* own_;
};

/// Posts its list of streams, one after the other.
class Poster : public sc_core::sc_module, public StreamClient {
  public:
    Poster(const sc_core::sc_module_name& name, const std::vector<Post>& posts, const Clock& core,
           std::vector<StreamResult>& results)
        : sc_module(name), initiator("socket", *this), posts_(posts), core_(core), results_(results) {
        SC_HAS_PROCESS(Poster);
        SC_METHOD(post);
        sensitive << due_;
        dont_initialize();
        post_at(posts_[0].delay);
    }
    StreamInitiator initiator;

    void stream_completed(StreamTransaction& transaction) override {
        const StreamResult& result = transaction.extension.result;
        EXPECT_EQ(sc_core::sc_time_stamp().value(), core_.edge(result.end));
        EXPECT_EQ(transaction.extension.progress, nullptr);
        results_.push_back(result);
        if (results_.size() < posts_.size()) post_at(result.end + posts_[results_.size()].delay);
    }

  private:
    void post_at(Cycles cycle) {
        const uint64_t now = sc_core::sc_time_stamp().value(), then = core_.edge(cycle);
        if (then == now)
            due_.notify(sc_core::SC_ZERO_TIME);
        else
            due_.notify(sc_core::sc_time::from_value(then - now));
    }
    void post() {
        transaction_.extension.request = posts_[results_.size()].request;
        initiator.post(transaction_);
        EXPECT_NE(transaction_.extension.progress, nullptr);
    }

    const std::vector<Post>& posts_;
    Clock core_;
    std::vector<StreamResult>& results_;
    StreamTransaction transaction_;
    sc_core::sc_event due_{"due"};
};

/// A machine of posters and memories in a context of its own.
class Machine {
  public:
    Machine(const MemoryConfig& config, const Workload& workload, Interconnect::Stepping stepping)
        : results(workload.size()), storage_(4096) {
        interconnect = std::make_unique<Interconnect>("interconnect", config,
                                                      static_cast<unsigned>(workload.size()), stepping);
        for (size_t u = 0; u < workload.size(); ++u) {
            posters_.push_back(
                std::make_unique<Poster>(sc_core::sc_module_name(("unit_" + std::to_string(u)).c_str()),
                                         workload[u], config.core, results[u]));
            posters_.back()->initiator.socket.bind(interconnect->port(static_cast<unsigned>(u)));
        }
        const auto memory = [&](const std::string& name, StreamInitiatorSocket& socket) {
            memories_.push_back(
                std::make_unique<MemoryTarget>(sc_core::sc_module_name(name.c_str()), storage_));
            socket.bind(memories_.back()->socket);
        };
        memory("l2", interconnect->l2());
        for (unsigned k = 0; k < config.l1.size(); ++k)
            memory("l1_" + std::to_string(k), interconnect->l1(k));
        for (unsigned i = 0; i < config.ddr.channels; ++i)
            memory("ddr" + std::to_string(i), interconnect->ddr(i));
    }

    Poster& poster(size_t u) { return *posters_[u]; }
    Results results;
    std::unique_ptr<Interconnect> interconnect;

  private:
    values::MemoryLevel storage_;
    std::vector<std::unique_ptr<Poster>> posters_;
    std::vector<std::unique_ptr<MemoryTarget>> memories_;
};

constexpr Cycles long_after = 1'000'000;

std::string simulate(const MemoryConfig& config, const Workload& workload, Interconnect::Stepping stepping) {
    Context context;
    Machine machine(config, workload, stepping);
    sc_core::sc_start();
    for (size_t u = 0; u < workload.size(); ++u) EXPECT_EQ(machine.results[u].size(), workload[u].size());
    return text_of(machine.results) + text_of_stats(machine.interconnect->memory_system(), long_after);
}

TEST(Stepper, equals_one_event_per_burst_and_the_fabric_alone_on_random_mixes) {
    for (unsigned seed = 0; seed < 600; ++seed) {
        std::mt19937 random(seed);
        const MemoryConfig config = rough_config(random);
        const Workload workload = rough_workload(random, 1 + seed % 6, 4);
        const std::string fast = simulate(config, workload, Interconnect::Stepping::fast);
        EXPECT_EQ(fast, simulate(config, workload, Interconnect::Stepping::oracle)) << "seed " << seed;
        MemorySystem memory_system(config);
        const Results alone = run_workload(memory_system, workload, [] { return 0; });
        EXPECT_EQ(fast, text_of(alone) + text_of_stats(memory_system, long_after)) << "seed " << seed;
        if (HasFailure()) return;
    }
}

TEST(Stepper, does_not_depend_on_where_the_run_pauses) {
    for (unsigned seed = 100; seed < 200; ++seed) {
        std::mt19937 random(seed);
        const MemoryConfig config = rough_config(random);
        const Workload workload = rough_workload(random, 4, 3);
        const std::string whole = simulate(config, workload, Interconnect::Stepping::fast);
        Context context;
        Machine machine(config, workload, Interconnect::Stepping::fast);
        sc_core::sc_start(sc_core::SC_ZERO_TIME);
        while (sc_core::sc_pending_activity()) {
            const uint64_t step = 1 + random() % 300'000;
            machine.interconnect->set_step_end(sc_core::sc_time_stamp().value() + step);
            sc_core::sc_start(sc_core::sc_time::from_value(step));
        }
        EXPECT_EQ(whole,
                  text_of(machine.results) + text_of_stats(machine.interconnect->memory_system(), long_after))
            << "seed " << seed;
    }
}

TEST(Contexts, two_simulations_stepped_in_turn_equal_each_alone) {
    std::mt19937 random(7);
    const MemoryConfig config[2] = {rough_config(random), rough_config(random)};
    const Workload workload[2] = {rough_workload(random, 3, 3), rough_workload(random, 5, 2)};
    std::string alone[2];
    for (int i = 0; i < 2; ++i) alone[i] = simulate(config[i], workload[i], Interconnect::Stepping::fast);
    Context a;
    Machine machine_a(config[0], workload[0], Interconnect::Stepping::fast);
    Context b;
    Machine machine_b(config[1], workload[1], Interconnect::Stepping::fast);
    for (int i = 0; i < 2000; ++i) {
        Machine& machine = i % 2 == 0 ? machine_a : machine_b;
        (i % 2 == 0 ? a : b).enter();
        const sc_core::sc_time step = sc_core::sc_time::from_value(50'000);
        machine.interconnect->set_step_end((sc_core::sc_time_stamp() + step).value());
        sc_core::sc_start(step);
    }
    EXPECT_EQ(alone[0], text_of(machine_a.results) +
                            text_of_stats(machine_a.interconnect->memory_system(), long_after));
    EXPECT_EQ(alone[1], text_of(machine_b.results) +
                            text_of_stats(machine_b.interconnect->memory_system(), long_after));
}

TEST(BackDoor, reads_writes_and_grants_direct_access_at_bus_addresses) {
    Context context;
    std::mt19937 random(1);
    MemoryConfig config = plain_config();
    const Workload workload = {{{0, stream(memory(Level::l2, 0, 64), unit_of(0))}}};
    Machine machine(config, workload, Interconnect::Stepping::fast);
    sc_core::sc_start(sc_core::SC_ZERO_TIME);
    StreamInitiatorSocket& socket = machine.poster(0).initiator.socket;
    uint8_t bytes[4] = {1, 2, 3, 4};
    tlm::tlm_generic_payload payload;
    payload.set_write();
    payload.set_address(bus_address(Level::l1, 0, 100));
    payload.set_data_ptr(bytes);
    payload.set_data_length(4);
    EXPECT_EQ(socket->transport_dbg(payload), 4u);
    uint8_t read[4] = {};
    payload.set_read();
    payload.set_data_ptr(read);
    sc_core::sc_time delay;
    socket->b_transport(payload, delay);
    EXPECT_EQ(payload.get_response_status(), tlm::TLM_OK_RESPONSE);
    EXPECT_EQ(read[3], 4);
    tlm::tlm_dmi dmi;
    ASSERT_TRUE(socket->get_direct_mem_ptr(payload, dmi));
    EXPECT_EQ(dmi.get_start_address(), bus_address(Level::l1, 0, 0));
    EXPECT_EQ(dmi.get_dmi_ptr()[101], 2);
    payload.set_address(bus_address(Level::l1, 5, 0));  // no such engine
    EXPECT_EQ(socket->transport_dbg(payload), 0u);
    payload.set_address(bus_address(Level::l2, 0, 4095));  // beyond the end
    EXPECT_EQ(socket->transport_dbg(payload), 0u);
}

}  // namespace
}  // namespace kpu::model

// libsystemc brings its own main and wants this one
int sc_main(int, char**) { return 0; }

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
