#pragma once
// Values of kernels of rule set xla, and what operations make of them. kernels.md B8's rules: subnormal operands and
// results of f32 arithmetic are zeros of their sign, moves keep every bit, NaN results are the quiet NaN.
#include <memory>
#include <vector>

#include "isa/kernel/tile_code.hpp"

namespace kpu::values::kernel {

using kpu::kernel::Op;
using kpu::kernel::Shape;
using kpu::kernel::TileExpr;
using kpu::kernel::TileFamily;
using kpu::kernel::Type;

struct Unwritten;

/// A fault of an operation on the values it has; the caller adds where.
class TileFault : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Elements row-major in their own bytes (a bool has one, 0 or 1). Values do not change once they are made, so that
/// copies share them.
class Tile {  // NOLINT(bugprone-exception-escape): moves of its shape copy
  public:
    Tile() = default;
    Tile(Type type, Shape shape);
    static Tile scalar(Type type, uint64_t bits);

    Type type = Type::none;
    Shape shape;
    std::shared_ptr<const Unwritten> unwritten;  ///< null: none of it depends on what nobody wrote

    size_t count() const { return count_; }
    unsigned element_bytes() const { return kpu::kernel::tile_bytes(type); }
    const uint8_t* bytes() const { return bytes_.get(); }
    uint8_t* make() { return bytes_.get(); }  ///< while it is being made: nothing is in it before
    template <typename T>
    const T* as() const {
        return reinterpret_cast<const T*>(bytes());
    }
    template <typename T>
    T* make_as() {
        return reinterpret_cast<T*>(make());
    }
    /// Returns the same bytes under another type or shape of as many.
    Tile viewed(Type as, Shape as_shape) const;
    bool empty() const { return bytes_ == nullptr; }

  private:
    size_t count_ = 0;
    std::shared_ptr<uint8_t[]> bytes_;
};

/// Returns an integer scalar.
int64_t integer_of(const Tile& tile, size_t at = 0);

/// Calls `visit` with an object of the type's C++ type; floats of 16 and 8 bits come as their bits.
template <typename Visit>
void with_storage(Type type, Visit&& visit) {
    switch (type) {
        case Type::i2:
        case Type::i4:
        case Type::i8:
            return visit(int8_t{});
        case Type::i16:
            return visit(int16_t{});
        case Type::u16:
        case Type::f16:
        case Type::bf16:
            return visit(uint16_t{});
        case Type::i32:
            return visit(int32_t{});
        case Type::u32:
            return visit(uint32_t{});
        case Type::f32:
            return visit(float{});
        default:
            return visit(uint8_t{});
    }
}

Tile convert_tile(const Tile& from, Type to);
/// Floats of 16 and 8 bits as f32; others as they are.
Tile widened(const Tile& tile);
/// True if arithmetic takes elements to a wider type, and rounds or wraps what comes of them.
bool computes_wide(Type type);
/// Returns the operands of arithmetic in that type: floats as f32, whole numbers of 4 and 2 bits as i8 or u8.
Tile computable(const Tile& tile);
/// Converts the result of arithmetic back to the type of its operands: floats of 8 bits by way of f16, as XLA
/// does.
Tile computed_in(const Tile& wide, Type type);

Tile unary_tile(const TileExpr& expr, const Tile& a);
Tile binary_tile(Op op, const Tile& a, const Tile& b);
Tile select_tile(const Tile& condition, const Tile& yes, const Tile& no);

/// Operations that only move elements: broadcast to gather.
Tile moved_tile(const TileExpr& expr, const std::vector<Tile>& operands);
Tile gathered_tile(const TileExpr& expr, const std::vector<Tile>& operands);
/// Reductions, argmax and cumulative operations.
Tile reduced_tile(const TileExpr& expr, const Tile& x);
Tile cumulated_tile(const TileExpr& expr, const Tile& x);
/// sort and sort_index.
Tile sorted_tile(const TileExpr& expr, const std::vector<Tile>& keys);
Tile dot_tile(const TileExpr& expr, const Tile& a, const Tile& b);

/// Strides of a row-major shape, in elements.
Shape row_major(const Shape& shape);
/// Copies elements between strided places, in elements; `sizes` of the part that is copied.
void copy_strided(uint8_t* to, const Shape& to_strides, const uint8_t* from, const Shape& from_strides,
                  const Shape& sizes, unsigned element_bytes);

/// Returns the value of an operation on values that are there already.
Tile operate(const TileExpr& expr, std::vector<Tile>& operands);

}  // namespace kpu::values::kernel
