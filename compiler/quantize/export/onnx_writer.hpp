#pragma once
// Building an ONNX model node by node. Only for sources that may see ONNX's generated classes.
#include <onnx/onnx_pb.h>

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace kpu::quantize {

using Names = std::vector<std::string>;
using Sizes = std::vector<int64_t>;

/// The tensors of an ONNX graph are named by strings; every function gives the name of what it made.
class OnnxWriter {
  public:
    explicit OnnxWriter(const std::string& name);

    /// Reserves a name that nothing made may get: an input or output has it.
    void reserve(const std::string& name);
    void input(const std::string& name, int type, const Dims& shape);
    void output(const std::string& name, int type, const Dims& shape);

    struct Attribute {
        std::string name;
        Sizes ints = {};
        bool list = false;
        bool is_real = false;
        double number = 0;
        std::string text = {};
    };
    static Attribute integer(std::string name, int64_t value) { return {std::move(name), {value}}; }
    static Attribute list(std::string name, Sizes values) {
        return {std::move(name), std::move(values), true};
    }
    static Attribute real(std::string name, double value) {
        return {std::move(name), {}, false, true, value};
    }
    static Attribute text(std::string name, std::string value) {
        return {std::move(name), {}, false, false, 0, std::move(value)};
    }

    /// Adds a node with one output, named after `like`.
    std::string node(const std::string& op_type, const Names& inputs,
                     const std::vector<Attribute>& attributes, const std::string& like);
    Names node(const std::string& op_type, const Names& inputs, const std::vector<Attribute>& attributes,
               const std::string& like, size_t outputs);

    std::string constant(const std::string& like, int type, const Sizes& shape, std::string bytes);
    std::string reals(const std::string& like, const Sizes& shape, const std::vector<double>& numbers);
    std::string integers(const std::string& like, const Sizes& numbers);  ///< a list
    std::string integers(const std::string& like, const Sizes& shape, const Sizes& numbers);

    /// Adds another name of a tensor: what outputs are called.
    void alias(const std::string& name, const std::string& as);

    /// Steps of 4 or 16 bits, and blocks, are known from a later opset on.
    void hold_newer_steps();

    std::string bytes() const;

  private:
    std::string unique(const std::string& like);
    ::onnx::ModelProto model_;
    std::unordered_set<std::string> reserved_;
    uint64_t count_ = 0;
};

/// Returns the TensorProto::DataType of an element type; all floats are written as f32.
int onnx_type(ElemType elem);
/// Returns the type of an input or output: f16 and bf16 stay.
int host_type_of(ElemType elem);

}  // namespace kpu::quantize
