#include "traces/task_times.hpp"

namespace kpu::traces {

std::vector<TaskTimes> task_times(const Events& events) {
    std::vector<TaskTimes> tasks;
    for (const Event& event : events) {
        const bool of_task = event.kind == EventKind::issue || event.kind == EventKind::ready ||
                             event.kind == EventKind::begin || event.kind == EventKind::end;
        if (!of_task || event.task >= events.size()) continue;
        if (event.task >= tasks.size()) tasks.resize(event.task + size_t{1});
        TaskTimes& task = tasks[event.task];
        if (event.kind == EventKind::issue) {
            task.issued = event.time_ps;
            continue;
        }
        task.op = event.op;
        if (event.kind == EventKind::ready) {
            task.ready = event.time_ps;
        } else if (event.kind == EventKind::end) {
            task.end = event.time_ps;
        } else if (task.unit == no_unit) {
            task.begin = event.time_ps;
            task.unit = event.unit;
        } else {
            task.partner = event.unit;
        }
    }
    return tasks;
}

TaskFlows task_flows(const Events& events, size_t tasks) {
    const auto counts = [tasks](const Event& event) {
        return event.kind == EventKind::flow && event.task < tasks && event.value >= 0 &&
               static_cast<uint64_t>(event.value) < tasks;
    };
    TaskFlows flows;
    flows.first.assign(tasks + 1, 0);
    for (const Event& event : events) {
        if (counts(event)) ++flows.first[event.task + size_t{1}];
    }
    for (size_t i = 0; i < tasks; ++i) flows.first[i + 1] += flows.first[i];
    flows.producer.resize(flows.first[tasks]);
    std::vector<uint64_t> next(flows.first.begin(), flows.first.end() - 1);
    for (const Event& event : events) {
        if (counts(event)) flows.producer[next[event.task]++] = static_cast<uint32_t>(event.value);
    }
    return flows;
}

}  // namespace kpu::traces
