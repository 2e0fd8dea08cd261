#include <pybind11/stl.h>

#include "analysis/parameters.hpp"
#include "base/text.hpp"
#include "compiler/device_directive.hpp"
#include "compiler/nem_text/write_text.hpp"
#include "isa/container.hpp"
#include "isa/nem/nem.hpp"
#include "isa/verify.hpp"
#include "python/bindings/bindings.hpp"
#include "runtime/trials/simulate.hpp"

namespace kpu::bindings {
namespace {

/// `platform`: null for the one that the front end itself takes, if its programs depend on a device. `kept`: as of
/// Program::Recipe; null: nothing yet. `values`: as of compiler::LoadRequest.
Program make_program(compiler::Source source, GivenOptions options, std::vector<std::string> search_paths,
                     const Platform* platform, bool values, std::shared_ptr<Program::Kept> kept = nullptr) {
    const compiler::FrontEnd& front_end = compiler::recognise(source);
    Program program;
    program.search_paths = std::move(search_paths);
    program.has_values = front_end.has_values;
    if (front_end.for_device && platform != nullptr) {
        program.platform = *platform;
    } else if (front_end.for_device && !front_end.default_platform.empty()) {
        program.platform = resolve({std::string(front_end.default_platform), false, {}, {}, {}});
    }
    if (kept == nullptr) kept = std::make_shared<Program::Kept>();
    compiler::LoadRequest request;
    request.search_paths = program.search_paths;
    request.platform = program.platform ? &program.platform->resolved : nullptr;
    request.simulate = runtime::simulate_trials();
    request.values = values;
    const std::unique_lock alone(kept->mutex);
    request.kept = &kept->content;
    compiler::Loaded loaded =
        compiler::load(front_end, source, options, std::move(request), program.findings);
    if (loaded.module == nullptr) compiler::refuse_no_program(source);
    program.module = std::move(loaded.module);
    program.no_values = std::move(loaded.no_values);
    program.has_values = program.has_values && program.no_values.empty();
    if (program.platform) {
        auto changed = compiler::with_changes(program.platform->overrides, loaded.changes, source.origin(),
                                              program.findings);
        if (changed.size() > program.platform->overrides.size()) {
            program.platform->overrides = std::move(changed);
            program.platform = resolve(std::move(*program.platform));
        }
    }
    if (front_end.for_device)
        program.recipe = std::make_shared<Program::Recipe>(
            Program::Recipe{std::move(source), std::move(options), values, kept});
    return program;
}

Program load_program(const std::string& path, GivenOptions options, std::vector<std::string> search_paths,
                     const Platform* platform, bool values) {
    return make_program(compiler::Source::of_file(path), std::move(options), std::move(search_paths),
                        platform, values);
}

/// Returns the buffer of a Python object, which is given back with the interpreter lock held.
compiler::MemoryFile memory_file(const py::buffer& object) {
    auto* info = new py::buffer_info(object.request());
    const std::shared_ptr<const void> owner(info, [](const void* held) {
        const py::gil_scoped_acquire acquire;
        delete static_cast<const py::buffer_info*>(held);
    });
    if (PyBuffer_IsContiguous(info->view(), 'C') == 0)
        throw InternalError("a file in memory is not contiguous");
    return {owner, static_cast<const uint8_t*>(info->ptr),
            static_cast<uint64_t>(info->size * info->itemsize)};
}

Program parse_program(std::string bytes, std::string origin, GivenOptions options,
                      std::vector<std::string> search_paths, const Platform* platform,
                      const std::map<std::string, py::buffer>& files) {
    compiler::MemoryFiles beside;
    for (const auto& [name, object] : files) beside[name] = memory_file(object);
    const py::gil_scoped_release release;
    return make_program(compiler::Source::of_bytes(std::move(bytes), std::move(origin), std::move(beside)),
                        std::move(options), std::move(search_paths), platform, true);
}

/// Returns the same program for another device.
Program made_for(const Program& program, const Platform& platform) {
    if (program.recipe == nullptr) return program;
    return make_program(program.recipe->source, program.recipe->options, program.search_paths, &platform,
                        program.recipe->values, program.recipe->kept);
}

/// Returns (name, description, options, for_device, default_platform, has_values) of every front end.
py::list front_end_table() {
    py::list rows;
    for (const compiler::FrontEnd* row : compiler::front_ends())
        rows.append(py::make_tuple(row->name, row->description, rows_of(row->options), row->for_device,
                                   row->default_platform, row->has_values));
    return rows;
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
    if (!program.has_values) return found;  // nothing writes its operands
    analysis::add_to(analysis::check_other_values(program.module, params, limits,
                                                  analysis::check_schedule(*bound, limits)),
                     *bound, found);
    return found;
}

/// Returns the platform of the program's own device directive, or none, and what was found on the way.
std::pair<std::optional<Platform>, Diagnostics> own_platform(const Program& program,
                                                             const platforms::Overrides& overrides) {
    Diagnostics findings;
    auto resolved =
        compiler::resolve_platform(*program.module, "", overrides, program.search_paths, findings);
    if (!resolved) return {std::nullopt, findings};
    Platform platform;
    platform.is_text = true;
    platform.source = platforms::to_textproto(*resolved);
    platform.resolved = std::move(*resolved);
    return {std::move(platform), findings};
}

/// Saves a container for .kpu, else text.
void save(const Program& program, const std::string& path) {
    if (!program.no_values.empty()) throw UserError(program.no_values);
    if (ends_with(path, ".kpu")) return write_container(*program.module, path);
    compiler::write_text(*program.module, path);
}

}  // namespace

void bind_program(py::module_& module) {
    using py::arg;
    using Release = py::call_guard<py::gil_scoped_release>;
    module.def("front_end_table", &front_end_table);
    module.def("load_program", &load_program, arg("path"), arg("options"), arg("search_paths"),
               arg("platform").none(true), arg("values") = true, Release());
    module.def("parse_program", &parse_program, arg("bytes"), arg("origin"), arg("options"),
               arg("search_paths"), arg("platform").none(true), arg("files"));
    py::class_<Program>(module, "Program")
        .def_property_readonly("name", [](const Program& program) { return program.module->program.name(); })
        .def_property_readonly("origin", [](const Program& program) { return program.module->origin; })
        .def_property_readonly("findings", [](const Program& program) { return rows_of(program.findings); })
        .def_readwrite("has_values", &Program::has_values)
        .def_readwrite("no_values", &Program::no_values)
        .def_property_readonly("for_device", [](const Program& program) { return program.recipe != nullptr; })
        .def_readonly("platform", &Program::platform)
        .def("made_for", &made_for, arg("platform"), Release())
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
            "text", [](const Program& program) { return nem::print(*program.module); }, Release())
        .def("save", &save, arg("path"), Release())
        .def("container",
             [](const Program& program) { return py::bytes(serialize_container(*program.module)); });
}

}  // namespace kpu::bindings
