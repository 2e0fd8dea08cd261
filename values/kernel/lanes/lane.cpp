// The definition of every expression, one invocation at a time.
#include "values/kernel/lanes/lane.hpp"

#include <fmt/format.h>

#include "values/kernel/lanes/arithmetic.hpp"

namespace kpu::values::kernel {
namespace {

using kpu::kernel::CodeExpr;
using kpu::kernel::Syntax;
using kpu::kernel::value_text;

class Evaluation {
  public:
    Evaluation(const Code& code, Memory& memory, const Lane& lane, uint32_t statement)
        : code_(code), memory_(memory), lane_(lane), statement_(statement) {}

    uint64_t value(ExprIndex index) {
        const CodeExpr& expr = code_.exprs[index];
        const auto axis = static_cast<size_t>(expr.place);
        switch (kpu::kernel::operation(expr.op).syntax) {
            case Syntax::literal:
                return expr.bits;
            case Syntax::variable:
                return lane_.variable(expr.place);
            case Syntax::length:
                return static_cast<uint32_t>(std::min<uint64_t>(memory_.length(expr.place), UINT32_MAX));
            case Syntax::axis:
                return expr.op == Op::gid   ? lane_.ids.gid[axis]
                       : expr.op == Op::lid ? lane_.ids.lid[axis]
                                            : lane_.ids.wgid[axis];
            case Syntax::load:
                return load(index, expr);
            case Syntax::atomic:
                return atomic(index, expr);
            case Syntax::cast:
                return cast_value(expr);
            default:
                return computed(index, expr);
        }
    }

  private:
    Type type_of(ExprIndex index) const { return code_.exprs[index].type; }

    uint64_t computed(ExprIndex index, const CodeExpr& expr) {
        switch (expr.op) {
            case Op::ballot:
            case Op::shuffle:
            case Op::subgroup_add:
                return lane_.exchanged(index);
            case Op::subgroup_id:
                return lane_.linear % kpu::kernel::subgroup_lanes;
            case Op::subgroup_size:
                return kpu::kernel::subgroup_lanes;
            default:
                break;
        }
        const uint64_t a = value(expr.operand[0]);
        if (expr.arity == 1) return unary(expr, a);
        const uint64_t b = value(expr.operand[1]);
        if (expr.arity == 2) return binary(expr, a, b);
        const uint64_t c = value(expr.operand[2]);
        if (expr.op == Op::fma) return fused(a, b, c);
        return truthy(type_of(expr.operand[0]), a) ? b : c;
    }

    uint64_t unary(const CodeExpr& expr, uint64_t a) {
        uint64_t result = 0;
        const auto apply = [&](auto f) {
            using Argument = decltype(argument_of(f));
            result = to_bits(f(from_bits<Argument>(a)));
            return true;
        };
        if (!visit_unary(expr.op, type_of(expr.operand[0]), apply))
            throw InternalError("kernel: unary operation");
        return result;
    }

    uint64_t binary(const CodeExpr& expr, uint64_t a, uint64_t b) {
        const Type type = type_of(expr.operand[0]);
        if (type == Type::i32 && (expr.op == Op::div || expr.op == Op::mod)) check_quotient(expr.op, a, b);
        uint64_t result = 0;
        const auto apply = [&](auto f) {
            using Argument = decltype(argument_of(f));
            result = to_bits(f(from_bits<Argument>(a), from_bits<Argument>(b)));
            return true;
        };
        if (!visit_binary(expr.op, type, apply)) throw InternalError("kernel: binary operation");
        return result;
    }

    /// Returns the type that a lambda of arithmetic.hpp takes.
    template <typename F, typename R, typename A, typename... Rest>
    static A first_argument(R (F::*)(A, Rest...) const);
    template <typename F>
    static auto argument_of(F) -> decltype(first_argument(&F::operator()));

    void check_quotient(Op op, uint64_t a, uint64_t b) const {
        if (!undefined_quotient(a, b)) return;
        const auto left = static_cast<int32_t>(a), right = static_cast<int32_t>(b);
        throw Fault(fmt::format(
            "i32 {}{} `{} / {}` has undefined backend semantics. Fix: guard the signed "
            "divisor/overflow case before lowering, or use unsigned operands when "
            "zero-divisor semantics must produce 0.",
            op == Op::div ? "division" : "remainder", right == 0 ? "" : " overflow", left, right));
    }

    uint64_t cast_value(const CodeExpr& expr) {
        const Type from = type_of(expr.operand[0]);
        const uint64_t bits = value(expr.operand[0]);
        uint64_t result = 0;
        if (!cast(from, expr.type, bits, result))
            throw Fault(
                fmt::format("cast to {} cannot represent {} losslessly. Fix: cast from an in-range scalar "
                            "value.",
                            name_of(expr.type), value_text(from, bits)));
        return result;
    }

