#include <pybind11/stl.h>

#include "compiler/tile_schedule/check.hpp"
#include "python/bindings/bindings.hpp"

namespace kpu::bindings {
namespace {

std::string_view name_of(Severity severity) {
    static constexpr std::string_view names[] = {"error", "warning", "info"};
    return names[static_cast<size_t>(severity)];
}

/// Raises a class of kpusim.errors.
void raise(const char* name, const char* message, const Diagnostics& diagnostics, const py::dict& more = {}) {
    const py::object type = py::module_::import("kpusim.errors").attr(name);
    const py::object error = type(py::str(message), rows_of(diagnostics));
    for (const auto& [key, value] : more) py::setattr(error, key, value);
    PyErr_SetObject(type.ptr(), error.ptr());
}

void translate(std::exception_ptr thrown) {
    try {
        std::rethrow_exception(std::move(thrown));
    } catch (const tile_schedule::ScheduleError& error) {
        py::dict more;
        more["kind"] = tile_schedule::name_of(error.kind());
        more["op"] = error.op();
        raise("ScheduleError", error.what(), error.diagnostics(), more);
    } catch (const UserError& error) {
        raise("UserError", error.what(), error.diagnostics());
    } catch (const SimulationError& error) {
        raise("SimulationError", error.what(), {});
    } catch (const InternalError& error) {
        raise("InternalError", error.what(), {});
    }
}

}  // namespace

py::tuple place_of(const SourcePos& pos) { return py::make_tuple(pos.file, pos.line, pos.column); }

py::list rows_of(const std::vector<OptionRow>& options) {
    py::list rows;
    for (const OptionRow& row : options)
        rows.append(py::make_tuple(row.name, name_of(row.kind), row.default_text, row.meaning,
                                   py::tuple(py::cast(row.choices))));
    return rows;
}

py::list rows_of(const Diagnostics& diagnostics) {
    py::list list;
    for (const Diagnostic& item : diagnostics.all()) {
        py::list notes;
        for (const std::string& note : item.notes) notes.append(note);
        list.append(py::make_tuple(name_of(item.severity), item.pos.file, item.pos.line, item.pos.column,
                                   item.message, notes));
    }
    return list;
}

void bind_errors(py::module_&) { py::register_local_exception_translator(translate); }

}  // namespace kpu::bindings
