// Types of expressions.
#include <fmt/format.h>

#include "isa/kernel/analysis.hpp"

namespace kpu::kernel {
namespace {

bool is_literal(const CodeExpr& expr) { return operation(expr.op).syntax == Syntax::literal; }

Type literal_type(Op op) {
    switch (op) {
        case Op::literal_i32:
            return Type::i32;
        case Op::literal_u64:
            return Type::u64;
        case Op::literal_f32:
            return Type::f32;
        case Op::literal_bool:
            return Type::boolean;
        default:
            return Type::u32;
    }
}

}  // namespace

std::string Analysis::operand_text(ExprIndex index) const {
    const CodeExpr& expr = at(index);
    return is_literal(expr) ? value_text(expr.type, expr.bits) : fmt::format("`{}`", name_of(expr.type));
}

std::optional<uint32_t> Analysis::buffer_of(const std::string& name) const {
    const auto found = buffers_.find(name);
    return found == buffers_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<uint32_t> Analysis::variable_of(const std::string& name) const {
    const auto found = visible_.find(name);
    return found == visible_.end() ? std::nullopt : std::optional(found->second);
}

/// A type of none: a mistake was reported, and nothing is said about what depends on it.
ExprIndex Analysis::resolve_expression(const proto::KernelExpression& expression, CodeStatement& statement) {
    std::vector<ExprIndex> stack;
    for (const proto::KernelToken& token : expression.token()) {
        const Operation& row = *find_operation(token.op());
        const CodeExpr expr = resolve_token(token, row, stack);
        const bool exchanges = row.op == Op::ballot || row.op == Op::shuffle || row.op == Op::subgroup_add;
        statement.collective |= exchanges;
        code_->has_atomics |= row.syntax == Syntax::atomic;
        stack.push_back(static_cast<ExprIndex>(code_->exprs.size()));
        code_->exprs.push_back(expr);
    }
    return stack.back();
}

CodeExpr Analysis::resolve_token(const proto::KernelToken& token, const Operation& row,
                                 std::vector<ExprIndex>& stack) {
    CodeExpr expr;
    expr.op = row.op;
    uint64_t operands = row.operands;
    if (row.syntax == Syntax::tile) operands = token.bits();
    if (row.syntax == Syntax::load) operands = std::max<uint64_t>(token.bits(), 1);
    bool known = true;
    for (uint64_t i = 0; i < operands; ++i) {
        const ExprIndex operand = stack[stack.size() - operands + i];
        if (i < expr.operand.size()) expr.operand[i] = operand;
        known &= type_of(operand) != Type::none;
    }
    stack.resize(stack.size() - operands);
    expr.arity = static_cast<uint8_t>(std::min<uint64_t>(operands, 3));
    if (row.syntax == Syntax::tile || operands > 3) {
        if (row.op == Op::call || row.op == Op::opaque_expr)
            error(fmt::format("`{}` has no meaning here. Fix: write the computation itself.", row.name));
        else
            error(fmt::format(
                "`{}` is an operation on tiles, of rule set xla. Fix: compute element by element.",
                row.name));
        return expr;
    }
    if (!known) return expr;
    switch (row.syntax) {
        case Syntax::literal:
            expr.type = literal_type(row.op);
            expr.bits =
                expr.type == Type::f32 ? canonical(static_cast<uint32_t>(token.bits())) : token.bits();
            break;
        case Syntax::variable:
            if (const auto variable = variable_of(token.name())) {
                expr.place = *variable;
                expr.type = code_->variables[*variable].type;
            } else {
                error(fmt::format("reference to undeclared variable `{}`. Fix: add a Let before this use.",
                                  token.name()));
            }
            break;
        case Syntax::load:
            if (operands > 1)
                error(
                    fmt::format("a load of `{}` with {} indices is one of tiles, of rule set xla. Fix: "
                                "compute one index.",
                                token.name(), operands));
            else
                resolve_load(token, expr);
            break;
        case Syntax::length:
            if (const auto buffer = buffer_of(token.name())) {
                expr.place = *buffer;
                expr.type = Type::u32;
            } else {
                error(fmt::format("buflen of unknown buffer `{}`. Fix: declare it in Program::buffers.",
                                  token.name()));
            }
            break;
        case Syntax::axis:
            expr.place = static_cast<uint32_t>(token.name()[0] - 'x');
            expr.type = Type::u32;
            break;
        case Syntax::cast:
            resolve_cast(token, expr);
            break;
        case Syntax::atomic:
            resolve_atomic(token, row, expr);
            break;
        default:
            if (row.op == Op::select) {
                resolve_select(expr);
            } else if (row.op == Op::fma) {
                resolve_fma(expr);
            } else if (row.op >= Op::ballot && row.op <= Op::subgroup_size) {
                resolve_subgroup(expr);
            } else if (row.operands == 2) {
                resolve_binary(row, expr);
            } else {
                resolve_unary(row, expr);
            }
    }
    return expr;
}

void Analysis::resolve_load(const proto::KernelToken& token, CodeExpr& expr) {
    const auto index = buffer_of(token.name());
    if (!index)
        return error(
            fmt::format("load from unknown buffer `{}`. Fix: declare it in Program::buffers.", token.name()));
    CodeBuffer& buffer = code_->buffers[*index];
    buffer.direct = true;
    if (buffer.type == Type::bytes || buffer.type == Type::i4)
        return error(
            fmt::format("operation on buffer `{}` with element type `{}` is not supported. Fix: use a "
                        "typed buffer.",
                        buffer.name, name_of(buffer.type)));
    const CodeExpr& at_index = at(expr.operand[0]);
    const bool negative = at_index.op == Op::literal_i32 && static_cast<int32_t>(at_index.bits) < 0;
    if (!contains(computed, at_index.type) || negative)
        return error(
            fmt::format("load index {} cannot be represented as u32. Fix: use a non-negative scalar "
                        "index within u32.",
                        operand_text(expr.operand[0])));
    expr.place = *index;
    expr.type = buffer.type;
}

void Analysis::resolve_binary(const Operation& row, CodeExpr& expr) {
    const Type left = type_of(expr.operand[0]), right = type_of(expr.operand[1]);
    if (left != right)
        return error(
            fmt::format("binary op `{}` received mismatched operands {} and {}. Fix: insert an explicit "
                        "Cast so both operands have the same primitive type.",
                        row.pascal, operand_text(expr.operand[0]), operand_text(expr.operand[1])));
    if (!contains(row.types, left)) {
        if (left == Type::boolean)
            return error(
                fmt::format("binary op `{}` is not defined for bool operands. Fix: cast bools to u32 "
                            "before numeric or bitwise operations.",
                            row.pascal));
        if (left == Type::f32)
            return error(
                fmt::format("binary op `{}` is not defined for f32 operands. Fix: use arithmetic or "
                            "comparison ops only for float primitives.",
                            row.pascal));
        return error(
            fmt::format("binary op `{}` is not defined for {} operands. Fix: cast them to one of {}.",
                        row.pascal, name_of(left), names_of(row.types)));
    }
    const CodeExpr& divisor = at(expr.operand[1]);
    if ((row.op == Op::div || row.op == Op::mod) && is_literal(divisor) && left != Type::f32 &&
        divisor.bits == 0)
        return error(
            fmt::format("binary operation `{}` has a statically-zero divisor. Fix: guard the divisor, "
                        "use Select to substitute a non-zero value, or reject the input before "
                        "building IR.",
                        row.pascal));
    expr.type = row.result == Result::boolean      ? Type::boolean
                : row.result == Result::difference ? (left == Type::i32 ? Type::u32 : left)
                                                   : left;
}

void Analysis::resolve_unary(const Operation& row, CodeExpr& expr) {
    const Type type = type_of(expr.operand[0]);
    if (!contains(row.types, type)) {
        if (type == Type::boolean)
            return error(
                fmt::format("unary op `{}` is not defined for bool operands. Fix: cast bool to u32 before "
                            "numeric or bitwise unary operations.",
                            row.pascal));
        if (type == Type::f32)
            return error(
                fmt::format("unary op `{}` is not defined for f32 operands. Fix: use numeric or IEEE-754 "
                            "classification ops only for float primitives.",
                            row.pascal));
        if (!contains(computed, type))
            return error(
                fmt::format("unary op `{}` received non-primitive operand {}. Fix: load or cast to a "
                            "scalar primitive before applying unary ops.",
                            row.pascal, operand_text(expr.operand[0])));
        return error(fmt::format("unary op `{}` is not defined for {} operands. Fix: cast them to one of {}.",
                                 row.pascal, name_of(type), names_of(row.types)));
    }
    expr.type = row.result == Result::boolean ? Type::boolean : type;
}

void Analysis::resolve_select(CodeExpr& expr) {
    const Type condition = type_of(expr.operand[0]), yes = type_of(expr.operand[1]),
               no = type_of(expr.operand[2]);
    if (!contains(computed, condition))
        return error(fmt::format("Select condition has type `{}`. Fix: compare it, or cast it to `bool`.",
                                 name_of(condition)));
    if (yes != no)
        return error(
            fmt::format("Select branches have mismatched types: true=`{}`, false=`{}`. Fix: cast both "
                        "branches to the same type before Select.",
                        name_of(yes), name_of(no)));
    expr.type = yes;
}

void Analysis::resolve_cast(const proto::KernelToken& token, CodeExpr& expr) {
    const std::optional<Type> target = parse_type(token.name());
    const Type source = type_of(expr.operand[0]);
    const TypeSet legal = legal_casts(source);
    if (!target || !contains(legal, *target))
        return error(
            fmt::format("unsupported cast from `{}` to `{}`. Source type `{}` legal targets are {}. "
                        "Choose one of those targets or rewrite this cast expression before "
                        "validation.",
                        name_of(source), token.name(), name_of(source), names_of(legal)));
    if (storage_bits(*target) < storage_bits(source))
        warning(
            fmt::format("narrowing cast from `{}` to `{}` may truncate high bits. Source type `{}` legal "
                        "targets are {}. Use a non-narrowing target or prove the source value fits before "
                        "casting.",
                        name_of(source), name_of(*target), name_of(source), names_of(legal)));
    expr.type = *target;
}

void Analysis::resolve_fma(CodeExpr& expr) {
    for (size_t i = 0; i < 3; ++i) {
        const Type type = type_of(expr.operand[i]);
        if (type != Type::f32 && type != Type::u32)
            return error(
                fmt::format("Fma operand `{}` has type `{}`, must be `f32`. Fix: cast the operand to F32 "
                            "before Fma, or use the integer mul/add form explicitly.",
                            "abc"[i], name_of(type)));
    }
    expr.type = Type::f32;
}

void Analysis::resolve_atomic(const proto::KernelToken& token, const Operation& row, CodeExpr& expr) {
    const auto index = buffer_of(token.name());
    if (!index)
        return error(
            fmt::format("atomic on unknown buffer `{}`. Fix: declare it in Program::buffers.", token.name()));
    CodeBuffer& buffer = code_->buffers[*index];
    buffer.direct = true;
    switch (buffer.access) {
        case proto::KernelBuffer::WORKGROUP:
            return error(
                fmt::format("atomic `{}` on workgroup buffer `{}` is rejected by the current memory model. "
                            "Fix: use a storage ReadWrite buffer for atomics.",
                            row.pascal, buffer.name));
        case proto::KernelBuffer::READ:
            return error(
                fmt::format("atomic `{}` targets read-only buffer `{}`. Fix: declare `{}` with "
                            "BufferAccess::ReadWrite before issuing `{}`.",
                            row.pascal, buffer.name, buffer.name, row.pascal));
        case proto::KernelBuffer::UNIFORM:
            return error(
                fmt::format("atomic `{}` targets uniform buffer `{}`. Fix: move `{}` to "
                            "BufferAccess::ReadWrite before issuing `{}`.",
                            row.pascal, buffer.name, buffer.name, row.pascal));
        case proto::KernelBuffer::WRITE:
            return error(
                fmt::format("atomic target `{}` is not writable. Fix: atomics only support ReadWrite "
                            "storage buffers.",
                            buffer.name));
        default:
            break;
    }
    if (buffer.type != Type::u32)
        return error(
            fmt::format("atomic on buffer `{}` with non-u32 element type `{}`. Fix: atomics only support "
                        "U32 elements.",
                        buffer.name, name_of(buffer.type)));
    if (row.op == Op::atomic_compare_exchange_weak || row.op == Op::atomic_fetch_nand)
        return error(
            fmt::format("unsupported atomic op `{}` reached the reference interpreter. Fix: define "
                        "sequential semantics before constructing this AtomicOp.",
                        row.pascal));
    if (type_of(expr.operand[0]) != Type::u32)
        return error(
            fmt::format("atomic index on buffer `{}` has type `{}`, must be `u32`. Fix: cast the index to "
                        "U32 before the atomic operation.",
                        buffer.name, name_of(type_of(expr.operand[0]))));
    for (uint8_t i = 1; i < expr.arity; ++i)
        if (!contains(computed, type_of(expr.operand[i])))
            return error(
                "atomic value cannot be represented as u32. Fix: use a scalar u32-compatible argument.");
    expr.place = *index;
    expr.type = Type::u32;
}

bool Analysis::holds_atomic(ExprIndex index) const {
    const CodeExpr& expr = at(index);
    if (operation(expr.op).syntax == Syntax::atomic) return true;
    for (uint8_t i = 0; i < expr.arity; ++i)
        if (holds_atomic(expr.operand[i])) return true;
    return false;
}

void Analysis::resolve_subgroup(CodeExpr& expr) {
    expr.type = Type::u32;
    if (expr.arity == 0) return;
    const Type type = type_of(expr.operand[0]);
    expr.type = Type::none;
    for (uint8_t i = 0; i < expr.arity; ++i) {
        if (holds_atomic(expr.operand[i]))
            return error("an atomic within a subgroup operation. Fix: bind its result with let before.");
    }
    const bool wanted =
        expr.op == Op::ballot ? contains(computed, type) : type == Type::u32 || type == Type::f32;
    if (!wanted)
        return error(
            fmt::format("subgroup_{} lanes have mixed or unsupported value types. Fix: cast every lane value "
                        "to the same primitive u32 or f32 type before the subgroup collective.",
                        expr.op == Op::shuffle        ? "shuffle"
                        : expr.op == Op::subgroup_add ? "add"
                                                      : "ballot"));
    if (expr.op == Op::shuffle && type_of(expr.operand[1]) != Type::u32)
        return error("subgroup_shuffle lane index is not a u32. Fix: use a scalar u32 lane argument.");
    expr.type = expr.op == Op::ballot ? Type::u32 : type;
}

}  // namespace kpu::kernel
