// An arithmetic engine written in Python.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstring>

#include "base/npy.hpp"
#include "isa/opcodes.hpp"
#include "python/bindings/bindings.hpp"
#include "values/compute.hpp"

namespace kpu::bindings {
namespace {

using values::Tensor;

py::dtype dtype_of(const Tensor& tensor) { return py::dtype(std::string(npy_dtype(tensor.type))); }

py::object quant_of(const BoundQuant* quant) {
    if (quant == nullptr || !*quant) return py::none();
    return py::make_tuple(py::tuple(py::cast(quant->scales)), py::tuple(py::cast(quant->zero_points)),
                          quant->axis, quant->group_size);
}

/// Returns (element type, dtype, shape, quantisation, array): the array is a copy; of a result there is none.
py::tuple operand_of(const Tensor& tensor, bool has_values) {
    const std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
    const py::dtype dtype = dtype_of(tensor);
    const py::object array =
        has_values ? py::object(py::array(dtype, shape, static_cast<const void*>(tensor.data))) : py::none();
    return py::make_tuple(name_of(tensor.type), dtype, py::tuple(py::cast(shape)), quant_of(tensor.quant),
                          array);
}

py::list operands_of(const std::vector<Tensor>& tensors, bool have_values) {
    py::list list;
    for (const Tensor& tensor : tensors) list.append(operand_of(tensor, have_values));
    return list;
}

py::dict attributes_of(OpcodeId id, const BoundAttrs& attributes) {
    py::dict all;
    for (const AttrSpec& spec : opcode(id).attributes) {
        const BoundAttr* found = attributes.find(spec.name);
        if (found == nullptr) continue;
        const py::str name{std::string(spec.name)};
        switch (spec.kind) {
            case AttrKind::integer:
                all[name] = found->integer;
                break;
            case AttrKind::boolean:
                all[name] = found->integer != 0;
                break;
            case AttrKind::real:
                all[name] = found->real;
                break;
            case AttrKind::elem_type:
                all[name] = name_of(found->type);
                break;
            case AttrKind::ints:
                all[name] = py::tuple(py::cast(found->ints));
                break;
            case AttrKind::reals:
                all[name] = py::tuple(py::cast(found->reals));
                break;
            case AttrKind::text:
            case AttrKind::word:
                all[name] = found->text;
        }
    }
    return all;
}

/// Calls an object with supports() and execute(); what it does not support our own engine computes.
/// Simulations run without the interpreter lock: it is taken for each call.
class PythonBackend final : public values::ComputeBackend {
  public:
    explicit PythonBackend(py::object object)
        : object_(std::move(object)), own_(values::make_fast_backend()) {}
    PythonBackend(const PythonBackend&) = delete;
    PythonBackend& operator=(const PythonBackend&) = delete;
    ~PythonBackend() override {
        const py::gil_scoped_acquire acquire;
        object_ = py::object();
    }

    const char* name() const override { return "python"; }
    bool supports(OpcodeId id, const std::vector<ElemType>& inputs,
                  const std::vector<ElemType>& outputs) const override {
        return own_->supports(id, inputs, outputs);
    }
    void execute(OpcodeId id, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                 const BoundAttrs& attributes) override {
        if (!call(id, inputs, outputs, attributes)) own_->execute(id, inputs, outputs, attributes);
    }

  private:
    /// False: it does not support the operation.
    bool call(OpcodeId id, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
              const BoundAttrs& attributes) {
        const py::gil_scoped_acquire acquire;
        const py::object results =
            object_.attr("call")(opcode(id).name, operands_of(inputs, true), operands_of(outputs, false),
                                 attributes_of(id, attributes));
        if (results.is_none()) return false;
        const auto arrays = results.cast<std::vector<py::array>>();
        if (arrays.size() != outputs.size()) throw InternalError("an engine gives another number of results");
        for (size_t i = 0; i < outputs.size(); ++i) {
            const auto bytes = static_cast<size_t>(arrays[i].nbytes());
            if (bytes != outputs[i].elements() * static_cast<size_t>(dtype_of(outputs[i]).itemsize()))
                throw InternalError("a result of an engine has another size");
            std::memcpy(outputs[i].data, arrays[i].data(), bytes);
        }
        return true;
    }

    py::object object_;
    std::unique_ptr<values::ComputeBackend> own_;
};

}  // namespace

std::unique_ptr<values::ComputeBackend> python_backend(py::object object) {
    if (object.is_none()) return nullptr;
    return std::make_unique<PythonBackend>(std::move(object));
}

}  // namespace kpu::bindings
