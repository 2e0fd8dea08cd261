#include "compiler/pallas/body.hpp"

#include <array>

#include "base/diagnostics.hpp"
#include "base/name_index.hpp"

namespace kpu::compiler::pallas {
namespace {

/// Spelling of an operation that kernels have too: before, between and after its operands.
struct Spelling {
    std::string_view op, before, between, behind;
};
constexpr std::array<Spelling, 55> spellings = {{{"add", "", " + ", ""},
                                                 {"sub", "", " - ", ""},
                                                 {"mul", "", " * ", ""},
                                                 {"div", "", " / ", ""},
                                                 {"rem", "", " % ", ""},
                                                 {"max", "max(", ", ", ")"},
                                                 {"min", "min(", ", ", ")"},
                                                 {"pow", "pow(", ", ", ")"},
                                                 {"atan2", "atan2(", ", ", ")"},
                                                 {"nextafter", "next_after(", ", ", ")"},
                                                 {"and", "", " & ", ""},
                                                 {"or", "", " | ", ""},
                                                 {"xor", "", " ^ ", ""},
                                                 {"shift_left", "", " << ", ""},
                                                 {"shift_right_arithmetic", "", " >> ", ""},
                                                 {"shift_right_logical", "shr_logical(", ", ", ")"},
                                                 {"eq", "", " == ", ""},
                                                 {"ne", "", " != ", ""},
                                                 {"lt", "", " < ", ""},
                                                 {"le", "", " <= ", ""},
                                                 {"gt", "", " > ", ""},
                                                 {"ge", "", " >= ", ""},
                                                 {"neg", "neg(", "", ")"},
                                                 {"sign", "sign(", "", ")"},
                                                 {"abs", "abs(", "", ")"},
                                                 {"sqrt", "sqrt(", "", ")"},
                                                 {"rsqrt", "inverse_sqrt(", "", ")"},
                                                 {"cbrt", "cbrt(", "", ")"},
                                                 {"sin", "sin(", "", ")"},
                                                 {"cos", "cos(", "", ")"},
                                                 {"tan", "tan(", "", ")"},
                                                 {"tanh", "tanh(", "", ")"},
                                                 {"exp", "exp(", "", ")"},
                                                 {"exp2", "exp2(", "", ")"},
                                                 {"expm1", "expm1(", "", ")"},
                                                 {"log", "log(", "", ")"},
                                                 {"log1p", "log1p(", "", ")"},
                                                 {"logistic", "logistic(", "", ")"},
                                                 {"asin", "asin(", "", ")"},
                                                 {"acos", "acos(", "", ")"},
                                                 {"atan", "atan(", "", ")"},
                                                 {"sinh", "sinh(", "", ")"},
                                                 {"cosh", "cosh(", "", ")"},
                                                 {"asinh", "asinh(", "", ")"},
                                                 {"acosh", "acosh(", "", ")"},
                                                 {"atanh", "atanh(", "", ")"},
                                                 {"erf", "erf(", "", ")"},
                                                 {"erfc", "erf{1}(", "", ")"},
                                                 {"erf_inv", "erf_inv(", "", ")"},
                                                 {"lgamma", "log_gamma(", "", ")"},
                                                 {"is_finite", "is_finite(", "", ")"},
                                                 {"population_count", "popcount(", "", ")"},
                                                 {"clz", "clz(", "", ")"},
                                                 {"floor", "floor(", "", ")"},
                                                 {"ceil", "ceil(", "", ")"}}};

const Spelling* spelling_of(std::string_view op) {
    static const NameIndex<Spelling> index(spellings, &Spelling::op);
    return index.find(op);
}

/// Returns a list as its length and its members.
std::string counted(const Shape& list) {
    return list.empty() ? "0" : fmt::format("{}, {}", list.size(), join(list));
}

}  // namespace

void Body::refuse(const Equation& e, const std::string& why) const {
    throw UserError(fmt::format("{}: `{}`: {}", e.line, e.op, why));
}

std::string Body::text(const Atom& atom) const {
    if (atom.is_literal()) return literal(atom.type, atom.bits);
    const std::string& name = name_of(atom.variable);
    if (name.empty())
        throw UserError(
            fmt::format("call `{}`: variable {} is used before it has a value. Fix: export it again; the "
                        "file was changed.",
                        call_.name, atom.variable));
    return name;
}

const VariableType& Body::type_of(const Atom& atom) const {
    static const auto scalars = [] {
        std::array<VariableType, kernel::type_count> types;
        for (size_t i = 0; i < types.size(); ++i) types[i].type = static_cast<Type>(i);
        return types;
    }();
    return atom.is_literal() ? scalars[static_cast<size_t>(atom.type)] : call_.type_of(atom.variable);
}

std::string Body::index(const Atom& atom) const {
    const Type type = type_of(atom).type;
    return type == Type::i32   ? text(atom)
           : atom.is_literal() ? index_text(static_cast<int64_t>(atom.bits))
                               : fmt::format("i32({})", text(atom));
}

const Atom& Body::operand(const Equation& e, size_t at) const {
    if (at >= e.in.size()) refuse(e, fmt::format("operand {} is missing. Fix: export it again.", at));
    return e.in[at];
}

std::string Body::in(const Equation& e, size_t at) const { return text(operand(e, at)); }

/// Spreads an operand of an element-wise operation: dimensions of size 1 stand beside larger ones.
std::string Body::spread(const Equation& e, size_t at) const {
    const std::string value = in(e, at);
    const Shape &own = type_of(e.in[at]).shape, &shape = out_type(e).shape;
    if (own.empty() || own == shape || own.size() != shape.size()) return value;
    Shape numbers = shape;
    for (size_t i = 0; i < own.size(); ++i) numbers.push_back(static_cast<int64_t>(i));
    return fmt::format("broadcast_to{{{}}}({})", join(numbers), value);
}

const VariableType& Body::out_type(const Equation& e, size_t at) const {
    if (at >= e.out.size()) refuse(e, fmt::format("result {} is missing. Fix: export it again.", at));
    return call_.type_of(e.out[at]);
}

void Body::result(const Equation& e, const std::string& value, size_t at) {
    if (at >= e.out.size()) refuse(e, "its result is missing. Fix: export it again.");
    std::string name = out_.variable(e.out[at]);
    out_.let(name, value);
    name_variable(e.out[at], std::move(name));
}

void Body::equations(const Block& block) {
    for (const Equation& e : block.equations) {
        const std::string_view outer = out_.set_source(e.line);
        equation(e);
        out_.set_source(outer);
    }
}

void Body::equation(const Equation& e) {
    if (elementwise(e) || shaped(e) || reduction(e) || access(e) || copies(e) || control(e) || random(e))
        return;
    refuse(e, "kernels have no such operation. Fix: compute it from others, or outside of the call.");
}

bool Body::elementwise(const Equation& e) {
    if (const Spelling* const found = spelling_of(e.op)) {
        const std::string a = spread(e, 0);
        std::string b = e.in.size() > 1 ? spread(e, 1) : "";
        if (e.op == "pow" && type_of(e.in[0]).type != type_of(e.in[1]).type)
            b = fmt::format("{}({})", kernel::name_of(type_of(e.in[0]).type), b);
        const auto& [op, before, between, behind] = *found;
        std::string value;
        value.reserve(before.size() + a.size() + between.size() + b.size() + behind.size());
        value.append(before).append(a).append(between);
        if (!between.empty()) value += b;
        result(e, value.append(behind));
        return true;
    }
    if (e.op == "not") {
        result(e, fmt::format("{}{}", type_of(operand(e, 0)).type == Type::boolean ? "!" : "~", in(e, 0)));
    } else if (e.op == "integer_pow") {
        result(e, fmt::format("integer_pow{{{}}}({})", e.number("y"), in(e, 0)));
    } else if (e.op == "round") {
        result(e, fmt::format("{}({})", e.flag("even") ? "round_even" : "round", in(e, 0)));
    } else if (e.op == "reduce_precision") {
        result(e, fmt::format("reduce_precision{{{}, {}}}({})", e.number("exponent_bits"),
                              e.number("mantissa_bits"), in(e, 0)));
    } else if (e.op == "convert_element_type") {
        result(e, fmt::format("{}({})", kernel::name_of(out_type(e).type), in(e, 0)));
    } else if (e.op == "select_n") {
        std::string value = spread(e, 1);
        const VariableType& which = type_of(e.in[0]);
        for (size_t i = 2; i < e.in.size(); ++i)
            value = which.type == Type::boolean
                        ? fmt::format("select({}, {}, {})", spread(e, 0), spread(e, i), value)
                        : fmt::format("select({} == {}, {}, {})", in(e, 0), literal(which.type, i - 1),
                                      spread(e, i), value);
        result(e, value);
    } else {
        return false;
    }
    return true;
}

bool Body::shaped(const Equation& e) {
    const auto one = [&](const std::string& head) { result(e, fmt::format("{}({})", head, in(e, 0))); };
    if (e.op == "iota") {
        result(e, fmt::format("iota{{{}, {}, {}}}()", kernel::name_of(out_type(e).type),
                              e.number("dimension"), join(out_type(e).shape)));
    } else if (e.op == "broadcast_in_dim") {
        one("broadcast_to" + braces(strung({out_type(e).shape, e.list("dims")})));
    } else if (e.op == "reshape") {
        one("reshape" + braces(out_type(e).shape));
    } else if (e.op == "transpose") {
        one("transpose" + braces(e.list("permutation")));
    } else if (e.op == "rev") {
        one("reverse" + braces(e.list("dims")));
    } else if (e.op == "slice") {
        one("slice" + braces(strung({e.list("start"), e.list("limit"), e.list("stride")})));
    } else if (e.op == "bitcast") {
        one(fmt::format("bitcast{{{}}}", kernel::name_of(out_type(e).type)));
    } else if (e.op == "bitcast_convert_type") {
        bitcast_last(e);
    } else if (e.op == "pad") {
        result(e, fmt::format("pad{}({}, {})",
                              braces(strung({e.list("low"), e.list("high"), e.list("interior")})), in(e, 0),
                              in(e, 1)));
    } else if (e.op == "concatenate" || e.op == "dynamic_slice" || e.op == "dynamic_update_slice") {
        std::vector<std::string> operands;
        const size_t first = e.op == "dynamic_slice" ? 1 : e.op == "dynamic_update_slice" ? 2 : e.in.size();
        for (size_t i = 0; i < e.in.size(); ++i) operands.push_back(i < first ? in(e, i) : index(e.in[i]));
        const std::string head = e.op == "concatenate" ? fmt::format("concat{{{}}}", e.number("dimension"))
                                 : e.op == "dynamic_slice" ? "dynamic_slice" + braces(out_type(e).shape)
                                                           : "dynamic_update";
        result(e, fmt::format("{}({})", head, fmt::join(operands, ", ")));
    } else if (e.op == "roll") {
        const bool strided = static_cast<bool>(e.parameters.find("stride"));
        result(e,
               fmt::format("roll{{{}, {}, {}}}({}, {})", e.number("axis"), strided ? e.number("stride") : 0,
                           strided ? e.number("stride_axis") : 0, in(e, 0), in(e, 1)));
    } else if (e.op == "gather") {
        gather(e);
    } else if (e.op == "program_id" || e.op == "num_programs") {
        const auto axis = static_cast<size_t>(e.number("axis"));
        const std::vector<std::string>& names = e.op == "program_id" ? indices_ : sizes_;
        if (axis >= names.size())
            refuse(e, fmt::format("the grid has no axis {}. Fix: use one of its {}.", axis, names.size()));
        out_type(e);  // there is a result
        name_variable(e.out[0], names[axis]);
    } else {
        return false;
    }
    return true;
}

/// Writes a bitcast as jax has it: the parts of a wider element are one more last dimension.
void Body::bitcast_last(const Equation& e) {
    const VariableType &from = type_of(operand(e, 0)), &to = out_type(e);
    const std::string type(kernel::name_of(to.type));
    const unsigned from_bits = kernel::tile_bits(from.type), to_bits = kernel::tile_bits(to.type);
    if (from_bits == to_bits) return result(e, fmt::format("bitcast{{{}}}({})", type, in(e, 0)));
    Shape rows = from.shape;
    if (from_bits < to_bits) {
        const int64_t last = rows.empty() ? 1 : rows.back();
        if (!rows.empty()) rows.pop_back();
        if (rows.empty()) rows.push_back(1);
        rows.back() *= last;
    } else if (rows.empty()) {
        rows.push_back(1);
    }
    rows.push_back(1);
    result(e, fmt::format("reshape{}(bitcast{{{}}}(reshape{}({})))", braces(to.shape), type, braces(rows),
                          in(e, 0)));
}

void Body::gather(const Equation& e) {
    const Json mode = e.parameters.find("mode");
    const bool fills = mode.is_string() && mode.string() == "fill";
    std::string fill;
    if (fills) {
        const Json found = e.parameters.find("fill");
        const bool pair = found.is_array() && found.size() == 2;
        const Json bits = pair ? *++found.begin() : Json();
        if (!bits.is_integer() || bits.integer() < 0)
            refuse(e, "its fill is not a literal. Fix: export it again.");
        fill = ", " + literal(type_of(operand(e, 0)).type, static_cast<uint64_t>(bits.integer()));
    }
    result(e, fmt::format("gather{{{}, {}, {}, {}, {}, {}, {}}}({}, {}{})", fills ? 1 : 0,
                          counted(e.list("offset_dims")), counted(e.list("collapsed_slice_dims")),
                          counted(e.list("start_index_map")), counted(e.list("operand_batching_dims")),
                          counted(e.list("start_indices_batching_dims")), counted(e.list("slice_sizes")),
                          in(e, 0), in(e, 1), fill));
}

bool Body::reduction(const Equation& e) {
    constexpr std::array<std::pair<std::string_view, const char*>, 5> cumulative = {
        {{"cumsum", "cumulative_sum"},
         {"cumprod", "cumulative_prod"},
         {"cummax", "cumulative_max"},
         {"cummin", "cumulative_min"},
         {"cumlogsumexp", "cumulative_logsumexp"}}};
    for (const auto& [name, ours] : cumulative)
        if (e.op == name) {
            result(e, fmt::format("{}{{{}, {}}}({})", ours, e.number("axis"), e.flag("reverse") ? 1 : 0,
                                  in(e, 0)));
            return true;
        }
    if (e.op == "reduce_sum" || e.op == "reduce_max" || e.op == "reduce_min" || e.op == "reduce_prod" ||
        e.op == "reduce_and" || e.op == "reduce_or") {
        const Type type = type_of(operand(e, 0)).type;
        const bool logical = type == Type::boolean && (e.op == "reduce_max" || e.op == "reduce_min");
        const std::string_view name = logical ? (e.op == "reduce_max" ? "reduce_or" : "reduce_and") : e.op;
        result(e, fmt::format("{}{}({})", name, braces(e.list("axes")), in(e, 0)));
    } else if (e.op == "argmax" || e.op == "argmin") {
        const std::string place = fmt::format("{}{{{}}}({})", e.op, e.number("axis"), in(e, 0));
        result(e, out_type(e).type == Type::i32
                      ? place
                      : fmt::format("{}({})", kernel::name_of(out_type(e).type), place));
    } else if (e.op == "sort") {
        sort(e);
    } else if (e.op == "top_k") {
        top_k(e);
    } else if (e.op == "dot_general") {
        result(e,
               fmt::format("dot{{{}, {}, {}, {}, {}}}({}, {})", kernel::name_of(out_type(e).type),
                           counted(e.list("lhs_contract")), counted(e.list("rhs_contract")),
                           counted(e.list("lhs_batch")), counted(e.list("rhs_batch")), in(e, 0), in(e, 1)));
    } else {
        return false;
    }
    return true;
}

void Body::sort(const Equation& e) {
    const int64_t dimension = e.number("dimension");
    if (e.in.size() == 1) return result(e, fmt::format("sort{{{}}}({})", dimension, in(e, 0)));
    std::vector<std::string> keys;
    for (size_t i = 0; i < static_cast<size_t>(e.number("keys")); ++i) keys.push_back(in(e, i));
    const std::string order =
        out_.let(fmt::format("sort_index{{{}, 0}}({})", dimension, fmt::join(keys, ", ")));
    for (size_t i = 0; i < e.in.size(); ++i)
        result(e, fmt::format("permute{{{}}}({}, {})", dimension, in(e, i), order), i);
}

/// Orders floats as whole numbers by sign and bits: -NaN, -inf .. -0, 0 .. inf, NaN.
std::string Body::total_order(const Equation& e) {
    const Type type = type_of(operand(e, 0)).type;
    if (!kernel::contains(kernel::tile_floats, type)) return in(e, 0);
    const unsigned bytes = kernel::tile_bytes(type);
    const Type whole = bytes == 4 ? Type::i32 : bytes == 2 ? Type::i16 : Type::i8;
    const int64_t sign = bytes * 8 - 1;
    const std::string bits = out_.let(fmt::format("bitcast{{{}}}({})", kernel::name_of(whole), in(e, 0)));
    return fmt::format("{0} ^ shr_logical({0} >> {1}, {2})", bits,
                       literal(whole, static_cast<uint64_t>(sign)), literal(whole, 1));
}

void Body::top_k(const Equation& e) {
    const Shape shape = type_of(operand(e, 0)).shape;
    if (shape.empty()) refuse(e, "a scalar has no order. Fix: give it an array.");
    const size_t last = shape.size() - 1;
    Shape limits = shape;
    limits[last] = e.number("k");
    const std::string order = out_.let(fmt::format("sort_index{{{}, 1}}({})", last, total_order(e)));
    const std::string first = out_.let(fmt::format(
        "slice{}({})", braces(strung({Shape(shape.size(), 0), limits, Shape(shape.size(), 1)})), order));
    result(e, fmt::format("permute{{{}}}({}, {})", last, in(e, 0), first), 0);
    result(e, first, 1);
}

}  // namespace kpu::compiler::pallas
