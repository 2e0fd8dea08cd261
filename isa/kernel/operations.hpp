#pragma once
// The tables of operations and statements: what text, verifier, interpreter, cost and lists know of them.
#include <cstdint>
#include <string_view>
#include <vector>

#include "isa/kernel/types.hpp"

namespace kpu::kernel {

// clang-format off
enum class Op : uint8_t {
    literal_u32, literal_i32, literal_u64, literal_f32, literal_bool,
    variable, load, length, gid, wgid, lid,
    add, sub, mul, div, mod, wrapping_add, wrapping_sub, shl, shr, bit_and, bit_or, bit_xor, logical_and,
    logical_or, eq, ne, lt, gt, le, ge, min, max, abs_diff, saturating_add, saturating_sub, saturating_mul,
    rotate_left, rotate_right, mul_high,
    negate, bit_not, popcount, clz, ctz, reverse_bits, logical_not, abs, sqrt, inverse_sqrt, reciprocal, sin,
    cos, tan, asin, acos, atan, sinh, cosh, tanh, exp, exp2, log, log2, floor, ceil, round, trunc, sign,
    is_nan, is_inf, is_finite,
    select, cast, fma,
    atomic_add, atomic_or, atomic_and, atomic_xor, atomic_min, atomic_max, atomic_exchange,
    atomic_compare_exchange, atomic_lru_update, atomic_compare_exchange_weak, atomic_fetch_nand,
    ballot, shuffle, subgroup_add, subgroup_id, subgroup_size,
    call, opaque_expr,
    // on tiles, rule set xla
    window, clipped, bitcast, iota, broadcast_to, reshape, transpose, slice, dynamic_slice, dynamic_update, concat,
    pad, reverse, roll, gather, permute, scatter, reduce_sum, reduce_prod, reduce_max, reduce_min, reduce_and,
    reduce_or, argmax, argmin, cumulative_sum, cumulative_prod, cumulative_max, cumulative_min,
    cumulative_logsumexp, sort, sort_index, dot,
    shr_logical, pow, atan2, next_after, round_even, cbrt, expm1, log1p, logistic, erf, erf_inv, log_gamma, asinh,
    acosh, atanh, integer_pow, reduce_precision,
    count_of_operations
};
// clang-format on

/// Written form of an operation.
enum class Syntax : uint8_t {
    literal,
    variable,
    load,      ///< buffer[index]
    length,    ///< len(buffer)
    axis,      ///< gid.x
    infix,     ///< a + b
    prefix,    ///< !a
    function,  ///< min(a, b)
    cast,      ///< f32(a)
    atomic,    ///< atomic_add(buffer[index], value)
    tile       ///< reduce_sum{1}(a), bitcast{i32}(a): type and numbers in braces, any number of operands
};

/// Cost class of an operation per element; the platform says how many cycles.
enum class CostClass : uint8_t { none, integer, floating, special, permute, reduce, atomic };
constexpr int cost_class_count = 7;
std::string_view name_of(CostClass cost);

/// A row of the cost table of a platform, and what it is without one.
struct CostRow {
    std::string_view name;  ///< kernel.float
    double cycles;
    std::string_view meaning;
};
const std::vector<CostRow>& cost_rows();

/// Kinds of work on tiles: which part of the engine does it, and how elements that nobody wrote spread.
enum class TileFamily : uint8_t {
    none,
    each,     ///< element by element; scalars go with all
    convert,  ///< to another type
    select,
    move,    ///< elements stay what they are; where they go, numbers and scalars say
    pick,    ///< the same, and tiles say where
    reduce,  ///< along dimensions that go
    scan,    ///< along one, the results of all beginnings
    sort,
    product,
};

struct TileExpr;
/// Type and shape of a result on tiles. Throws TileMistake on operands or numbers that do not fit.
using TileRule = void (*)(TileExpr& expr, const std::vector<const TileExpr*>& operands, Type type);

/// The type of the result.
enum class Result : uint8_t { same, boolean, u32, difference, own };

struct Operation {
    Op op;
    std::string_view name;    ///< in text and files
    std::string_view pascal;  ///< in messages
    std::string_view symbol;  ///< infix and prefix
    Syntax syntax;
    uint8_t operands;    ///< values that it takes
    uint8_t precedence;  ///< infix: higher binds tighter
    TypeSet types;       ///< types that its operands may have; 0: its own rule
    Result result;
    CostClass cost;  ///< integer: floating on f32
    std::string_view meaning;
    TileFamily family = TileFamily::none;
    TileRule tile_rule = nullptr;  ///< null: rule set xla has no such operation
    TypeSet tile_operands = 0;     ///< types that the rule takes, where operands have one
};

const std::vector<Operation>& operations();
const Operation& operation(Op op);
/// Finds an operation; null for an unknown name.
const Operation* find_operation(std::string_view name);
const Operation* find_infix(std::string_view symbol);
/// Returns the class that an operation on `type` counts to.
CostClass cost_of(const Operation& operation, Type type);

// clang-format off
enum class Kind : uint8_t {
    let, assign, store, if_, loop, while_, block, region, return_, barrier, async_load, async_store,
    async_wait, async_copy, signal, wait, masked_store, forget,
    line, trap, resume, all_reduce, all_gather, reduce_scatter, broadcast,
    indirect_dispatch, opaque,
    count_of_kinds
};
// clang-format on

/// A piece of a statement's text between its parentheses, in order.
enum class Part : uint8_t { name, other, expression, tag, number, root };

struct StatementKind {
    Kind kind;
    std::string_view name;
    std::string_view end;     ///< word that closes its block; empty: no block
    std::vector<Part> parts;  ///< parts of those written as name(part, part)
    uint8_t expressions;
    std::string_view meaning;
};

const std::vector<StatementKind>& statement_kinds();
const StatementKind& statement_kind(Kind kind);
const StatementKind* find_statement_kind(std::string_view name);

}  // namespace kpu::kernel
