#include "model/timing/vector.hpp"

#include <algorithm>
#include <cmath>

#include "isa/opcodes.hpp"

namespace kpu::timing {

uint64_t vector_elements(const BoundProgram& program, const BoundTask& task) {
    const auto elements = [&](uint32_t region) {
        return static_cast<uint64_t>(program.regions.at(region).shape.product());
    };
    const OpcodeClass op_class = opcode(task.opcode).op_class;
    if (op_class == OpcodeClass::reduction) return elements(task.inputs.at(0));
    uint64_t sum = 0;
    for (uint32_t region : task.outputs) sum += elements(region);
    if (op_class == OpcodeClass::pooling) {
        if (const BoundAttr* window = task.attrs.find("kernel_shape")) {
            for (int64_t extent : window->ints) sum *= static_cast<uint64_t>(std::max<int64_t>(extent, 1));
        }
    }
    return sum;
}

VectorTime vector_time(const proto::Vector& vector, std::string_view opcode_name, uint64_t elements) {
    double cycles_per_element = 1;
    VectorTime time;
    for (const proto::OpcodeCost& cost : vector.cost()) {
        if (cost.opcode() != opcode_name) continue;
        if (cost.has_cycles_per_element()) cycles_per_element = cost.cycles_per_element();
        if (cost.has_passes()) time.passes = std::max(1u, cost.passes());
    }
    time.elements = elements;
    const uint64_t groups = (elements + vector.lanes() - 1) / vector.lanes();
    time.steady = static_cast<Cycles>(std::ceil(double(groups) * cycles_per_element * time.passes));
    time.latency = vector.pipeline_latency_cycles();
    return time;
}

VectorTime vector_time(const proto::Vector& vector, const BoundProgram& program, const BoundTask& task) {
    return vector_time(vector, opcode(task.opcode).name, vector_elements(program, task));
}

}  // namespace kpu::timing
