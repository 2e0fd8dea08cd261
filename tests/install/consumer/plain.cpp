// plain PROGRAM.kpu PLATFORM FOLDER: the simulator alone runs a program that another tool wrote, on random inputs, and leaves
// the folder that `kpusim run --fill random:7` does. Prints the cycles.
#include <cstdio>
#include <kpusim/isa/container.hpp>
#include <kpusim/runtime/save_run.hpp>
#include <kpusim/runtime/simulation.hpp>
#include <memory>

int main(int, char* arguments[]) {
    int base = 1;  // what our own flags refuse: none of them may come with the package
    {
        int base = 2;
        (void)base;
    }
    try {
        auto program = std::make_shared<const kpu::Module>(kpu::read_container(arguments[1]));
        const kpu::platforms::Platform platform = kpu::platforms::load(arguments[2]);
        kpu::runtime::Simulation simulation(program, &platform, {});
        simulation.fill_inputs_random(7);
        if (simulation.run() != kpu::runtime::RunStatus::finished) return base;
        kpu::traces::RunFolder folder(arguments[3], false);
        kpu::runtime::save_run(folder, simulation, simulation.op_rows(), {});
        kpu::runtime::finish_saved_run(folder, simulation);
        std::printf("%llu cycles, version %s\n", static_cast<unsigned long long>(simulation.now()),
                    KPUSIM_VERSION_STRING);
    } catch (const kpu::UserError& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
}
