#include "python/bindings/bindings.hpp"

PYBIND11_MODULE(_core, module, pybind11::multiple_interpreters::not_supported()) {
    module.doc() = "Bindings of the C++ runtime; use the package kpusim.";
    module.attr("version") = KPUSIM_VERSION;
    kpu::bindings::to_numpy({"<f4", {0}, {}});  // looks NumPy up now, and not in the first run
    kpu::bindings::bind_errors(module);
    kpu::bindings::bind_platform(module);
    kpu::bindings::bind_program(module);
    kpu::bindings::bind_network(module);
    kpu::bindings::bind_kernel(module);
    kpu::bindings::bind_recording(module);
    kpu::bindings::bind_simulation(module);
    kpu::bindings::bind_schedule(module);
    kpu::bindings::bind_what_if(module);
    kpu::bindings::bind_validation(module);
}
