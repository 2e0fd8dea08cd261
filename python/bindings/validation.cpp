#include <pybind11/stl.h>

#include "python/bindings/bindings.hpp"
#include "runtime/validation/measured.hpp"
#include "runtime/validation/schedule.hpp"

namespace kpu::bindings {
namespace {

/// Line, name, class, cycles, and why it does not count, of each row of a file of `kpusim validate`.
using MeasuredLayer = std::tuple<size_t, std::string, std::string, double, std::string>;
std::vector<MeasuredLayer> measured_layers(const std::string& path) {
    std::vector<MeasuredLayer> layers;
    for (const validation::MeasuredRow& row : validation::read_measured(path)) {
        const bool has_shape = row.work.kind != validation::Work::Kind::unknown;
        layers.emplace_back(row.line, row.name(), validation::name_of(row.layer_class), row.cycles,
                            has_shape ? row.not_counted : "the row gives no shape");
    }
    return layers;
}

/// Returns the schedule that was measured in this line of the file, on a platform.
Program measured_program(const std::string& path, size_t line, const Platform& platform) {
    for (const validation::MeasuredRow& row : validation::read_measured(path)) {
        if (row.line != line) continue;
        Program program;
        program.module =
            std::make_shared<const Module>(validation::measured_schedule(row, platform.resolved));
        return program;
    }
    throw UserError(path + ": it has no such line any more. Fix: leave it as it is meanwhile.");
}

}  // namespace

void bind_validation(py::module_& module) {
    using py::arg;
    module.def("measured_layers", &measured_layers, arg("path"), py::call_guard<py::gil_scoped_release>());
    module.def("measured_program", &measured_program, arg("path"), arg("line"), arg("platform"),
               py::call_guard<py::gil_scoped_release>());
}

}  // namespace kpu::bindings
