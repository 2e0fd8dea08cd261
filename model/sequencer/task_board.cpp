#include "model/sequencer/task_board.hpp"

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::model {

namespace {

TaskClass make_class(const BoundTask& task) {
    TaskClass result;
    result.kind = task.unit;
    result.instance = task.instance;
    result.engine_dma = task.also_engine_dma;
    if (task.unit == UnitKind::sdma) {
        result.sequencer =
            task.also_engine_dma && task.engine >= 0 ? task.engine : std::max(task.token_engine, 0);
        if (task.also_engine_dma) result.engine = task.engine;
    } else {
        result.engine = task.engine;
    }
    return result;
}

bool same(const TaskClass& a, const TaskClass& b) {
    return a.kind == b.kind && a.engine == b.engine && a.instance == b.instance &&
           a.engine_dma == b.engine_dma && a.sequencer == b.sequencer;
}

}  // namespace

traces::UnitClass unit_class_of(UnitKind kind) {
    switch (kind) {
        case UnitKind::nmu:
            return traces::UnitClass::nmu;
        case UnitKind::cstl:
            return traces::UnitClass::cstl;
        case UnitKind::dma:
            return traces::UnitClass::dma;
        case UnitKind::vpu:
            return traces::UnitClass::vpu;
        case UnitKind::sdma:
            return traces::UnitClass::sdma;
        case UnitKind::seq:
        case UnitKind::wdm:
            break;
    }
    throw InternalError("SEQ and WDM execute no tasks");
}

bool executes_tasks(traces::UnitClass unit_class) {
    using traces::UnitClass;
    return unit_class == UnitClass::nmu || unit_class == UnitClass::cstl || unit_class == UnitClass::vpu ||
           unit_class == UnitClass::dma || unit_class == UnitClass::sdma;
}

UnitKind unit_kind_of(traces::UnitClass unit_class) {
    switch (unit_class) {
        case traces::UnitClass::nmu:
            return UnitKind::nmu;
        case traces::UnitClass::cstl:
            return UnitKind::cstl;
        case traces::UnitClass::vpu:
            return UnitKind::vpu;
        case traces::UnitClass::dma:
            return UnitKind::dma;
        case traces::UnitClass::sdma:
            return UnitKind::sdma;
        default:
            throw InternalError("a unit without tasks has no unit kind");
    }
}

TaskBoard::TaskBoard(const BoundProgram& program, const std::vector<traces::UnitInfo>& units)
    : program_(program), by_unit_(units.size()), free_(units.size(), true) {
    for (const BoundTask& task : program.tasks) {
        TaskClass wanted = make_class(task);
        const auto found = std::find_if(classes_.begin(), classes_.end(),
                                        [&](const TaskClass& c) { return same(c, wanted); });
        class_of_task_.push_back(static_cast<uint32_t>(found - classes_.begin()));
        if (found == classes_.end()) classes_.push_back(std::move(wanted));
    }
    for (size_t c = 0; c < classes_.size(); ++c) {
        TaskClass& wanted = classes_[c];
        for (size_t u = 0; u < units.size(); ++u) {
            const traces::UnitInfo& unit = units[u];
            const bool on_device = wanted.kind == UnitKind::sdma;
            const bool fits = unit.unit_class == unit_class_of(wanted.kind) &&
                              (on_device || wanted.engine < 0 || wanted.engine == unit.engine) &&
                              (wanted.instance < 0 || wanted.instance == unit.index);
            const bool partner = wanted.engine_dma && unit.unit_class == traces::UnitClass::dma &&
                                 unit.engine == std::max(wanted.engine, 0);
            if (fits) wanted.units.push_back(static_cast<uint16_t>(u));
            if (partner) wanted.partners.push_back(static_cast<uint16_t>(u));
            if (fits || partner) by_unit_[u].push_back(static_cast<uint32_t>(c));
        }
        if (wanted.units.empty() || (wanted.engine_dma && wanted.partners.empty())) {
            throw UserError(
                "the program needs a unit of kind " + std::string(name_of(wanted.kind)) +
                " that the platform does not have. Fix: run it on a platform that has one, or change the "
                "task's @resource.");
        }
    }
}

size_t TaskBoard::class_of(const BoundTask& task) const {
    return class_of_task_[static_cast<size_t>(&task - program_.tasks.data())];
}

void TaskBoard::issued(execution::TaskInstance& task) {
    classes_[class_of(*task.task)].waiting.push_back(task);
}

void TaskBoard::ready(execution::TaskInstance& task) {
    TaskClass& own = classes_[class_of(*task.task)];
    own.waiting.erase(own.waiting.iterator_to(task));
    own.ready.push(&task);
}

void TaskBoard::started(execution::TaskInstance& task) {
    auto& ready = classes_[class_of(*task.task)].ready;
    if (ready.top() != &task) throw InternalError("a task started before an earlier one of its class");
    ready.pop();
}

const execution::TaskInstance* TaskBoard::earliest() const {
    const execution::TaskInstance* best = nullptr;
    for (const TaskClass& c : classes_) best = earlier(best, earlier(c.first_waiting(), c.first_ready()));
    return best;
}

}  // namespace kpu::model
