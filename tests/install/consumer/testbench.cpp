// A test bench with an sc_main, modules, a report handler and a time resolution of its own steps two devices of kpusim
// from its thread. Prints what it saw; ends with 1 when its own simulation was disturbed.
#include <cstdio>
#include <cstring>
#include <kpusim/compiler/front_ends.hpp>
#include <kpusim/runtime/simulation.hpp>
#include <string>
#include <systemc>

namespace {

int own_warnings = 0;

void count_warnings(const sc_core::sc_report& report, const sc_core::sc_actions&) {
    if (std::strcmp(report.get_msg_type(), "consumer") == 0) ++own_warnings;
}

kpu::runtime::Simulation simulate(const char* program, const char* platform) {
    kpu::Diagnostics notes;
    kpu::compiler::DeviceChoice device;
    device.platform = platform;
    const kpu::compiler::Input input =
        kpu::compiler::load_for_device(kpu::compiler::Source::of_file(program), {}, device, notes);
    kpu::runtime::Simulation simulation(input.module, &*input.platform, {});
    simulation.fill_inputs_random(7);
    return simulation;
}

SC_MODULE(Bench) {
    sc_core::sc_in<bool> clock;
    const char* program;
    int edges = 0;
    bool done = false;

    SC_HAS_PROCESS(Bench);
    Bench(sc_core::sc_module_name name, const char* program_file) : sc_module(name), program(program_file) {
        SC_THREAD(drive);
        SC_METHOD(count);
        sensitive << clock.pos();
        dont_initialize();
    }

    void count() { ++edges; }

    void drive() {
        using kpu::runtime::RunStatus;
        kpu::runtime::Simulation first = simulate(program, "npm_lite");
        kpu::runtime::Simulation second = simulate(program, "edge16");
        RunStatus a = RunStatus::paused, b = RunStatus::paused;
        while (a == RunStatus::paused || b == RunStatus::paused) {
            if (a == RunStatus::paused) a = first.step(10);
            SC_REPORT_WARNING("consumer", "between two steps");
            if (b == RunStatus::paused) b = second.step(10);
            wait(10, sc_core::SC_NS);
        }
        done = a == RunStatus::finished && b == RunStatus::finished &&
               first.output("y").data == first.read("x").data &&
               second.output("y").data == second.read("x").data;
        std::printf("cycles %llu %llu\n", static_cast<unsigned long long>(first.now()),
                    static_cast<unsigned long long>(second.now()));
        sc_core::sc_stop();
    }
};

}  // namespace

int sc_main(int, char* arguments[]) {
    sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
    sc_core::sc_report_handler::set_handler(count_warnings);
    sc_core::sc_clock clock("clock", 5, sc_core::SC_NS);
    Bench bench("bench", arguments[1]);
    bench.clock(clock);
    sc_core::sc_start();
    const double passed = sc_core::sc_time_stamp().to_seconds() * 1e9;
    const int steps = static_cast<int>(passed / 10 + 0.5);
    std::printf("steps %d edges %d warnings %d\n", steps, bench.edges, own_warnings);
    const bool undisturbed = own_warnings == steps && bench.edges >= 2 * steps - 1 &&
                             bench.edges <= 2 * steps + 1 &&
                             sc_core::sc_get_time_resolution() == sc_core::sc_time(1, sc_core::SC_FS);
    return bench.done && undisturbed ? 0 : 1;
}
