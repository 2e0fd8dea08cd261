// Networks: what of a model can be imported, and what a compiled program says of itself.
#include <pybind11/stl.h>

#include "base/text.hpp"
#include "base/types.hpp"
#include "compiler/onnx/import.hpp"
#include "compiler/pipeline/compile.hpp"
#include "python/bindings/bindings.hpp"

namespace kpu::bindings {
namespace {

using Sizes = std::vector<int64_t>;

/// Returns (name, operator, reason) of every node; the reason is empty for those that can be imported.
py::list coverage(const std::string& path, const GivenOptions& given) {
    const onnx::ImportOptions options = onnx::import_options(OptionValues(pipeline::option_rows(), given));
    Diagnostics notes;
    std::vector<onnx::NodeSupport> nodes;
    {
        const py::gil_scoped_release release;
        nodes = onnx::coverage(path, options, notes);
    }
    py::list rows;
    for (const onnx::NodeSupport& node : nodes)
        rows.append(py::make_tuple(node.name, node.type, node.reason));
    return rows;
}

/// Returns the names of the operators that can be imported.
py::list known_operators() {
    py::list names;
    for (const onnx::KnownOperator& row : onnx::known_operators()) names.append(row.type);
    return names;
}

py::object value_of(const proto::OpAttribute& attribute) {
    switch (attribute.kind_case()) {
        case proto::OpAttribute::kI:
            return py::int_(attribute.i());
        case proto::OpAttribute::kF:
            return py::float_(attribute.f());
        case proto::OpAttribute::kS:
            return py::str(attribute.s());
        default:
            return py::none();
    }
}

template <class List>
py::list list_of(const List& items) {
    py::list list;
    for (const auto& item : items) list.append(item);
    return list;
}

py::dict row_of(const proto::Op& op) {
    py::list attributes;
    for (const proto::OpAttribute& attribute : op.attribute())
        attributes.append(py::make_tuple(attribute.name(), value_of(attribute), list_of(attribute.ints()),
                                         list_of(attribute.floats())));
    py::dict sizes;
    for (const proto::NamedInt& size : op.tiling().tile_size()) sizes[py::str(size.name())] = size.value();
    py::dict row;
    row["id"] = op.id();
    row["op_type"] = op.op_type();
    row["input_ids"] = list_of(op.input_id());
    row["output_ids"] = list_of(op.output_id());
    row["attributes"] = attributes;
    row["tile_sizes"] = sizes;
    row["loop_order"] = list_of(op.tiling().loop_order());
    row["double_buffer"] = op.tiling().double_buffer();
    row["prefetch_distance"] = op.tiling().prefetch_distance();
    row["schedule_order"] = op.schedule_order();
    row["fused_with"] = list_of(op.fused_with());
    row["estimated_cycles"] = op.estimated_cycles();
    return row;
}

/// Returns the level of the buffer that a tensor stands in; empty for one without.
std::string level_of(const KPUProgram& program, const proto::Tensor& tensor) {
    for (const proto::Buffer& buffer : program.buffer()) {
        if (buffer.name() == tensor.buffer()) return proto::Level_Name(buffer.level());
    }
    return "";
}

py::dict row_of(const KPUProgram& program, const proto::Tensor& tensor) {
    constexpr std::string_view roles[] = {"input", "output", "weight", "intermediate"};
    py::dict row;
    row["id"] = tensor.id();
    row["role"] = roles[static_cast<size_t>(tensor.role())];
    row["element_type"] = name_of(static_cast<ElemType>(tensor.elem()));
    row["shape"] = py::tuple(list_of(tensor.shape()));
    row["level"] = level_of(program, tensor);
    row["offset"] = tensor.offset();
    row["scales"] = list_of(tensor.quant().scale());
    row["zero_points"] = list_of(tensor.quant().zero_point());
    return row;
}

/// Counts the bytes of the buffers that tiles of all operations share, whether they fill them or not: of each
/// engine its L1, and a part of L2.
uint64_t reserved_sram_bytes(const KPUProgram& program) {
    uint64_t bytes = 0;
    for (const proto::Buffer& buffer : program.buffer()) {
        const bool shared = starts_with(buffer.name(), "staging_") || starts_with(buffer.name(), "l1_");
        if (shared && buffer.size().token_size() == 1)
            bytes += static_cast<uint64_t>(buffer.size().token(0).value());
    }
    return bytes;
}

/// Describes what the program says of itself: operations, tensors, sizes, estimates.
py::dict describe(const Program& held) {
    const KPUProgram& program = held.module->program;
    py::list ops, tensors;
    for (const proto::Op& op : program.op()) ops.append(row_of(op));
    for (const proto::Tensor& tensor : program.tensor()) tensors.append(row_of(program, tensor));
    py::dict all;
    all["ops"] = ops;
    all["tensors"] = tensors;
    all["input_ids"] = list_of(program.input_id());
    all["output_ids"] = list_of(program.output_id());
    all["precision"] = program.precision();
    all["peak_sram_bytes"] = program.peak_sram_bytes();
    all["reserved_sram_bytes"] = reserved_sram_bytes(program);
    all["peak_dram_bytes"] = program.peak_dram_bytes();
    all["weight_bytes"] = program.weight_bytes();
    all["activation_bytes"] = program.activation_bytes();
    all["estimated_total_cycles"] = program.estimated_total_cycles();
    all["estimated_total_energy_uj"] = program.estimated_total_energy_uj();
    return all;
}

}  // namespace

void bind_network(py::module_& module) {
    using py::arg;
    module.def("coverage", &coverage, arg("path"), arg("options"));
    module.def("known_operators", &known_operators);
    module.def("describe", &describe, arg("program"));
}

}  // namespace kpu::bindings
