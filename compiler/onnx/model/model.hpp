#pragma once
// An ONNX file as the importer sees it: small structs without the schema's generated classes, checked.
//
// The bytes of tensors stay where they are (in the parsed message, or in a mapped file); `owner` keeps them.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "compiler/graph/graph.hpp"

namespace kpu::onnx {

/// Element types of ONNX, with the numbers that files use.
enum class Type : uint8_t {
    undefined = 0,
    f32 = 1,
    u8 = 2,
    i8 = 3,
    u16 = 4,
    i16 = 5,
    i32 = 6,
    i64 = 7,
    string = 8,
    boolean = 9,
    f16 = 10,
    f64 = 11,
    u32 = 12,
    u64 = 13,
    c64 = 14,
    c128 = 15,
    bf16 = 16,
    f8e4m3fn = 17,
    f8e4m3fnuz = 18,
    f8e5m2 = 19,
    f8e5m2fnuz = 20,
    u4 = 21,
    i4 = 22,
    f4e2m1 = 23,
    f8e8m0 = 24,
    u2 = 25,
    i2 = 26,
};

/// Returns "float16", as ONNX writes it; "type 77" for a number that nobody knows.
std::string name_of(Type type);
/// Returns the element type that tensors of this type have in the graph: int64 and uint64 are i32, double
/// f32, bool u8; f8e8m0 its bytes, u8; none: it has none.
ElemType elem_of(Type type);
bool is_real(Type type);  ///< f16 bf16 f32 f64 f8e4m3fn f8e5m2 f4e2m1 f8e8m0
/// Returns the bytes of one element of a Tensor; 0: of varying size, or unknown.
uint64_t element_bytes(Type type);
/// Returns the bits of one element of types that files pack; 0: they do not.
int packed_bits(Type type);

using Sizes = std::vector<int64_t>;  ///< a shape; unlike Dims of any rank
/// Returns "[2,3]"
std::string text_of(const Sizes& shape);

/// Elements, little-endian and row-major; those of 2 and 4 bits stand in one byte each (u4 as u8).
struct Tensor {
    std::string name;
    Type type = Type::undefined;
    Sizes shape;
    graph::Data data;
    std::string absent;    ///< why the file lacks its bytes: `data` is a stand-in; empty: it has them
    bool nibbles = false;  ///< u8 that was u4
    uint64_t elements() const;
};

struct GraphModel;

struct Attribute {
    std::string name;
    std::string reference;  ///< inside a function: the function's attribute that it stands for
    int64_t integer = 0;
    double real = 0;
    std::string text;
    Sizes ints;
    std::vector<double> reals;
    std::vector<std::string> texts;
    std::shared_ptr<const Tensor> tensor;
    std::shared_ptr<const GraphModel> graph;
};

struct NodeModel {
    std::string name, type, domain, overload;
    std::vector<std::string> inputs, outputs;  ///< "" where an optional one is absent
    std::vector<Attribute> attributes;
    const Attribute* find(std::string_view attribute) const;
    /// Returns the name for messages, with the domain: "com.microsoft.FusedConv"; of ONNX itself the type
    /// alone.
    std::string full_type() const;
};

struct Dimension {
    int64_t size = -1;  ///< -1: dynamic
    std::string name;   ///< name of a dynamic one; may be empty
};

struct ValueInfo {
    std::string name;
    Type type = Type::undefined;
    bool tensor = false;  ///< not a sequence, map, optional
    bool shaped = false;
    std::vector<Dimension> shape;
};

struct GraphModel {
    std::string name;
    std::vector<NodeModel> nodes;
    std::vector<std::shared_ptr<const Tensor>> tensors;  ///< initializers
    std::vector<ValueInfo> inputs, outputs, values;
};

/// Known opsets of ai.onnx.
constexpr int64_t first_opset = 7, last_opset = 28;

using Opsets = std::map<std::string, int64_t>;  ///< indexed by domain; "" is ai.onnx

/// A function of the model: calls of it are replaced by its nodes.
struct Function {
    std::string name, domain, overload;
    std::vector<std::string> inputs, outputs;
    std::vector<Attribute> defaults;  ///< defaults of attributes that a call may leave out
    std::vector<NodeModel> nodes;
    Opsets opsets;
};

struct Model {
    std::string origin;
    Opsets opsets;
    GraphModel graph;
    std::vector<Function> functions;
};

/// Throws UserError "file: error: ... Fix: ..." on what is no ONNX model, damaged, or lies about its sizes.
/// External data is looked for among `files`, by its location, then below `folder` ("": there is none).
Model read_model(std::string_view bytes, const std::string& origin, const std::string& folder,
                 const std::map<std::string, graph::Data>& files = {});

/// Domains as written once: "ai.onnx" is "".
std::string domain_of(const std::string& written);

}  // namespace kpu::onnx
