#pragma once
// A network as the compiler sees it, between the model file and the program.
//
// The operations are the opcodes of isa/opcodes.hpp and the kernels of compiler/kernels on whole tensors, so shapes come from infer_shapes(), values
// from kpu::values (execute.hpp runs a graph), and nothing is defined twice. Two things differ from tasks of a
// program: the operands of elementwise nodes broadcast as NumPy's do, and so do the batches of a product's second
// factor; and tensors may have rank 0.
//
// A front end makes a Graph, passes rewrite it (each is checked by executing it before and after), lowering
// turns its groups into tiled tasks.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/kernels/operations.hpp"
#include "isa/bound_program.hpp"
#include "isa/shapes.hpp"

namespace kpu::graph {

using ValueId = uint32_t;
using NodeId = uint32_t;  ///< position in Graph::nodes: changes when nodes are added or removed

/// Elements of a constant: dense, row-major, little-endian; i4 one element per byte, sign-extended.
struct Data {
    std::shared_ptr<const void> owner;  ///< keeps the bytes alive: a vector, a mapped file
    const uint8_t* bytes = nullptr;
    uint64_t size = 0;
    explicit operator bool() const { return bytes != nullptr; }
};
Data make_data(std::vector<uint8_t> bytes);
/// Returns the bytes that Data of this type and number of elements has.
uint64_t data_bytes(ElemType elem, uint64_t elements);

/// Blocks that a constant of floats was made of: integers of 4 bits with a scale for each block along a
/// dimension, and for whatever lies beside it.
struct Blocks {
    Data steps;  ///< i4, in the shape of the constant
    size_t axis = 0;
    int64_t size = 1;  ///< elements of a block; the last one may be shorter
    Dims shape;        ///< shape of the scales: that of the constant, blocks along `axis`
    ElemType elem = ElemType::f32;
    Data scales, zero_points;  ///< data of type `elem`; no zero points: they are 0
};

/// A tensor: a constant, an input of the graph, or what one node makes.
struct Value {
    std::string name;  ///< unique; the source model's where it has one
    ElemType elem = ElemType::none;
    Dims shape;
    BoundQuant quant;  ///< real = (q - zero_point) * scale; none: the numbers stand for themselves
    Data data;         ///< constants
    std::shared_ptr<const Blocks> blocks = {};  ///< blocks of a constant, if a model brings them
    bool constant() const { return static_cast<bool>(data); }
    uint64_t elements() const { return static_cast<uint64_t>(shape.product()); }
};

/// Origin of a node: it is charged to this operator of the source model.
struct Source {
    std::string name;  ///< unique in the model: node name, or made of its type and number
    std::string type;  ///< "Conv"
};

/// An opcode, or an operation that is a kernel, applied to whole tensors.
struct Node {
    OpcodeId opcode = 0;
    BoundAttrs attrs;
    std::vector<ValueId> inputs;  ///< an absent optional operand is not listed
    std::vector<ValueId> outputs;
    Source source;
    /// Further operators of the source model that went into this node (a folded batch norm).
    std::vector<Source> absorbed;
    /// Nodes of one group are lowered together and stay on chip between each other; the group is one operation,
    /// named after the source of its anchor. 0: alone. Set by fusion, last of all passes.
    uint32_t group = 0;
    bool anchor = false;  ///< the node of its group that the others are attached to
    bool alone = false;   ///< fusion leaves it out
    uint32_t strips = 0;  ///< it computes one of so many strips of its operation; 0: all of it
    /// The float type that it is computed in, whatever the network is compiled to; none: that of the network.
    ElemType kept = ElemType::none;

