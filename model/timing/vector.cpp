#include "model/timing/vector.hpp"

#include <algorithm>
#include <cmath>

#include "isa/opcodes.hpp"

namespace kpu::timing {

VectorWork vector_work(const BoundProgram& program, const BoundTask& task) {
    const auto region = [&](uint32_t index) -> const BoundRegion& { return program.regions.at(index); };
    const auto elements = [&](uint32_t index) {
        return static_cast<uint64_t>(region(index).shape.product());
    };
    const WorkCount work = opcode(task.opcode).work;
    if (work == WorkCount::operands) return {elements(task.inputs.at(0)), false};
    const bool moves = work == WorkCount::result_bytes;
    uint64_t sum = 0;
    for (uint32_t output : task.outputs)
        sum += moves ? packed_bytes(region(output).elem, elements(output)) : elements(output);
    if (work == WorkCount::windows) {
        if (const BoundAttr* window = task.attrs.find("kernel_shape")) {
            for (int64_t extent : window->ints) sum *= static_cast<uint64_t>(std::max<int64_t>(extent, 1));
        }
    }
    return {sum, moves};
}

VectorTime vector_time(const proto::Vector& vector, std::string_view opcode_name, const VectorWork& work) {
    double cycles = 1;
    VectorTime time;
    if (const auto id = find_opcode(opcode_name)) {
        cycles = opcode(*id).cycles;
        time.passes = opcode(*id).passes;
    }
    for (const proto::OpcodeCost& cost : vector.cost()) {
        if (cost.opcode() != opcode_name) continue;
        if (cost.has_cycles_per_element()) cycles = cost.cycles_per_element();
        if (cost.has_passes()) time.passes = std::max(1u, cost.passes());
    }
    time.work = work.amount;
    time.per_cycle =
        work.bytes ? std::max(1u, std::min(vector.operand_bytes_per_cycle(), vector.result_bytes_per_cycle()))
                   : vector.lanes();
    const uint64_t groups = (work.amount + time.per_cycle - 1) / time.per_cycle;
    time.steady = static_cast<Cycles>(std::ceil(double(groups) * cycles * time.passes));
    time.latency = vector.pipeline_latency_cycles();
    return time;
}

VectorTime vector_time(const proto::Vector& vector, const BoundProgram& program, const BoundTask& task) {
    return vector_time(vector, opcode(task.opcode).name, vector_work(program, task));
}

}  // namespace kpu::timing
