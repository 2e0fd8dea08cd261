#include <pybind11/stl.h>

#include "analysis/parameters.hpp"
#include "base/text.hpp"
#include "isa/container.hpp"
#include "isa/verify.hpp"
#include "python/bindings/bindings.hpp"
#include "runtime/program_loader.hpp"

namespace kpu::bindings {
namespace {

Program load_program(const std::string& path, std::vector<std::string> search_paths) {
    Program program{nullptr, {}, std::move(search_paths)};
    program.module = runtime::load_program(path, program.search_paths, program.findings);
    return program;
}

Program parse_program(const std::string& bytes, const std::string& origin,
                      std::vector<std::string> search_paths) {
    Program program{nullptr, {}, std::move(search_paths)};
    program.module = runtime::parse_program(bytes, origin, program.search_paths, program.findings);
    return program;
}

/// Verifies a program for a platform (null: any device) and looks for what its schedule may do wrong.
Diagnostics check(const Program& program, const Platform* platform, const ParamBindings& params) {
    Diagnostics found = program.findings;
    const DeviceLimits limits =
        platform != nullptr ? platforms::limits_of(platform->resolved) : platforms::agnostic_limits();
    VerifyOptions options;
    options.params = params;
    const std::optional<BoundProgram> bound = verify(program.module, limits, options, found);
    if (!bound || found.has_errors()) return found;
    analysis::add_to(analysis::check_other_values(program.module, params, limits,
                                                  analysis::check_schedule(*bound, limits)),
                     *bound, found);
    return found;
}

/// The platform of the program's own device directive, or none, and what was found on the way.
std::pair<std::optional<Platform>, Diagnostics> own_platform(const Program& program,
                                                             const platforms::Overrides& overrides) {
    Diagnostics findings;
    auto resolved = runtime::resolve_platform(*program.module, "", overrides, program.search_paths, findings);
    if (!resolved) return {std::nullopt, findings};
    Platform platform;
    platform.is_text = true;
    platform.source = platforms::to_textproto(*resolved);
    platform.resolved = std::move(*resolved);
    return {std::move(platform), findings};
}

/// A container for .kpu, else text.
void save(const Program& program, const std::string& path) {
    if (ends_with(path, ".kpu")) return write_container(*program.module, path);
    runtime::write_text(*program.module, path);
}

}  // namespace

void bind_program(py::module_& module) {
    using py::arg;
    using Release = py::call_guard<py::gil_scoped_release>;
    module.def("load_program", &load_program, arg("path"), arg("search_paths"), Release());
    module.def("parse_program", &parse_program, arg("bytes"), arg("origin"), arg("search_paths"), Release());
    py::class_<Program>(module, "Program")
        .def_property_readonly("name", [](const Program& program) { return program.module->program.name(); })
        .def_property_readonly("origin", [](const Program& program) { return program.module->origin; })
        .def_property_readonly("findings", [](const Program& program) { return rows_of(program.findings); })
        .def(
            "own_platform",
            [](const Program& program, const platforms::Overrides& overrides) {
                auto [platform, findings] = own_platform(program, overrides);
                return py::make_tuple(std::move(platform), rows_of(findings));
            },
            arg("overrides"))
        .def(
            "check",
            [](const Program& program, const Platform* platform, const ParamBindings& params) {
                Diagnostics found;
                {
                    const py::gil_scoped_release release;
                    found = check(program, platform, params);
                }
                return rows_of(found);
            },
            arg("platform").none(true), arg("params"))
        .def(
            "text", [](const Program& program) { return runtime::program_text(*program.module); }, Release())
        .def("save", &save, arg("path"), Release())
        .def("container",
             [](const Program& program) { return py::bytes(serialize_container(*program.module)); });
}

}  // namespace kpu::bindings
