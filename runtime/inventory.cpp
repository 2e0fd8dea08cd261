#include "runtime/inventory.hpp"

#include <memory>

#include "isa/builder.hpp"
#include "model/device/device.hpp"
#include "runtime/simulation.hpp"

namespace kpu::runtime {

Inventory take_inventory(const platforms::Platform& platform) {
    SimulationOptions options;
    options.mode = Mode::values_timing;  // its statistics are all that there are
    Simulation simulation(std::make_shared<const Module>(builder::Program("nothing").build()), &platform,
                          options);
    simulation.run();
    return {model::unit_table(platform), model::list_modules(platform), simulation.stats()};
}

}  // namespace kpu::runtime
