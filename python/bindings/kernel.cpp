#include "base/read_file.hpp"
#include "isa/kernel/code.hpp"
#include "python/bindings/bindings.hpp"

namespace kpu::bindings {

namespace {

/// Lists each buffer and scalar, in order: (name, access, element type, count, whether it is loaded or
/// stored).
py::list operands_of(const kernel::Code& code) {
    py::list rows;
    size_t next = 0;
    for (const proto::KernelBuffer& declared : code.body->buffer()) {
        const bool scalar = declared.access() == proto::KernelBuffer::SCALAR;
        const bool direct = !scalar && code.buffers[next++].direct;
        std::string access = proto::KernelBuffer::Access_Name(declared.access());
        for (char& c : access) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        rows.append(py::make_tuple(declared.name(), access, declared.type(), declared.count(), direct));
    }
    return rows;
}

/// Returns (name, operands) of every kernel of a file. Throws UserError with all that is wrong with it.
py::list load_kernels(const std::string& path) {
    const std::string text = read_file(path, kernel::max_text_bytes);
    Diagnostics diagnostics;
    py::list rows;
    for (const kernel::Source& source : kernel::parse(text, path, diagnostics)) {
        if (diagnostics.has_errors()) break;
        kernel::check_form(*source.body, path);
        if (const auto code = kernel::analyse(source, diagnostics))
            rows.append(py::make_tuple(code->name(), operands_of(*code)));
    }
    if (diagnostics.has_errors()) throw UserError(diagnostics);
    return rows;
}

}  // namespace

void bind_kernel(py::module_& module) { module.def("load_kernels", &load_kernels, py::arg("path")); }

}  // namespace kpu::bindings
