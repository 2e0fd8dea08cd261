#pragma once
// A controller driven by hand, one completion at a time.

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "execution/controller.hpp"

namespace kpu::execution::test {

class Stepper : public ControlListener {
  public:
    explicit Stepper(const BoundProgram& program, ControlOptions options = {})
        : program_(program), controller(program, options, *this) {}

    const BoundProgram& program_;
    Controller controller;
    std::vector<TaskInstance*> ready;  ///< in order of readiness
    std::vector<std::string> issued;   ///< "name" or "name(i=1)", in order

    void on_issue(TaskInstance& instance) override { issued.push_back(label(instance)); }
    void on_ready(TaskInstance& instance) override { ready.push_back(&instance); }

    std::string label(const TaskInstance& instance) const {
        const std::string iteration = iteration_text(program_, instance);
        return iteration.empty() ? instance.task->name : instance.task->name + "(" + iteration + ")";
    }
    std::vector<std::string> ready_labels() const {
        std::vector<std::string> labels;
        for (const TaskInstance* instance : ready) labels.push_back(label(*instance));
        return labels;
    }
    void complete(const std::string& what) {
        const auto it = std::find_if(ready.begin(), ready.end(), [&](auto* r) { return label(*r) == what; });
        if (it == ready.end()) throw std::runtime_error(what + " is not ready");
        complete_at(static_cast<size_t>(it - ready.begin()));
    }
    void complete_at(size_t index) {
        TaskInstance& instance = *ready[index];
        ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(index));
        controller.started(instance);
        controller.completed(instance);
    }
    std::vector<std::string> take_issued() {
        std::vector<std::string> result;
        result.swap(issued);
        return result;
    }
};

}  // namespace kpu::execution::test
