#pragma once
// The values of a graph as tensors of an ONNX model, each in the forms that its readers want.
#include <string>
#include <utility>
#include <vector>

#include "compiler/quantize/export/onnx_writer.hpp"

namespace kpu::quantize {

Sizes sizes_of(const Dims& shape);
std::string bytes_of(const graph::Data& data);

class ExportedValues {
  public:
    ExportedValues(const graph::Graph& graph, OnnxWriter& writer);

    void add_input(const graph::Port& port);
    void add_output(const graph::Port& port);

    /// Returns the numbers that a value stands for: floats, but of integers without quantisation these.
    std::string numbers(graph::ValueId id);
    /// Returns the type of numbers().
    static int type_of(const graph::Value& value);
    /// Returns the integers of a value with a quantisation, as they stand for themselves.
    std::string steps(graph::ValueId id);
    /// Returns the same as ONNX's bool.
    std::string truth(graph::ValueId id);

    /// Records what a node made, numbers of this type, as the value: steps where it has some.
    void made(graph::ValueId id, const std::string& name, int type);
    void made_truth(graph::ValueId id, const std::string& name) { forms_[id].truth = name; }

    /// Returns the numbers of a constant that need not be one of the graph.
    std::string constant(const graph::Value& value);

  private:
    /// Names in the model; empty: not there.
    struct Forms {
        std::string steps, numbers, truth;
    };

    /// Integers of a quantisation that the model keeps. i32 ones are sums, which no operator of floats makes.
    static bool in_steps(const graph::Value& value) { return value.quant && value.elem != ElemType::i32; }
    const graph::Value& value(graph::ValueId id) const { return graph_.value(id); }
    std::string cast(const std::string& name, int type, const std::string& like);
    std::string transposed(const std::string& name, const std::vector<int>& perm, const std::string& like);
    std::pair<Names, std::vector<OnnxWriter::Attribute>> quantisation(const graph::Value& value);
    std::string quantized(const std::string& op_type, const std::string& name, const graph::Value& value);
    std::string raw_constant(const graph::Value& value);

    const graph::Graph& graph_;
    OnnxWriter& writer_;
    std::vector<Forms> forms_;
};

}  // namespace kpu::quantize
