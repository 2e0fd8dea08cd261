#pragma once
// Values that kernels of rule set xla compute with: tiles of a static shape, windows of buffers, semaphores.
#include <stdexcept>
#include <string>
#include <vector>

#include "base/few.hpp"
#include "isa/kernel/code.hpp"

namespace kpu::kernel {

/// Most tiles have a few dimensions, and each operation has several lists of them: they cost no memory of their own.
using Shape = Few<int64_t>;
constexpr int64_t max_tile_elements = int64_t{1} << 26;
constexpr size_t max_tile_rank = 16;
constexpr size_t max_copy_rank = 6;  ///< dimensions of a descriptor, those of 1 aside

int64_t elements_of(const Shape& shape);
/// Returns "f32[8, 128]"
std::string tile_text(Type type, const Shape& shape);
/// Returns the bytes of an element, in values and in buffers: a bool has one, and so have types of 4 or 2
/// bits.
unsigned tile_bytes(Type type);
/// Returns the bits that a bitcast sees of an element.
unsigned tile_bits(Type type);

constexpr TypeSet tile_buffers = set_of(Type::i8, Type::i16, Type::i32, Type::u8, Type::u16, Type::u32,
                                        Type::f16, Type::bf16, Type::f32);  ///< element types of buffers
constexpr TypeSet tile_nibbles = set_of(Type::i4, Type::u4, Type::i2, Type::u2);
constexpr TypeSet tile_eighths = set_of(Type::f8_e4m3fn, Type::f8_e5m2, Type::f8_e4m3b11fnuz);
constexpr TypeSet tile_signed = set_of(Type::i2, Type::i4, Type::i8, Type::i16, Type::i32);
constexpr TypeSet tile_integers = tile_signed | tile_nibbles | set_of(Type::u8, Type::u16, Type::u32);
constexpr TypeSet tile_floats = tile_eighths | set_of(Type::f16, Type::bf16, Type::f32);
constexpr TypeSet tile_numbers = tile_integers | tile_floats;
constexpr TypeSet tile_types = tile_numbers | set_of(Type::boolean);

/// True for a whole number of 4 or 2 bits.
inline bool is_nibble(Type type) { return contains(tile_nibbles, type); }
/// True for a float of 8 bits.
inline bool is_eighth(Type type) { return contains(tile_eighths, type); }

/// Operands stand before the operation that takes them.
struct TileExpr {
    Op op = Op::literal_u32;
    Type type = Type::none;  ///< type of the result; none: a window
    Shape shape;             ///< shape of the result
    uint32_t place = 0;      ///< variable or buffer; of a literal, how many come before it
    Few<ExprIndex> operands;
    Shape dims;         ///< numbers in braces; of a window: shape of the buffer, sizes and strides
    uint64_t bits = 0;  ///< bits of a literal
};

/// Beside the CodeStatement of the same number, which has kind, variable, buffers and extents.
struct TileStatement {
    std::array<ExprIndex, 3> expr{no_expr, no_expr, no_expr};
    uint32_t semaphore = 0;  ///< buffer: of async_copy, signal, wait
    /// Range in TileCode::dead: variables that nothing after it reads.
    uint32_t dead_begin = 0, dead_end = 0;
};

struct TileCode {
    std::vector<TileExpr> exprs;
    std::vector<TileStatement> statements;
    std::vector<Shape> variables;  ///< shapes
    std::vector<bool> semaphores;  ///< indexed by buffer: true where signals and copies count
    uint32_t literals = 0;         ///< among the expressions
    std::vector<uint32_t> dead;    ///< variables, in the order of the statements that read them last
};

/// True if some statement has a `dot`.
bool has_products(const Code& code);

/// A mistake in an operation, as a sentence with its fix.
class TileMistake : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Sets type and shape of the result, and completes the numbers; `type` is the word in braces or of a cast.
/// Throws TileMistake.
void infer_tile(TileExpr& expr, const std::vector<const TileExpr*>& operands, Type type);

/// Returns the lists that stand in the numbers of `gather` and `dot`, each as its length and its members.
std::vector<Shape> lists_of(const Shape& dims, size_t from, size_t count);

/// Resolves a kernel of rule set xla. Null after a mistake.
std::shared_ptr<const Code> analyse_tiles(const Source& source, Diagnostics& diagnostics);
/// Fills TileCode::dead.
void find_dead_tiles(const Code& code, TileCode& tiles);
/// Does the same as first_data_dependence(), for tiles.
std::optional<uint32_t> first_data_dependence_of_tiles(const Code& code);

}  // namespace kpu::kernel
