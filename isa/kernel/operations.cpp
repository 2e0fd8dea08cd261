#include "isa/kernel/operations.hpp"

#include <algorithm>
#include <array>

#include "base/name_index.hpp"
#include "isa/kernel/tile_rules.hpp"

namespace kpu::kernel {
namespace {

using S = Syntax;
using R = Result;
using C = CostClass;

using F = TileFamily;

constexpr TypeSet any = computed;
constexpr TypeSet integers = words;
constexpr TypeSet numbers = static_cast<TypeSet>(words | set_of(Type::f32));
constexpr TypeSet logical = static_cast<TypeSet>(words | set_of(Type::boolean));
constexpr TypeSet unsigned_words = set_of(Type::u32, Type::u64);
constexpr TypeSet f32 = set_of(Type::f32);
constexpr TypeSet u32 = set_of(Type::u32);

Operation leaf(Op op, std::string_view name, std::string_view pascal, S syntax, std::string_view meaning) {
    return {op, name, pascal, "", syntax, 0, 0, 0, R::own, C::none, meaning};
}
Operation infix(Op op, std::string_view name, std::string_view pascal, std::string_view symbol,
                uint8_t precedence, TypeSet types, R result, C cost, std::string_view meaning) {
    return {op, name, pascal, symbol, S::infix, 2, precedence, types, result, cost, meaning};
}
Operation two(Op op, std::string_view name, std::string_view pascal, TypeSet types, R result, C cost,
              std::string_view meaning) {
    return {op, name, pascal, "", S::function, 2, 0, types, result, cost, meaning};
}
Operation one(Op op, std::string_view name, std::string_view pascal, TypeSet types, R result, C cost,
              std::string_view meaning) {
    return {op, name, pascal, "", S::function, 1, 0, types, result, cost, meaning};
}
Operation prefix(Op op, std::string_view name, std::string_view pascal, std::string_view symbol,
                 TypeSet types, R result, std::string_view meaning) {
    return {op, name, pascal, symbol, S::prefix, 1, 0, types, result, C::integer, meaning};
}
Operation atomic(Op op, std::string_view name, std::string_view pascal, uint8_t operands,
                 std::string_view meaning) {
    return {op, name, pascal, "", S::atomic, operands, 0, u32, R::u32, C::atomic, meaning};
}
Operation tile(Op op, std::string_view name, std::string_view pascal, C cost, F family, TileRule rule,
               std::string_view meaning, TypeSet operands = 0) {
    return {op, name, pascal, "", S::tile, 0, 0, 0, R::own, cost, meaning, family, rule, operands};
}

/// As it is on tiles too.
Operation on_tiles(Operation row, F family, TileRule rule, TypeSet operands = 0) {
    row.family = family;
    row.tile_rule = rule;
    row.tile_operands = operands;
    return row;
}
/// The same for an operation element by element.
Operation each(Operation row, TypeSet operands) {
    const bool compares = row.result == R::boolean;
    if (row.operands == 2)
        return on_tiles(row, F::each, compares ? rules::comparison : rules::binary, operands);
    return on_tiles(row, F::each, compares ? rules::classification : rules::unary, operands);
}
constexpr TypeSet tile_bits_of = tile_integers | set_of(Type::boolean);
constexpr TypeSet tile_boolean = set_of(Type::boolean);

std::vector<Operation> leaves() {
    return {leaf(Op::literal_u32, "u32", "LitU32", S::literal, "7"),
            leaf(Op::literal_i32, "i32", "LitI32", S::literal, "-7i32"),
            leaf(Op::literal_u64, "u64", "LitU64", S::literal, "7u64"),
            leaf(Op::literal_f32, "f32", "LitF32", S::literal, "1.5, or its bits: bits(0x7f800000)"),
            leaf(Op::literal_bool, "bool", "LitBool", S::literal, "true, false"),
            leaf(Op::variable, "variable", "Var", S::variable, "a let, a loop variable or a scalar"),
            {Op::load, "load", "Load", "", S::load, 1, 0, 0, R::own, C::none, "an element; outside: zero"},
            leaf(Op::length, "len", "BufLen", S::length, "elements that the bound bytes hold"),
            leaf(Op::gid, "gid", "InvocationId", S::axis, "wgid * workgroup + lid"),
            leaf(Op::wgid, "wgid", "WorkgroupId", S::axis, "index of the workgroup in the grid"),
            leaf(Op::lid, "lid", "LocalId", S::axis, "index of the invocation in its workgroup")};
}

std::vector<Operation> binary() {
    return {
        on_tiles(infix(Op::logical_or, "or", "Or", "||", 1, logical, R::boolean, C::integer, "operands != 0"),
                 F::each, rules::binary, tile_boolean),
        on_tiles(
            infix(Op::logical_and, "and", "And", "&&", 2, logical, R::boolean, C::integer, "operands != 0"),
            F::each, rules::binary, tile_boolean),
        each(infix(Op::bit_or, "bit_or", "BitOr", "|", 3, integers, R::same, C::integer, ""), tile_bits_of),
        each(infix(Op::bit_xor, "bit_xor", "BitXor", "^", 4, integers, R::same, C::integer, ""),
             tile_bits_of),
        each(infix(Op::bit_and, "bit_and", "BitAnd", "&", 5, integers, R::same, C::integer, ""),
             tile_bits_of),
        each(infix(Op::eq, "eq", "Eq", "==", 6, any, R::boolean, C::integer, "false with NaN"), tile_types),
        each(infix(Op::ne, "ne", "Ne", "!=", 6, any, R::boolean, C::integer, "true with NaN"), tile_types),
        each(infix(Op::lt, "lt", "Lt", "<", 7, numbers, R::boolean, C::integer, "false with NaN"),
             tile_types),
        each(infix(Op::gt, "gt", "Gt", ">", 7, numbers, R::boolean, C::integer, "false with NaN"),
             tile_types),
        each(infix(Op::le, "le", "Le", "<=", 7, numbers, R::boolean, C::integer, "false with NaN"),
             tile_types),
        each(infix(Op::ge, "ge", "Ge", ">=", 7, numbers, R::boolean, C::integer, "false with NaN"),
             tile_types),
        each(infix(Op::shl, "shl", "Shl", "<<", 8, integers, R::same, C::integer, "amount modulo the width"),
             tile_integers),
        each(infix(Op::shr, "shr", "Shr", ">>", 8, integers, R::same, C::integer, "i32: arithmetic"),
             tile_integers),
        each(infix(Op::add, "add", "Add", "+", 9, numbers, R::same, C::integer, "integers wrap"),
             tile_numbers),
        each(infix(Op::sub, "sub", "Sub", "-", 9, numbers, R::same, C::integer, "integers wrap"),
             tile_numbers),
        each(infix(Op::mul, "mul", "Mul", "*", 10, numbers, R::same, C::integer, "integers wrap"),
             tile_numbers),
        each(infix(Op::div, "div", "Div", "/", 10, numbers, R::same, C::special,
                   "unsigned x/0: all ones; i32: an error"),
             tile_numbers),
        each(infix(Op::mod, "mod", "Mod", "%", 10, integers, R::same, C::special,
                   "unsigned x%0: 0; i32: an error"),
             tile_numbers),
        two(Op::wrapping_add, "wrapping_add", "WrappingAdd", integers, R::same, C::integer, "as +"),
        two(Op::wrapping_sub, "wrapping_sub", "WrappingSub", integers, R::same, C::integer, "as -"),
        each(two(Op::min, "min", "Min", numbers, R::same, C::integer, "of NaN and a number, the number"),
             tile_types),
        each(two(Op::max, "max", "Max", numbers, R::same, C::integer, "of NaN and a number, the number"),
             tile_types),
        two(Op::abs_diff, "abs_diff", "AbsDiff", integers, R::difference, C::integer, "of i32: a u32"),
        two(Op::saturating_add, "saturating_add", "SaturatingAdd", integers, R::same, C::integer, ""),
        two(Op::saturating_sub, "saturating_sub", "SaturatingSub", integers, R::same, C::integer, ""),
        two(Op::saturating_mul, "saturating_mul", "SaturatingMul", integers, R::same, C::integer, ""),
        two(Op::rotate_left, "rotate_left", "RotateLeft", u32, R::same, C::integer, "amount modulo 32"),
        two(Op::rotate_right, "rotate_right", "RotateRight", u32, R::same, C::integer, "amount modulo 32"),
        two(Op::mul_high, "mul_high", "MulHigh", unsigned_words, R::same, C::integer, "upper half"),
    };
}

Operation real(Op op, std::string_view name, std::string_view pascal, std::string_view meaning = "") {
    return each(one(op, name, pascal, f32, R::same, C::special, meaning), tile_floats);
}
Operation rounding(Op op, std::string_view name, std::string_view pascal, std::string_view meaning = "") {
    return each(one(op, name, pascal, f32, R::same, C::integer, meaning), tile_floats);
}

std::vector<Operation> unary() {
    return {
        each(one(Op::negate, "neg", "Negate", numbers, R::same, C::integer, "integers wrap"), tile_numbers),
        each(prefix(Op::bit_not, "bit_not", "BitNot", "~", integers, R::same, ""), tile_bits_of),
        each(one(Op::popcount, "popcount", "Popcount", integers, R::same, C::integer, "ones"),
             tile_integers & ~tile_nibbles),
        each(one(Op::clz, "clz", "Clz", integers, R::same, C::integer, "leading zeros; of 0: the width"),
             tile_integers & ~tile_nibbles),
        one(Op::ctz, "ctz", "Ctz", integers, R::same, C::integer, "trailing zeros; of 0: the width"),
        one(Op::reverse_bits, "reverse_bits", "ReverseBits", integers, R::same, C::integer, ""),
        on_tiles(prefix(Op::logical_not, "not", "LogicalNot", "!", logical, R::boolean, "operand == 0"),
                 F::each, rules::unary, tile_boolean),
        each(rounding(Op::abs, "abs", "Abs"), tile_numbers),
        real(Op::sqrt, "sqrt", "Sqrt"),
        real(Op::inverse_sqrt, "inverse_sqrt", "InverseSqrt", "1 / sqrt"),
        real(Op::reciprocal, "reciprocal", "Reciprocal", "1 / x"),
        real(Op::sin, "sin", "Sin"),
        real(Op::cos, "cos", "Cos"),
        real(Op::tan, "tan", "Tan"),
        real(Op::asin, "asin", "Asin"),
        real(Op::acos, "acos", "Acos"),
        real(Op::atan, "atan", "Atan"),
        real(Op::sinh, "sinh", "Sinh"),
        real(Op::cosh, "cosh", "Cosh"),
        real(Op::tanh, "tanh", "Tanh"),
        real(Op::exp, "exp", "Exp"),
        real(Op::exp2, "exp2", "Exp2"),
        real(Op::log, "log", "Log"),
        real(Op::log2, "log2", "Log2"),
        rounding(Op::floor, "floor", "Floor"),
        rounding(Op::ceil, "ceil", "Ceil"),
        rounding(Op::round, "round", "Round", "half away from zero"),
        rounding(Op::trunc, "trunc", "Trunc"),
        each(rounding(Op::sign, "sign", "Sign", "of NaN: NaN; of +-0: +0"), tile_numbers),
        each(one(Op::is_nan, "is_nan", "IsNan", f32, R::boolean, C::integer, ""), tile_floats),
        each(one(Op::is_inf, "is_inf", "IsInf", f32, R::boolean, C::integer, ""), tile_floats),
        each(one(Op::is_finite, "is_finite", "IsFinite", f32, R::boolean, C::integer, ""), tile_floats),
    };
}

std::vector<Operation> others() {
    return {
        on_tiles({Op::select, "select", "Select", "", S::function, 3, 0, 0, R::own, C::integer,
                  "select(c, a, b): a where c is not 0, else b; all three are evaluated"},
                 F::select, rules::select),
        on_tiles(
            {Op::cast, "cast", "Cast", "", S::cast, 1, 0, 0, R::own, C::integer, "f32(x): x as that type"},
            F::convert, rules::cast),
        {Op::fma, "fma", "Fma", "", S::function, 3, 0, 0, R::own, C::floating,
         "a * b + c, rounded once; a u32 is the bits of an f32"},
        atomic(Op::atomic_add, "atomic_add", "Add", 2, "atomic_add(b[i], v): gives the old value"),
        atomic(Op::atomic_or, "atomic_or", "Or", 2, ""),
        atomic(Op::atomic_and, "atomic_and", "And", 2, ""),
        atomic(Op::atomic_xor, "atomic_xor", "Xor", 2, ""),
        atomic(Op::atomic_min, "atomic_min", "Min", 2, "unsigned"),
        atomic(Op::atomic_max, "atomic_max", "Max", 2, "unsigned"),
        atomic(Op::atomic_exchange, "atomic_exchange", "Exchange", 2, ""),
        atomic(Op::atomic_compare_exchange, "atomic_compare_exchange", "CompareExchange", 3,
               "atomic_compare_exchange(b[i], expected, v)"),
        atomic(Op::atomic_lru_update, "atomic_lru_update", "LruUpdate", 2, "as atomic_max"),
        atomic(Op::atomic_compare_exchange_weak, "atomic_compare_exchange_weak", "CompareExchangeWeak", 3,
               "refused"),
        atomic(Op::atomic_fetch_nand, "atomic_fetch_nand", "FetchNand", 2, "refused"),
        {Op::ballot, "ballot", "SubgroupBallot", "", S::function, 1, 0, 0, R::u32, C::reduce,
         "bit l: the operand of lane l is not 0"},
        {Op::shuffle, "shuffle", "SubgroupShuffle", "", S::function, 2, 0, 0, R::own, C::permute,
         "shuffle(v, lane): v of that lane; of a missing one 0"},
        {Op::subgroup_add, "subgroup_add", "SubgroupAdd", "", S::function, 1, 0, 0, R::same, C::reduce,
         "sum over the lanes, in their order"},
        {Op::subgroup_id, "subgroup_id", "SubgroupLocalId", "", S::function, 0, 0, 0, R::u32, C::none,
         "lane in its subgroup"},
        {Op::subgroup_size, "subgroup_size", "SubgroupSize", "", S::function, 0, 0, 0, R::u32, C::none, "32"},
        leaf(Op::call, "call", "Call", S::tile, "refused"),
        leaf(Op::opaque_expr, "opaque", "Opaque", S::tile, "refused"),
    };
}

std::vector<Operation> tile_access() {
    return {
        tile(Op::window, "window", "Window", C::none, F::none, nullptr,
             "x[window{shape, sizes, strides}(start, ...)]: a part of a buffer of that shape; "
             "window{shape}(): all"),
        tile(Op::clipped, "clipped", "Clipped", C::none, F::none, nullptr,
             "a window in async_copy of which only the part inside the buffer moves; written once in a run"),
        tile(Op::bitcast, "bitcast", "Bitcast", C::none, F::move, rules::bitcast,
             "bitcast{type}(x); to half the width the second last dimension doubles, low halves first")};
}

std::vector<Operation> tile_moves() {
    return {
        tile(Op::iota, "iota", "Iota", C::integer, F::move, rules::iota, "iota{type, dimension, shape}()"),
        tile(Op::broadcast_to, "broadcast_to", "Broadcast", C::permute, F::move, rules::broadcast,
             "broadcast_to{shape, dimensions of x}(x); a scalar costs nothing"),
        tile(Op::reshape, "reshape", "Reshape", C::none, F::move, rules::reshape, "reshape{shape}(x)"),
        tile(Op::transpose, "transpose", "Transpose", C::permute, F::move, rules::transpose,
             "transpose{permutation}(x)"),
        tile(Op::slice, "slice", "Slice", C::permute, F::move, rules::slice,
             "slice{starts, limits, strides}(x)"),
        tile(Op::dynamic_slice, "dynamic_slice", "DynamicSlice", C::permute, F::move, rules::dynamic_slice,
             "dynamic_slice{sizes}(x, start, ...): starts are clamped"),
        tile(Op::dynamic_update, "dynamic_update", "DynamicUpdate", C::permute, F::move,
             rules::dynamic_update, "dynamic_update(x, part, start, ...): starts are clamped"),
        tile(Op::concat, "concat", "Concat", C::permute, F::move, rules::concat, "concat{dimension}(x, ...)"),
        tile(Op::pad, "pad", "Pad", C::permute, F::move, rules::pad, "pad{low, high, interior}(x, value)"),
        tile(Op::reverse, "reverse", "Reverse", C::permute, F::move, rules::reverse,
             "reverse{dimensions}(x)"),
        tile(Op::roll, "roll", "Roll", C::permute, F::pick, rules::roll,
             "roll{axis, stride, stride axis}(x, shift): to higher indices, and round"),
        tile(Op::gather, "gather", "Gather", C::permute, F::pick, rules::gather,
             "gather{fill, and of each list its length and members}(x, indices): lists are "
             "offset, collapsed, "
             "start map, batch of x, batch of indices, slice sizes"),
        tile(Op::permute, "permute", "Permute", C::permute, F::pick, rules::permute,
             "permute{dimension}(x, index): x[index[i]] along the dimension"),
        tile(Op::scatter, "scatter", "Scatter", C::permute, F::pick, rules::scatter,
             "scatter(x, index, values): values at these places of x, counted row-major; the "
             "last one stays")};
}

std::vector<Operation> tile_sums() {
    return {tile(Op::reduce_sum, "reduce_sum", "ReduceSum", C::reduce, F::reduce, rules::reduce,
                 "reduce_sum{axes}(x)", tile_numbers),
            tile(Op::reduce_prod, "reduce_prod", "ReduceProd", C::reduce, F::reduce, rules::reduce, "",
                 tile_numbers),
            tile(Op::reduce_max, "reduce_max", "ReduceMax", C::reduce, F::reduce, rules::extreme,
                 "of NaN and a number, NaN", tile_types),
            tile(Op::reduce_min, "reduce_min", "ReduceMin", C::reduce, F::reduce, rules::extreme,
                 "of NaN and a number, NaN", tile_types),
            tile(Op::reduce_and, "reduce_and", "ReduceAnd", C::reduce, F::reduce, rules::reduce, "bitwise",
                 tile_bits_of),
            tile(Op::reduce_or, "reduce_or", "ReduceOr", C::reduce, F::reduce, rules::reduce, "bitwise",
                 tile_bits_of),
            tile(Op::argmax, "argmax", "Argmax", C::reduce, F::reduce, rules::search,
                 "argmax{axis}(x), i32: the first NaN, else the first of equals", tile_types),
            tile(Op::argmin, "argmin", "Argmin", C::reduce, F::reduce, rules::search, "", tile_types),
            tile(Op::cumulative_sum, "cumulative_sum", "CumulativeSum", C::reduce, F::scan, rules::scan,
                 "cumulative_sum{axis, from the end}(x)", tile_numbers),
            tile(Op::cumulative_prod, "cumulative_prod", "CumulativeProd", C::reduce, F::scan, rules::scan,
                 "", tile_numbers),
            tile(Op::cumulative_max, "cumulative_max", "CumulativeMax", C::reduce, F::scan, rules::scan, "",
                 tile_numbers),
            tile(Op::cumulative_min, "cumulative_min", "CumulativeMin", C::reduce, F::scan, rules::scan, "",
                 tile_numbers),
            tile(Op::cumulative_logsumexp, "cumulative_logsumexp", "CumulativeLogSumExp", C::special, F::scan,
                 rules::scan, "", tile_floats),
            tile(Op::sort, "sort", "Sort", C::permute, F::sort, rules::sort, "sort{axis}(x): NaN last"),
            tile(Op::sort_index, "sort_index", "SortIndex", C::permute, F::sort, rules::sort_index,
                 "sort_index{axis, descending}(key, ...), i32: what permute takes; stable"),
            tile(Op::dot, "dot", "Dot", C::none, F::product, rules::dot,
                 "dot{type, and of each list its length and members}(a, b): lists are contracted dimensions "
                 "of a, of b, batch dimensions of a, of b")};
}

std::vector<Operation> tile_functions() {
    const auto function = [](Op op, std::string_view name, std::string_view pascal) {
        return tile(op, name, pascal, C::special, F::each, rules::unary, "", tile_floats);
    };
    return {tile(Op::shr_logical, "shr_logical", "ShrLogical", C::integer, F::each, rules::binary,
                 "zeros come in", tile_integers),
            tile(Op::pow, "pow", "Pow", C::special, F::each, rules::binary, "", tile_numbers),
            tile(Op::atan2, "atan2", "Atan2", C::special, F::each, rules::binary, "", tile_floats),
            tile(Op::next_after, "next_after", "NextAfter", C::integer, F::each, rules::binary, "",
                 tile_floats & ~tile_eighths),
            tile(Op::round_even, "round_even", "RoundEven", C::integer, F::each, rules::unary, "half to even",
                 tile_floats),
            function(Op::cbrt, "cbrt", "Cbrt"),
            function(Op::expm1, "expm1", "Expm1"),
            function(Op::log1p, "log1p", "Log1p"),
            function(Op::logistic, "logistic", "Logistic"),
            tile(Op::erf, "erf", "Erf", C::special, F::each, rules::erf,
                 "erf{1}(x): 1 - erf(x) without its cancellation", tile_floats),
            function(Op::erf_inv, "erf_inv", "ErfInv"),
            function(Op::log_gamma, "log_gamma", "LogGamma"),
            function(Op::asinh, "asinh", "Asinh"),
            function(Op::acosh, "acosh", "Acosh"),
            function(Op::atanh, "atanh", "Atanh"),
            tile(Op::integer_pow, "integer_pow", "IntegerPow", C::special, F::each, rules::integer_pow,
                 "integer_pow{n}(x)", tile_numbers),
            tile(Op::reduce_precision, "reduce_precision", "ReducePrecision", C::integer, F::each,
                 rules::reduce_precision, "reduce_precision{exponent bits, mantissa bits}(x)", tile_floats)};
}

std::vector<Operation> make_operations() {
    std::vector<Operation> all(static_cast<size_t>(Op::count_of_operations));
    for (const auto& group :
         {leaves(), binary(), unary(), others(), tile_access(), tile_moves(), tile_sums(), tile_functions()})
        for (const Operation& row : group) all[static_cast<size_t>(row.op)] = row;
    return all;
}

std::vector<StatementKind> make_kinds() {
    using P = Part;
    return {
        {Kind::let, "let", "", {}, 1, "let v = e: a new variable, until its block ends"},
        {Kind::assign, "assign", "", {}, 1, "v = e"},
        {Kind::store, "store", "", {}, 2, "b[i] = e; outside: dropped"},
        {Kind::if_, "if", "endif", {}, 1, "if c: ... else: ... endif"},
        {Kind::loop, "loop", "endloop", {}, 2, "loop v in a..b: v is u32, a to b - 1, or no trip"},
        {Kind::while_, "while", "endwhile", {}, 1, "while c:"},
        {Kind::block, "block", "endblock", {}, 0, "block: a scope"},
        {Kind::region, "region", "endregion", {}, 0, "region \"name\": a scope with a name"},
        {Kind::return_, "return", "", {}, 0, "ends the invocation"},
        {Kind::barrier, "barrier", "", {}, 0, "all live invocations of the workgroup meet"},
        {Kind::async_load,
         "async_load",
         "",
         {P::name, P::other, P::expression, P::expression, P::tag},
         2,
         "async_load(src, dst, offset, size, \"tag\"): bytes of src from offset, to byte 0 of dst"},
        {Kind::async_store,
         "async_store",
         "",
         {P::name, P::other, P::expression, P::expression, P::tag},
         2,
         "async_store(src, dst, offset, size, \"tag\"): bytes of src from 0, to byte offset of dst"},
        {Kind::async_wait, "async_wait", "", {P::tag}, 0, "async_wait(\"tag\"): the copy arrives"},
        {Kind::async_copy,
         "async_copy",
         "",
         {P::name, P::other, P::expression, P::expression, P::expression},
         3,
         "async_copy(src, dst, window, window, semaphore[i]): counts its bytes there when it is through; "
         "rules xla"},
        {Kind::signal,
         "signal",
         "",
         {P::name, P::expression, P::expression},
         2,
         "signal(semaphore, i, n): adds n; rules xla"},
        {Kind::wait,
         "wait",
         "",
         {P::name, P::expression, P::expression},
         2,
         "wait(semaphore, i, n): until it has n, and takes them; rules xla"},
        {Kind::masked_store,
         "masked_store",
         "",
         {P::name, P::expression, P::expression, P::expression},
         3,
         "masked_store(b, window, mask, value): only where the mask is true; rules xla"},
        {Kind::forget,
         "forget",
         "",
         {P::name, P::expression},
         1,
         "forget(b, window): its elements are 0 and count as not written; costs nothing; rules xla"},
        {Kind::line,
         "line",
         "",
         {P::tag},
         0,
         "line(\"file:12\"): where the statements from here on come from; costs nothing; rules xla"},
        {Kind::trap, "trap", "", {P::expression, P::tag}, 1, "trap(address, \"tag\"): a device fault"},
        {Kind::resume, "resume", "", {P::tag}, 0, "refused"},
        {Kind::all_reduce, "all_reduce", "", {P::name, P::tag, P::number}, 0, "refused"},
        {Kind::all_gather, "all_gather", "", {P::name, P::other, P::number}, 0, "refused"},
        {Kind::reduce_scatter, "reduce_scatter", "", {P::name, P::other, P::tag, P::number}, 0, "refused"},
        {Kind::broadcast, "broadcast", "", {P::name, P::root, P::number}, 0, "refused"},
        {Kind::indirect_dispatch, "indirect_dispatch", "", {P::name, P::number}, 0, "refused"},
        {Kind::opaque, "opaque", "", {P::tag, P::other}, 0, "refused"},
    };
}

}  // namespace

std::string_view name_of(CostClass cost) {
    constexpr std::array<std::string_view, cost_class_count> names = {
        "none", "integer", "float", "special", "permute", "reduce", "atomic"};
    return names[static_cast<size_t>(cost)];
}

const std::vector<CostRow>& cost_rows() {
    static const std::vector<CostRow> table = {
        {"kernel.statement", 1, "issue of a statement"},
        {"kernel.integer", 1, "operation on integers or bool, of as many elements as the unit has lanes"},
        {"kernel.float", 1, "addition, product, comparison, fma of f32"},
        {"kernel.special", 4, "division, square root, transcendental function"},
        {"kernel.permute", 2, "shuffle"},
        {"kernel.reduce", 4, "ballot, sum over a subgroup"},
        {"kernel.atomic", 2, "atomic, for each invocation: they go one by one"},
        {"kernel.barrier", 4, "barrier of a workgroup"},
        {"kernel.scalar", 1, "load from a uniform buffer, whoever asks for whatever of it"}};
    return table;
}

const std::vector<Operation>& operations() {
    static const std::vector<Operation> table = make_operations();
    return table;
}

const Operation& operation(Op op) { return operations()[static_cast<size_t>(op)]; }

const Operation* find_operation(std::string_view name) {
    static const NameIndex<Operation> index(operations(), &Operation::name);
    return index.find(name);
}

const Operation* find_infix(std::string_view symbol) {
    static const std::vector<Operation> infix = [] {
        std::vector<Operation> result;
        for (const Operation& row : operations())
            if (row.syntax == Syntax::infix) result.push_back(row);
        return result;
    }();
    static const NameIndex<Operation> index(infix, &Operation::symbol);
    const Operation* const found = index.find(symbol);
    return found == nullptr ? nullptr : &operation(found->op);
}

CostClass cost_of(const Operation& operation, Type type) {
    if (operation.cost == CostClass::integer && type == Type::f32) return CostClass::floating;
    return operation.cost;
}

const std::vector<StatementKind>& statement_kinds() {
    static const std::vector<StatementKind> table = make_kinds();
    return table;
}

const StatementKind& statement_kind(Kind kind) { return statement_kinds()[static_cast<size_t>(kind)]; }

const StatementKind* find_statement_kind(std::string_view name) {
    static const NameIndex<StatementKind> index(statement_kinds(), &StatementKind::name);
    return index.find(name);
}

}  // namespace kpu::kernel
