#include <fmt/format.h>

#include <algorithm>

#include "compiler/emit/emission.hpp"

namespace kpu::compiler {
namespace {

builder::Buffer make_buffer(builder::Program& program, const std::string& name, Level level, uint64_t bytes) {
    return program.buffer(name, level, static_cast<int64_t>(std::max<uint64_t>(bytes, tile_align)),
                          tile_align);
}

}  // namespace

Buffers::Buffers(builder::Program& program, const Plan& plan, const Target& target) {
    const MemoryPlan& memory = plan.memory;
    for (uint32_t s = 0; s < memory.storages.size(); ++s) {
        const Storage& storage = memory.storages[s];
        if (storage.input || storage.output)
            host.emplace(s, make_buffer(program, fmt::format("host_{}", s), Level::ddr,
                                        host_bytes(storage, plan.inferences)));
    }
    weights = make_buffer(program, "weights", Level::ddr, 0);
    if (memory.ddr_bytes > 0) activations = make_buffer(program, "activations", Level::ddr, memory.ddr_bytes);
    if (plan.table.bytes > 0) table = make_buffer(program, "table", Level::l2, plan.table.bytes);
    if (plan.resident_bytes > 0) resident = make_buffer(program, "resident", Level::l2, plan.resident_bytes);
    if (plan.held_bytes > 0) held = make_buffer(program, "held", Level::l2, plan.held_bytes);
    for (size_t e = 0; e < target.engines.size(); ++e) {
        staging.push_back(
            make_buffer(program, fmt::format("staging_{}", e), Level::l2, 2 * plan.staging_bytes));
        l1.push_back(program.l1_buffer(fmt::format("l1_{}", e), static_cast<int64_t>(e),
                                       static_cast<int64_t>(2 * plan.arena_bytes), tile_align));
    }
}

builder::Buffer Buffers::of(uint32_t index, const Storage& storage) const {
    if (storage.input || storage.output) return host.at(index);
    return storage.home == Home::l2 ? resident : activations;
}

}  // namespace kpu::compiler
