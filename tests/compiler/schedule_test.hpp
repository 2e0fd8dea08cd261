#pragma once
// Helpers for the tests of schedules.
#include <gtest/gtest.h>

#include <string>

#include "base/read_file.hpp"
#include "compiler/tile_schedule/forms.hpp"
#include "compiler/tile_schedule/lower.hpp"
#include "platforms/platform.hpp"
#include "runtime/simulation.hpp"

namespace kpu::tile_schedule {

inline std::string data_path(const std::string& name) {
    return std::string(KPUSIM_SOURCE_DIR) + "/examples/tile_schedule/" + name;
}

/// Returns the three-layer network of the original runtime, scheduled by it, with a header beside it.
inline Schedule reference_mlp() {
    const std::string path = data_path("mlp_3layer_256k.sched"), header = data_path("mlp_3layer.header");
    Schedule schedule = read_schedule(read_file(path), path);
    set_header(schedule, read_header(read_file(header), header));
    return schedule;
}

inline const platforms::Platform& tile32() {
    static const platforms::Platform platform = platforms::load("tile32");
    return platform;
}

inline Module lowered(const Schedule& schedule, uint64_t arena_bytes = 256 * 1024) {
    AnalysisOptions options;
    options.arena_bytes = arena_bytes;
    return lower(schedule, analyse(schedule, options), "test");
}

inline runtime::Simulation simulation_of(const Schedule& schedule, uint64_t arena_bytes, runtime::Mode mode) {
    runtime::SimulationOptions options;
    options.mode = mode;
    return runtime::Simulation(std::make_shared<Module>(lowered(schedule, arena_bytes)), &tile32(), options);
}

inline void bind(runtime::Simulation& simulation, const Tensor& tensor, const std::string& dense) {
    simulation.set_input(tensor.name,
                         {std::string(npy_dtype(tensor.elem)), {tensor.rows, tensor.cols}, dense});
}

}  // namespace kpu::tile_schedule
