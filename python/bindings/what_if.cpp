#include <pybind11/stl.h>

#include "python/bindings/bindings.hpp"
#include "runtime/what_if/simulate.hpp"

namespace kpu::bindings {
namespace {

using Row = std::tuple<std::string, std::string, std::optional<Cycles>, std::string>;

/// Returns the text, reason why nothing was simulated, and the outcomes: kind, words, cycles, problem.
std::tuple<std::string, std::string, std::vector<Row>> simulate_changes(const Program& program,
                                                                        const Platform& platform,
                                                                        ParamBindings params, Cycles cycles,
                                                                        double limit_s) {
    const what_if::Answers answers =
        what_if::simulate_changes({program.module, platform.resolved, std::move(params)}, cycles, limit_s);
    std::vector<Row> rows;
    for (const what_if::Outcome& outcome : answers.outcomes)
        rows.emplace_back(what_if::name_of(outcome.kind), outcome.words, outcome.cycles, outcome.problem);
    return {what_if::text_of(answers), answers.skipped, std::move(rows)};
}

}  // namespace

void bind_what_if(py::module_& module) {
    using py::arg;
    module.def("simulate_changes", &simulate_changes, arg("program"), arg("platform"), arg("params"),
               arg("cycles"), arg("limit_s"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace kpu::bindings
