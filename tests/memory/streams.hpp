#pragma once

#include <random>
#include <vector>

#include "model/memory/memory_system.hpp"
#include "platforms/ddr.hpp"
#include "platforms/platform.hpp"

namespace kpu::model::test {

/// Memories without latency, 64 bytes a cycle everywhere, DRAM as DDR4-3200 with core and DRAM clock equal
/// (1.6 GHz), so that cycles are nCK.
inline MemoryConfig plain_config(unsigned engines = 1) {
    MemoryConfig config;
    config.core = Clock(1'600'000'000);
    config.l2.size_bytes = 1 << 20;
    config.l2.banks = 16;
    config.l1.assign(engines, config.l2);
    config.ddr.size_bytes = 1ull << 30;
    return config;
}

/// DDR4-3200 with a controller: fidelity burst. `change` alters device and controller before that.
template <typename Change>
void use_controller(MemoryConfig& config, const std::string& mapping, uint32_t ranks, Change change) {
    proto::DdrDevice device = platforms::rated_ddr_device("DDR4-3200");
    proto::DdrController controller = platforms::default_ddr_controller();
    change(device, controller);
    config.ddr.controller = dram::make_config(device, controller, mapping, ranks);
}
inline void use_controller(MemoryConfig& config) {
    use_controller(config, "bank_group_interleaved", 1, [](auto&, auto&) {});
}

inline StreamSide memory(Level level, uint64_t address, uint64_t bytes, uint16_t engine = 0) {
    StreamSide side;
    side.is_memory = true;
    side.level = level;
    side.engine = engine;
    side.pattern.address = address;
    side.pattern.run_bytes = bytes;
    return side;
}

inline StreamSide rows(StreamSide side, int64_t count, int64_t stride) {
    side.pattern.dims = 1;
    side.pattern.count[0] = count;
    side.pattern.stride_bytes[0] = stride;
    return side;
}

inline StreamSide unit_of(uint16_t engine) {
    StreamSide side;
    side.engine = engine;
    return side;
}

inline StreamRequest stream(StreamSide source, StreamSide destination, uint16_t unit = 0) {
    StreamRequest request;
    request.unit = unit;
    request.source = source;
    request.destination = destination;
    return request;
}

/// Runs one stream alone from `start`; its result.
inline StreamResult run_alone(MemorySystem& memory_system, const StreamRequest& request, Cycles start = 0) {
    const MemorySystem::Handle handle = memory_system.open(request, start);
    const Cycles end = memory_system.advance(never);
    memory_system.take_completed(end);
    StreamResult result = memory_system.result(handle);
    memory_system.close(handle);
    return result;
}
inline StreamResult run_alone(const MemoryConfig& config, const StreamRequest& request) {
    MemorySystem memory_system(config);
    return run_alone(memory_system, request);
}
inline Cycles cycles_of(const MemoryConfig& config, const StreamRequest& request) {
    return run_alone(config, request).end;
}

}  // namespace kpu::model::test
