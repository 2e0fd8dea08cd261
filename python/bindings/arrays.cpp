#include <pybind11/numpy.h>

#include "python/bindings/bindings.hpp"

namespace kpu::bindings {

NpyArray to_host(const py::buffer& array, std::string dtype) {
    const py::buffer_info info = array.request();
    NpyArray host;
    host.dtype = std::move(dtype);
    host.shape.assign(info.shape.begin(), info.shape.end());
    if (PyBuffer_IsContiguous(info.view(), 'C') == 0) throw InternalError("a host array is not in C order");
    if (info.size > 0)
        host.data.assign(static_cast<const char*>(info.ptr), static_cast<size_t>(info.size * info.itemsize));
    return host;
}

py::object to_numpy(const NpyArray& array) {
    return py::array(py::dtype(array.dtype), array.shape, array.data.data());
}

}  // namespace kpu::bindings
