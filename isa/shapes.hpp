#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "isa/bound_program.hpp"

namespace kpu {

/// Type and shape of an operand for a shape rule; `elem` is only for messages.
struct TypedShape {
    ElemType elem = ElemType::none;
    Dims shape;
};

/// Returns the shapes of the outputs of an opcode. The rules of isa/opcodes/ are the only ones: the verifier,
/// the engines and the compiler ask here. Throws UserError "gemm: A i8[2,3] ... Fix: ..." on operands or
/// attributes that do not fit.
std::vector<Dims> infer_shapes(const OpcodeSpec& spec, const std::vector<TypedShape>& inputs,
                               const BoundAttrs& attrs);

/// Throws the same when declared outputs are not what the rule gives. Result: a warning, or empty.
std::string check_shapes(const OpcodeSpec& spec, const std::vector<TypedShape>& inputs,
                         const std::vector<TypedShape>& outputs, const BoundAttrs& attrs);

/// Operands and attributes of one use of an opcode, as its shape rule sees them.
class ShapeCase {
  public:
    /// outputs: those that are declared; empty when the rule is asked what they would be.
    ShapeCase(const OpcodeSpec& opcode, const std::vector<TypedShape>& inputs,
              const std::vector<TypedShape>& outputs, const BoundAttrs& attributes)
        : spec(opcode), attrs(attributes), inputs_(inputs), outputs_(outputs) {}

    const OpcodeSpec& spec;
    const BoundAttrs& attrs;

    size_t inputs() const { return inputs_.size(); }
    const Dims& in(size_t i) const { return inputs_[i].shape; }
    /// Returns the declared shape of the first output; null when there is none.
    const Dims* declared() const { return outputs_.empty() ? nullptr : &outputs_[0].shape; }

    std::string input_text(size_t i) const;  ///< "A i8[64,32]"
    std::string output_text() const;         ///< "Y i8[64,32]", or "Y"
    std::string operands_text() const;       ///< all of them, with commas

    /// Returns a required attribute. Throws UserError when it is missing.
    const BoundAttr& attribute(std::string_view name) const;
    const std::vector<int64_t>& ints(std::string_view name) const { return attribute(name).ints; }
    /// Returns a list of `count` integers, none below `least`.
    const std::vector<int64_t>& ints(std::string_view name, size_t count, int64_t least) const;
    /// Returns the same of one that may be left out: `fallback` everywhere then.
    std::vector<int64_t> ints_or(std::string_view name, size_t count, int64_t least, int64_t fallback) const;
    /// Returns a word that is one of `allowed`; the first of them when it is left out.
    std::string_view word(std::string_view name, std::initializer_list<std::string_view> allowed) const;
    /// Returns the `axis` attribute as a dimension of the first input.
    size_t axis() const;

    template <class... Args>
    [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
        refuse(fmt::format(text, std::forward<Args>(args)...));
    }
    /// Warns about something in shapes that are allowed.
    void warn(std::string text) const { warning_ = std::move(text); }
    const std::string& warning() const { return warning_; }

  private:
    [[noreturn]] static void refuse(const std::string& text);

    const std::vector<TypedShape>& inputs_;
    const std::vector<TypedShape>& outputs_;
    mutable std::string warning_;
};

/// Returns "A i8[64,32]"; without the type where there is none.
std::string operand_text(std::string_view name, const TypedShape& operand);
/// Returns "[64,32]"
std::string shape_text(const Dims& shape);

/// Returns the row-major strides of a shape, in elements.
Dims row_major(const Dims& shape);

/// Returns the `axis` attribute as a dimension of `shape`. Throws UserError when there is no such dimension.
size_t axis_of(const Dims& shape, const BoundAttrs& attrs);

/// Indices that slice takes along one dimension: first, first + step, ... (count of them).
struct SliceRange {
    int64_t first = 0, count = 0, step = 1;
};
/// Returns the range along a dimension of this size; a step other than 0. A slice that takes nothing has
/// count 0.
SliceRange slice_range(int64_t size, int64_t start, int64_t end, int64_t step);
/// Returns one range per dimension of X. Throws UserError on lists that do not fit, a step of 0, an empty
/// slice.
std::vector<SliceRange> slice_ranges(const Dims& x, const BoundAttrs& attrs);

/// Marks the dimensions of X that `axes` names. Throws UserError on an empty list, repetitions, unknown
/// dimensions.
std::vector<bool> reduced_axes(const Dims& x, const BoundAttrs& attrs);

/// Y = resize(X): index i along a dimension of Y lies at position(i) of X, in binary64.
struct ResizeRule {
    enum class Coordinates : uint8_t {
        half_pixel,
        align_corners,
        asymmetric,
        pytorch_half_pixel,
        half_pixel_symmetric
    };
    Coordinates coordinates = Coordinates::half_pixel;
    std::vector<double> scales;  ///< one per dimension
    bool given = false;          ///< scales are attributes; else they are size of Y over size of X
    double position(size_t dimension, int64_t i, int64_t x_size, int64_t y_size) const;
};
ResizeRule resize_rule(const Dims& x, const Dims& y, const BoundAttrs& attrs);

/// Returns the groups of channels of a convolution whose X has `channels`.
int64_t conv_groups(const OpcodeSpec& spec, const BoundAttrs& attrs, int64_t channels);

}  // namespace kpu
