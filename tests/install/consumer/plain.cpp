// The simulator alone runs a program that another tool wrote; prints its cycles.
#include <cstdio>
#include <kpusim/isa/container.hpp>
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
        const kpu::platforms::Platform platform = kpu::platforms::load("npm_lite");
        kpu::runtime::Simulation simulation(program, &platform, {});
        simulation.fill_inputs_zero();
        if (simulation.run() != kpu::runtime::RunStatus::finished) return base;
        std::printf("%llu cycles, version %s\n", static_cast<unsigned long long>(simulation.now()),
                    KPUSIM_VERSION_STRING);
    } catch (const kpu::UserError& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
}
