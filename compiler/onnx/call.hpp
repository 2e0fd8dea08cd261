#pragma once
// One node of the model while it is imported: its operands and attributes, and the ways to make graph nodes.
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/onnx/operand.hpp"

namespace kpu::onnx {

using graph::ValueId;

/// Type of what comparisons give: 0 or 1.
constexpr ElemType truth = ElemType::u8;

class Call {
  public:
    Call(graph::Graph& graph_, const NodeModel& node_, int64_t opset_, graph::Source source_,
         std::vector<Operand> operands)
        : graph(graph_),
          node(node_),
          opset(opset_),
          source(std::move(source_)),
          operands_(std::move(operands)),
          results_(node_.outputs.size()) {}

    graph::Graph& graph;
    const NodeModel& node;
    const int64_t opset;
    const graph::Source source;
    bool empty_operands = false;  ///< the operator takes tensors without elements
    /// Values that layers of a model need alike, each made once, for the first of them: keyed by what they
    /// are made of.
    std::map<std::string, ValueId>* made_once = nullptr;

    // ---- operands

    size_t inputs() const { return operands_.size(); }
    bool has(size_t i) const { return i < operands_.size() && operands_[i].type != Type::undefined; }
    /// Returns a tensor. Throws Unsupported when it is absent, or a sequence.
    const Operand& in(size_t i) const;
    /// Whatever it is. Throws Unsupported when it is absent.
    const Operand& given(size_t i) const;
    /// Returns the tensors of a sequence. Throws Unsupported when it is none.
    const std::vector<Operand>& sequence(size_t i) const;
    Type type(size_t i) const { return in(i).type; }
    const Sizes& shape(size_t i) const { return in(i).shape; }
    int64_t rank(size_t i) const { return static_cast<int64_t>(shape(i).size()); }
    /// Returns the operand as a value in the graph: constants become values of it.
    ValueId value(size_t i);
    ValueId value(Operand& operand, const std::string& name);
    bool all_constant() const;
    /// True if some operand's bytes are not in the file, and it is no integer of shapes and indices.
    bool any_stand_in() const;
    /// Returns a constant; throws Unsupported "its ROLE is not constant".
    const Known& known(size_t i, std::string_view role);
    const Sizes& ints_of(size_t i, std::string_view role);
    double number_of(size_t i, std::string_view role);  ///< one element
    int64_t integer_of(size_t i, std::string_view role);

    // ---- attributes

    bool has_attribute(std::string_view name) const { return node.find(name) != nullptr; }
    int64_t integer(std::string_view name, int64_t fallback) const;
    double real(std::string_view name, double fallback) const;
    std::string text(std::string_view name, std::string_view fallback) const;
    Sizes ints(std::string_view name, const Sizes& fallback = {}) const;
    /// Returns the attribute until opset `since`, then the constant operand; `fallback` when there is none.
    Sizes ints(std::string_view name, size_t operand, int64_t since, const Sizes& fallback = {});
    /// Returns a dimension, from the front. Throws Unsupported when there is none such.
    size_t axis(int64_t value, int64_t rank) const;
    size_t axis(std::string_view name, int64_t fallback, int64_t rank) const {
        return axis(integer(name, fallback), rank);
    }

    // ---- results

    size_t outputs() const { return node.outputs.size(); }
    bool wants(size_t output) const { return output < node.outputs.size() && !node.outputs[output].empty(); }
    void result(size_t output, ValueId value, Type type);
    /// Returns a value of the graph, as what a name stands for.
    Operand operand(ValueId value, Type type) const;
    /// Gives a result the type of the first operand.
    void result(ValueId value) { result(0, value, type(0)); }
    void result(size_t output, Known known) { result(output, operand_of(std::move(known))); }
    void result(size_t output, Operand operand);
    /// Gives a result so many elements along its length; the rest of it is -1.
    void counted(size_t output, ValueId count) { results_.at(output).count = count; }
    const std::vector<Operand>& results() const { return results_; }
    /// Returns the bytes of constants that it made.
    size_t made() const { return made_; }
    void add_made(size_t bytes) { made_ += bytes; }
    /// Returns the value that `make` gives; the one from before where the key was there.
    template <class Make>
    ValueId once(const std::string& key, const Make& make) {
        if (made_once == nullptr) return make();
        const auto found = made_once->find(key);
        return found != made_once->end() ? found->second : made_once->emplace(key, make()).first->second;
    }

    // ---- nodes of the graph

    /// Throws Unsupported "needs opcode NAME" when there is none, and when it does not take the types.
    ValueId emit(std::string_view opcode, std::vector<ValueId> operands, std::vector<BoundAttr> attrs = {},
                 ElemType elem = ElemType::none, BoundQuant quant = {});
    ElemType elem(ValueId id) const { return graph.value(id).elem; }
    Sizes sizes(ValueId id) const;
    ValueId constant(const Known& known, ElemType elem);
    ValueId zeros(const Sizes& shape, ElemType elem);
    /// Makes one number, of rank 0.
    ValueId number(double value, ElemType elem);
    ValueId unary(std::string_view opcode, ValueId x) { return emit(opcode, {x}); }
    ValueId binary(std::string_view opcode, ValueId a, ValueId b) { return emit(opcode, {a, b}); }
    ValueId binary(std::string_view opcode, ValueId a, double b) {
        return emit(opcode, {a, number(b, elem(a))});
    }
    ValueId cast(ValueId x, ElemType type);  ///< x itself if it has the type
    ValueId to_small_float(ValueId x,
                           ElemType type);  ///< saturates as the operator's attribute `saturate` says
    /// Add no node where nothing changes; constants are reshaped and transposed here and now.
    ValueId reshape(ValueId x, const Sizes& shape);
    ValueId transpose(ValueId x, const Sizes& perm);
    ValueId expand(ValueId x, const Sizes& shape);
    ValueId slice(ValueId x, int64_t axis, int64_t start, int64_t end, int64_t step = 1);
    ValueId concat(const std::vector<ValueId>& parts, int64_t axis);
    /// Returns the operands along an axis, which may be a new one; constants get a name.
    ValueId join(std::vector<Operand>& parts, const std::string& name, size_t axis, bool is_new);
    ValueId pad(ValueId x, const Sizes& pads, double value);
    /// reduce_NAME; a result without dimensions has none.
    ValueId reduce(std::string_view opcode, ValueId x, const Sizes& axes, bool keep);
    /// Returns the same number of dimensions, 1 in front.
    ValueId unsqueezed(ValueId x, size_t rank);

    /// Refuses constants that are too large to be made.
    static void check_made(const Sizes& shape);
    [[noreturn]] static void refuse(const std::string& reason) { throw Unsupported(reason); }

  private:
    void note_absent(const Operand& operand, const std::string& name);
    ValueId without_elements(std::string_view opcode, const std::vector<Dims>& shapes, ElemType to,
                             const BoundAttrs& attrs);

    size_t made_ = 0;
    std::vector<Operand> operands_;
    std::vector<Operand> results_;
};

/// Returns the elements in the order of transposed dimensions.
graph::Data transposed(const graph::Data& data, uint64_t bytes_each, const Dims& shape, const Sizes& perm);
Sizes sizes_of(const Dims& shape);
/// Returns NumPy's broadcast. Throws Unsupported when the shapes do not fit.
Sizes broadcast_of(const Sizes& a, const Sizes& b);
/// Returns {0, 1, ..., count - 1}, and with two dimensions swapped.
Sizes identity_perm(size_t count);
Sizes swapped_perm(size_t count, size_t a, size_t b);

}  // namespace kpu::onnx
