#pragma once
// One node of the graph while it is exported: its operands in the model, and the ways to make nodes there.
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/quantize/export/export_values.hpp"

namespace kpu::quantize {

class ExportedNode {
  public:
    ExportedNode(const graph::Graph& graph, const graph::Node& node_, ExportedValues& values_,
                 OnnxWriter& writer_)
        : node(node_), spec(node_.spec()), values(values_), writer(writer_), graph_(graph) {}

    const graph::Node& node;
    const OpcodeSpec& spec;
    ExportedValues& values;
    OnnxWriter& writer;

    // ---- operands and attributes

    size_t inputs() const { return node.inputs.size(); }
    const graph::Value& in(size_t i) const { return graph_.value(node.inputs[i]); }
    const graph::Value& out(size_t i = 0) const { return graph_.value(node.outputs[i]); }
    const Dims& shape(size_t i = 0) const { return in(i).shape; }
    size_t rank() const { return static_cast<size_t>(in(0).shape.rank); }
    /// Returns a bool where the opcode takes conditions, else numbers.
    std::string x(size_t i = 0);
    Names operands();
    /// Returns the same, numbers in a type that runtimes compute in: few take narrow integers.
    std::string wide(size_t i = 0);
    static int wide_type(const graph::Value& value);

    int64_t integer(std::string_view name, int64_t fallback = 0) const {
        return node.attrs.integer(name, fallback);
    }
    double real(std::string_view name) const { return node.attrs.real(name, 0); }
    const Sizes& ints(std::string_view name) const;
    /// Returns the attribute `axis`, from the front.
    int64_t axis() const;
    /// Returns those of these attributes that the node has; ONNX calls them so, too.
    std::vector<OnnxWriter::Attribute> attributes(const std::vector<std::string_view>& names) const;

    // ---- nodes of the model

    std::string op(const std::string& op_type, const Names& operands,
                   const std::vector<OnnxWriter::Attribute>& attributes = {});
    std::string cast(const std::string& name, int type);
    std::string transposed(const std::string& name, const Sizes& perm);
    std::string reshaped(const std::string& name, const Sizes& shape);
    /// Makes one number, rank 0, of the type of wide(); floats for floats.
    std::string number(double value, size_t like_operand = 0);
    std::string floats(const Sizes& shape, const std::vector<double>& numbers);
    std::string integers(const Sizes& numbers);
    std::string integers(const Sizes& shape, const Sizes& numbers);

    // ---- results

    void result(const std::string& name, size_t output = 0) {
        result_of_type(name, natural_type(output), output);
    }
    /// Casts the result: `name` has another type than the numbers of the output.
    void result_of_type(const std::string& name, int type, size_t output = 0);
    [[noreturn]] void refuse(const std::string& reason, const std::string& fix) const;

  private:
    const std::string& like() const { return out().name; }
    int natural_type(size_t output) const { return ExportedValues::type_of(out(output)); }
    const graph::Graph& graph_;
};

/// Returns the dimensions of images in ONNX: channels before the window's; and back.
Sizes channels_first(size_t rank);
Sizes channels_last(size_t rank);

/// Exports of each opcode's nodes, by its name.
using Exports = std::unordered_map<std::string_view, std::function<void(ExportedNode&)>>;
void export_elementwise(Exports& t);
void export_products(Exports& t);
void export_views(Exports& t);
void export_rows(Exports& t);
void export_pictures(Exports& t);
void export_kernels(Exports& t);

}  // namespace kpu::quantize
