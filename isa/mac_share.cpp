#include "isa/mac_share.hpp"

#include <algorithm>

#include "isa/module.hpp"

namespace kpu {

uint64_t op_attribute(const proto::Op& op, std::string_view name) {
    for (const proto::OpAttribute& attribute : op.attribute()) {
        if (attribute.name() == name) return static_cast<uint64_t>(std::max<int64_t>(0, attribute.i()));
    }
    return 0;
}

uint64_t MacShare::useful(uint64_t done) const {
    __extension__ typedef unsigned __int128 Wide;
    if (tasks == 0) return done;
    return static_cast<uint64_t>(static_cast<Wide>(done) * graph / tasks);
}

MacShare mac_share(const BoundProgram& program, size_t op) {
    if (program.module == nullptr || op >= static_cast<size_t>(program.module->program.op_size())) return {};
    const KPUProgram& source = program.module->program;
    const uint64_t tasks = op_attribute(source.op(static_cast<int>(op)), op_task_macs_attribute);
    const uint64_t one = op_attribute(source.op(static_cast<int>(op)), op_macs_attribute);
    uint64_t graph = 0;
    if (__builtin_mul_overflow(one, std::max<uint64_t>(1, source.inferences()), &graph)) return {};
    return graph < tasks ? MacShare{graph, tasks} : MacShare{};
}

}  // namespace kpu
