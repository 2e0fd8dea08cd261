#include "model/accounting/work_counts.hpp"

#include <algorithm>

namespace kpu::model {

WorkCounts::WorkCounts(const BoundProgram& program) : ops_(program.ops.size() + 1) {
    for (size_t op = 0; op < program.ops.size(); ++op) ops_[op].share = mac_share(program, op);
}

void WorkCounts::completed(const TaskCommand& command) {
    const TaskPlan& plan = *command.plan;
    OpWork& op = ops_[std::min<size_t>(command.task->task->op, ops_.size() - 1)];
    for (const StreamUse& use : command.report.streams) {
        const uint64_t moved = use.result->bytes;
        const auto side = [&](const StreamSide& at, size_t direction) {
            if (!at.is_memory) return;
            const auto level = static_cast<size_t>(at.level);
            bytes_[level][direction] += moved;
            op.bytes[level] += moved;
        };
        side(use.request->source, 0);
        side(use.request->destination, 1);
        count_hits(use, plan.moves());
    }
    if (!plan.macs) return;
    const uint64_t before = op.macs;
    op.done_macs += plan.work + plan.repeated;
    op.macs = op.share.useful(op.done_macs);
    type_of(*plan.macs).macs += op.macs - before;
    op.cycles_at_peak += double(op.macs - before) * 65536.0 / double(std::max<uint64_t>(plan.peak_q16, 1));
}

void WorkCounts::count_hits(const StreamUse& use, bool mover) {
    const StreamSide& source = use.request->source;
    if (!source.is_memory) return;
    const uint64_t accesses = use.result->source_accesses;
    constexpr auto l1 = static_cast<size_t>(Level::l1), l2 = static_cast<size_t>(Level::l2);
    if (!mover) (source.level == Level::l1 ? hits_ : misses_)[l1] += accesses;
    const bool to_engine = !mover || use.request->destination.level == Level::l1;
    if (to_engine && source.level == Level::l2) hits_[l2] += accesses;
    if (to_engine && source.level == Level::ddr) misses_[l2] += accesses;
}

WorkCounts::TypeWork& WorkCounts::type_of(const MacWork& macs) {
    TypeWork*& known = of_operands_[static_cast<size_t>(macs.a)][static_cast<size_t>(macs.b)];
    if (known == nullptr) {
        known = &by_type_[macs.type];
        known->peak_q16 = macs.device_peak_q16;
    }
    return *known;
}

uint64_t WorkCounts::macs() const {
    uint64_t sum = 0;
    for (const auto& [name, type] : by_type_) sum += type.macs;
    return sum;
}

double WorkCounts::cycles_at_peak() const {
    double sum = 0;
    for (const auto& [name, type] : by_type_) {
        sum += double(type.macs) * 65536.0 / double(std::max<uint64_t>(type.peak_q16, 1));
    }
    return sum;
}

}  // namespace kpu::model