    uint64_t load(ExprIndex index, const CodeExpr& expr) {
        const Type type = type_of(expr.operand[0]);
        const uint64_t bits = value(expr.operand[0]);
        uint32_t element = 0;
        if (!as_u32(type, bits, element))
            throw Fault(fmt::format(
                "load index {} cannot be represented as u32. Fix: use a non-negative scalar index "
                "within u32.",
                value_text(type, bits)));
        lane_.touched(index, expr.place, element);
        if (memory_.inside(expr.place, element)) return memory_.load(expr.place, element);
        memory_.note_outside("load", statement_, index, expr.place, element);
        return 0;
    }

    uint32_t atomic_operand(ExprIndex index, bool expected) {
        const uint64_t bits = value(index);
        uint32_t word = 0;
        if (as_u32(type_of(index), bits, word)) return word;
        if (expected)
            throw Fault(
                fmt::format("atomic expected value {} cannot be represented as u32. Fix: use a scalar "
                            "u32-compatible argument.",
                            value_text(type_of(index), bits)));
        throw Fault("atomic value cannot be represented as u32. Fix: use a scalar u32-compatible argument.");
    }

    uint64_t atomic(ExprIndex index, const CodeExpr& expr) {
        const auto element = static_cast<uint32_t>(value(expr.operand[0]));
        const bool exchanges = expr.arity == 3;
        const uint32_t expected = exchanges ? atomic_operand(expr.operand[1], true) : 0;
        const uint32_t operand = atomic_operand(expr.operand[exchanges ? 2 : 1], false);
        lane_.touched(index, expr.place, element);
        if (!memory_.inside(expr.place, element)) {
            memory_.note_outside("atomic", statement_, index, expr.place, element);
            return 0;
        }
        const auto old = static_cast<uint32_t>(memory_.load(expr.place, element));
        memory_.store(expr.place, element, atomic_result(expr.op, old, operand, expected));
        return old;
    }

    const Code& code_;
    Memory& memory_;
    const Lane& lane_;
    uint32_t statement_;
};

}  // namespace

uint64_t evaluate(const Code& code, Memory& memory, const Lane& lane, uint32_t statement, ExprIndex expr) {
    return Evaluation(code, memory, lane, statement).value(expr);
}

uint64_t byte_count(const Code& code, uint32_t statement, size_t operand, uint64_t bits) {
    const kpu::kernel::CodeStatement& s = code.statements[statement];
    const bool load = s.kind == kpu::kernel::Kind::async_load;
    const std::string_view label =
        load ? (operand == 0 ? "async load source offset" : "async load size")
             : (operand == 0 ? "async store destination offset" : "async store size");
    const Type type = code.exprs[s.expr[operand]].type;
    if (type == Type::i32 && static_cast<int32_t>(bits) < 0)
        throw Fault(fmt::format(
            "{} cannot be represented as u64. Fix: use an in-range non-negative byte count.", label));
    if (bits > kpu::kernel::max_copy_bytes)
        throw Fault(fmt::format("{} exceeds host usize. Fix: reduce the async transfer span.", label));
    return bits;
}

Ids ids_of(const Code& code, const std::array<uint32_t, 3>& workgroup, uint32_t linear) {
    const std::array<uint32_t, 3>& size = code.workgroup;
    Ids ids;
    ids.wgid = workgroup;
    ids.lid = {linear % size[0], linear / size[0] % size[1], linear / size[0] / size[1]};
    for (size_t axis = 0; axis < 3; ++axis) ids.gid[axis] = workgroup[axis] * size[axis] + ids.lid[axis];
    return ids;
}

std::string ids_text(const std::array<uint32_t, 3>& ids) {
    return fmt::format("({}, {}, {})", ids[0], ids[1], ids[2]);
}

std::vector<uint64_t> exchange(const kpu::kernel::CodeExpr& expr, Type operand_type,
                               const std::vector<uint32_t>& lanes,
                               const std::array<std::vector<uint64_t>, 2>& operands) {
    constexpr uint32_t width = kpu::kernel::subgroup_lanes;
    std::vector<uint64_t> results(lanes.size());
    size_t first = 0;
    while (first < lanes.size()) {
        size_t end = first;
        std::array<uint64_t, width> by_lane{};  // a lane that does not take part gives 0
        uint64_t ballot = 0, sum = 0;
        for (; end < lanes.size() && lanes[end] / width == lanes[first] / width; ++end) {
            const uint32_t lane = lanes[end] % width;
            const uint64_t value = operands[0][end];
            by_lane[lane] = value;
            if (truthy(operand_type, value)) ballot |= uint64_t{1} << lane;
            sum = operand_type == Type::f32
                      ? (end == first ? value : word_of(from_bits<float>(sum) + from_bits<float>(value)))
                      : static_cast<uint32_t>(sum + value);
        }
        for (size_t i = first; i < end; ++i) {
            const uint64_t from = expr.op == Op::shuffle ? operands[1][i] : 0;
            results[i] = expr.op == Op::ballot ? ballot : expr.op == Op::subgroup_add ? sum : 0;
            if (expr.op == Op::shuffle && from < width) results[i] = by_lane[from];
        }
        first = end;
    }
    return results;
}

}  // namespace kpu::values::kernel