    const OpcodeSpec& spec() const { return kernels::spec_of(opcode); }
};
inline bool is(const Node& node, std::string_view opcode) { return node.spec().name == opcode; }

/// Types of arrays that the host has and the device not.
enum class HostType : uint8_t {
    same,     ///< type of Port::elem
    int64,    ///< values checked to fit i32, outputs widened
    boolean,  ///< u8 0 or 1
    uint64,   ///< values checked to fit i32 both ways
    float64,  ///< rounded to f32, values checked to be in its range; outputs widened
};

/// An input that follows from the program's position: nobody gives it.
enum class Follows : uint8_t {
    none,
    position,  ///< all its elements are position + plus
    up_to,     ///< 1 where the index along the last dimension is at most position + plus, else 0
};

/// Positions of a model that is compiled for many of them: how many rows its caches have before a step. The
/// program has it as its parameter `position`; where nodes name an index of it (`choose`, `insert_rows`),
/// that is the index at the last one.
struct Positions {
    int64_t count = 0;  ///< positions 0 to count - 1; 0: the model is compiled for one
    int64_t step = 1;   ///< rows of the caches between two forms of what reads them
    int64_t rows = 1;   ///< that a step adds
    bool any() const { return count > 0; }
    int64_t most_rows() const { return count - 1 + rows; }  ///< that count, at the last one
    int64_t forms() const { return (most_rows() - 1) / step + 1; }
};

/// An input or output of the model, as the host sees it: its order of dimensions and its type are the
/// model's, whatever the device has. Converted at load and store, outside the cycles.
struct Port {
    std::string name;
    ValueId value = 0;
    ElemType elem = ElemType::none;  ///< on the host
    HostType host = HostType::same;
    /// Dimension of the value for each dimension of the host's array: {0, 3, 1, 2} shows an NHWC value as NCHW.
    std::vector<int> perm;  ///< empty: the same order
    Follows follows = Follows::none;
    int64_t plus = 0;  ///< offset of what follows
};

/// Options of add_node() beside opcode and operands.
struct NodeOptions {
    Source source;
    std::string output;              ///< name of the (first) output; empty: made of the source's name
    ElemType elem = ElemType::none;  ///< type of the outputs that hold data; none: that of the first operand
    BoundQuant quant;                ///< quantisation of the same
};

struct Graph {
    std::string name;
    std::vector<Value> values;
    std::vector<Node> nodes;  ///< in an order in which they can be executed
    std::vector<Port> inputs, outputs;
    Positions positions;
    /// Constants that a front end made up, as the model lacks them, by name with the reason: there is time, but no data.
    std::map<std::string, std::string> absent;

    Value& value(ValueId id) { return values[id]; }
    const Value& value(ValueId id) const { return values[id]; }

    /// Adds a value; `name` is made unique by a number if it is taken.
    ValueId add_value(std::string name, ElemType elem, const Dims& shape, BoundQuant quant = {});
    ValueId add_constant(std::string name, ElemType elem, const Dims& shape, Data data,
                         BoundQuant quant = {});
    ValueId add_input(std::string name, ElemType elem, const Dims& shape);

    /// Appends a node with values for its outputs, whose shapes are inferred. Result: its first output; the
    /// others follow it in `values`. Throws UserError on operands or attributes that do not fit.
    ValueId add_node(std::string_view opcode, std::vector<ValueId> operands, BoundAttrs attrs,
                     NodeOptions options);
    /// Returns the same node, not appended: what passes insert.
    Node make_node(std::string_view opcode, std::vector<ValueId> operands, BoundAttrs attrs,
                   NodeOptions options);

    bool taken(const std::string& value_name) const;
    /// Returns the names that values had which are gone; none gets them again. In the order of their letters.
    std::vector<std::string> gone_names() const;
    void take_name(std::string gone_name);
    /// Throws InternalError when another value has the name.
    void rename(ValueId id, std::string value_name);

  private:
    std::string unique(std::string name);
    /// Names of all values that ever were, with the number that is tried next where one is wanted again.
    std::unordered_map<std::string, int> names_;
};

// ---- attributes

BoundAttr integer(std::string name, int64_t value);
BoundAttr real(std::string name, double value);
BoundAttr ints(std::string name, std::vector<int64_t> values);
BoundAttr reals(std::string name, std::vector<double> values);
BoundAttr word(std::string name, std::string value);
BoundAttr type(std::string name, ElemType value);
BoundAttrs attributes(std::vector<BoundAttr> list);

/// Returns the shapes of the outputs of a node. Elementwise operands broadcast, and the second factor of a
/// product along batches.
std::vector<Dims> infer(const OpcodeSpec& spec, const std::vector<TypedShape>& operands,
                        const BoundAttrs& attrs);
/// Returns the shape of the second factor of a product with its matrices as often as the first one has
/// batches.
Dims repeated_factor(const Dims& a, Dims b);
/// Does NumPy's broadcast of two shapes; false when they do not fit.
bool broadcast(const Dims& a, const Dims& b, Dims& result);
Dims dims(const std::vector<int64_t>& sizes);

// ---- what passes need

/// Returns the node that makes each value; -1: none does (inputs, constants).
std::vector<int32_t> producers(const Graph& graph);
/// Returns the nodes that read each value, in order; a node stands once for each operand.
std::vector<std::vector<NodeId>> users(const Graph& graph);
/// Drops nodes without effect on an output, and nodes whose `outputs` were emptied; then values that nobody
/// names. Ids change.
void remove_unused(Graph& graph);
/// Throws InternalError when the graph is not what this page says: order, ids, shapes, data sizes.
void check(const Graph& graph);

/// Returns the graph as text (text.hpp), large constants left out: one line a node, "%y = conv2d(%x, %w, %b)
/// {strides=[1,1]}  f16[1,56,56,64]  from Conv_0:Conv".
std::string to_text(const Graph& graph);
/// Draws the graph in Graphviz's language.
std::string to_dot(const Graph& graph);

}  // namespace kpu::graph
