#include "model/accounting/work_counts.hpp"

#include <algorithm>

#include "model/timing/systolic.hpp"
#include "platforms/platform.hpp"

namespace kpu::model {

WorkCounts::Task WorkCounts::add(const TaskCommand& command, bool on_array) {
    const TaskReport& report = command.report;
    Task task;
    for (const StreamUse& use : report.streams) {
        const uint64_t moved = use.result->bytes;
        const auto side = [&](const StreamSide& at, size_t direction) {
            if (!at.is_memory) return;
            const auto level = static_cast<size_t>(at.level);
            bytes_[level][direction] += moved;
            task.bytes[level] += moved;
        };
        side(use.request->source, 0);
        side(use.request->destination, 1);
        count_hits(use, report.mover);
    }
    if (report.mover || !on_array) return task;
    TypeWork& type = type_of(*command.task);
    type.macs += report.work;
    task.macs = report.work;
    return task;
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

WorkCounts::TypeWork& WorkCounts::type_of(const execution::TaskInstance& task) {
    const ElemType a = task.inputs[0].region->elem, b = task.inputs[1].region->elem;
    TypeWork*& known = of_operands_[static_cast<size_t>(a)][static_cast<size_t>(b)];
    if (known == nullptr) known = &type_named(timing::rate_name(a, b), a, b);
    return *known;
}

WorkCounts::TypeWork& WorkCounts::type_named(const std::string& name, ElemType a, ElemType b) {
    const auto [place, added] = by_type_.try_emplace(name);
    TypeWork& type = place->second;
    if (!added) return type;
    for (const proto::Engine& engine : platforms::engines_of(platform_)) {
        for (const proto::MacRate& rate : engine.array().rate()) {
            if (rate.type() != name) continue;
            type.peak_q16 += timing::array_for(engine.array(), a, b).peak_q16() * engine.array().count();
        }
    }
    // per core cycle
    __extension__ typedef unsigned __int128 Wide;
    type.peak_q16 =
        static_cast<uint64_t>(static_cast<Wide>(type.peak_q16) * platforms::array_clock(platform_).hz() /
                              platforms::core_clock(platform_).hz());
    return type;
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
