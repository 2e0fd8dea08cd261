#pragma once

#include <pybind11/pybind11.h>

#include <any>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/diagnostics.hpp"
#include "base/npy.hpp"
#include "compiler/front_ends.hpp"
#include "isa/module.hpp"
#include "platforms/platform.hpp"
#include "values/compute.hpp"

/// The bindings convert and forward; what they offer is shaped by the package (python/kpusim). Each concept
/// has one function here that adds its classes to the module.
namespace kpu::bindings {

namespace py = pybind11;

void bind_errors(py::module_& module);
void bind_platform(py::module_& module);
void bind_program(py::module_& module);
void bind_network(py::module_& module);
void bind_kernel(py::module_& module);
void bind_simulation(py::module_& module);
void bind_recording(py::module_& module);
void bind_schedule(py::module_& module);
void bind_what_if(py::module_& module);
void bind_validation(py::module_& module);

/// Returns (name, kind, default, meaning, choices) of each.
py::list rows_of(const std::vector<OptionRow>& options);
/// Returns (severity, file, line, column, message, notes); file empty, line and column 0 when unknown.
py::list rows_of(const Diagnostics& diagnostics);
py::tuple place_of(const SourcePos& pos);  ///< (file, line, column)

/// Converts a C-order, little-endian array to a host array and back; both copy.
NpyArray to_host(const py::buffer& array, std::string dtype);
py::object to_numpy(const NpyArray& array);

/// Arithmetic by an object of the package (kpusim/simulation/backend.py); null for None.
std::unique_ptr<values::ComputeBackend> python_backend(py::object object);

/// A platform, and where it came from: overrides apply to the source, because other values follow from them.
struct Platform {
    std::string source;  ///< name or path; text of a platform when `is_text`
    bool is_text = false;
    platforms::Overrides overrides;
    std::vector<std::string> search_paths;
    platforms::Platform resolved;
};
/// Reads a platform's source and applies its overrides. Throws UserError.
Platform resolve(Platform platform);

/// A program as the package holds it.
struct Program {
    std::shared_ptr<const Module> module;
    Diagnostics findings;  ///< findings of the reader
    std::vector<std::string> search_paths;
    bool has_values = true;
    std::string no_values;  ///< why not, where files of its form have some
    /// State that its front end need not make again for another device (compiler::LoadRequest::kept).
    struct Kept {
        std::mutex mutex;
        std::any content;
    };
    /// Way in which it was made, when that depends on the device.
    struct Recipe {
        compiler::Source source;
        GivenOptions options;
        bool values = true;  ///< false: only its time is wanted
        std::shared_ptr<Kept> kept;
    };
    std::shared_ptr<const Recipe> recipe;
    std::optional<Platform> platform;  ///< that it was made for, with the changes that it needs
};

}  // namespace kpu::bindings
