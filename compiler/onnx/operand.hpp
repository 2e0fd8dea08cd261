#pragma once
// Operands during import: the name of a tensor stands for a value of the graph, or for a constant that the
// importer knows. Shapes, axes, indices and masks are computed here and now, so that shapes are static.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/onnx/model/model.hpp"

namespace kpu::onnx {

/// A constant to compute with.
struct Known {
    Type type = Type::undefined;
    Sizes shape;
    std::vector<int64_t> ints;  ///< numbers of integers and bool
    std::vector<double> reals;  ///< numbers of floats
    bool real() const { return is_real(type); }
    size_t size() const { return real() ? reals.size() : ints.size(); }
    double number(size_t i) const { return real() ? reals[i] : static_cast<double>(ints[i]); }
};
using KnownPtr = std::shared_ptr<const Known>;

struct Operand {
    Type type = Type::undefined;  ///< undefined: an optional operand that is absent
    Sizes shape;
    std::optional<graph::ValueId> value;   ///< in the graph
    std::shared_ptr<const Tensor> tensor;  ///< a constant of the file
    KnownPtr known;                        ///< a constant that was computed, or looked at
    /// Number of its elements, where that depends on data; the rest is -1.
    std::optional<graph::ValueId> count;
    std::string lost;   ///< the node that should make it and cannot
    bool sole = false;  ///< an input of the graph that one node reads, and no output
    std::shared_ptr<const std::vector<Operand>> items;  ///< items of a sequence
    bool constant() const { return known != nullptr || tensor != nullptr; }
};

/// Throws Unsupported when there are more than int64 counts.
int64_t elements_of(const Sizes& shape);

Known known_of(const Tensor& tensor);
/// Returns one number of a constant: large ones need no Known, which has 64 bits for each.
double number_of(const Operand& constant, uint64_t i);
Operand operand_of(Known known);
Known ints_known(Sizes values);  ///< int64, one dimension
Known scalar_known(Type type, double value);

/// Returns the bytes of the constant as an element type of the graph. Throws Unsupported when what has 64
/// bits does not fit.
graph::Data data_of(const Known& known, ElemType elem);
/// Returns `value` in the range and precision of the type: floats round, integers wrap.
double rounded(Type type, double value);
/// Casts to float8: what is beyond its numbers becomes the greatest of them, or infinity where it has one,
/// else NaN.
double small_float_of_type(Type type, double value, bool saturates);
int64_t wrapped(Type type, int64_t value);

/// Reason why a node cannot be imported.
class Unsupported : public std::exception {
  public:
    explicit Unsupported(std::string reason) : reason_(std::move(reason)) {}
    const char* what() const noexcept override { return reason_.c_str(); }

  private:
    std::string reason_;
};

/// Thrown when what decides structure has no bytes in the file.
class LacksBytes : public Unsupported {
  public:
    using Unsupported::Unsupported;
};

/// Thrown when what decides structure is computed; `value`: in the graph.
class NotConstant : public Unsupported {
  public:
    NotConstant(const std::string& reason, std::optional<graph::ValueId> value_)
        : Unsupported(reason), value(value_) {}
    std::optional<graph::ValueId> value;
};

}  // namespace kpu::onnx
