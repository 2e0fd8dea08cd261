// Data flow of a kernel: lanes that differ, data that decide.
#include "isa/kernel/flow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "isa/kernel/analysis.hpp"
#include "isa/kernel/tile_code.hpp"

namespace kpu::kernel {
namespace {

/// True if the expression or one that it is made of satisfies `test`.
bool any_of(const Code& code, ExprIndex index, const std::function<bool(const CodeExpr&)>& test) {
    if (index == no_expr) return false;
    const CodeExpr& expr = code.exprs[index];
    if (test(expr)) return true;
    for (uint8_t i = 0; i < expr.arity; ++i)
        if (any_of(code, expr.operand[i], test)) return true;
    return false;
}

bool exchanges(Op op) { return op == Op::ballot || op == Op::shuffle || op == Op::subgroup_add; }

bool differs(const Code& code, ExprIndex index) {
    return any_of(code, index, [&](const CodeExpr& expr) {
        const Syntax syntax = operation(expr.op).syntax;
        if (expr.op == Op::variable) return !code.variables[expr.place].uniform;
        return syntax == Syntax::load || syntax == Syntax::atomic || expr.op == Op::lid ||
               expr.op == Op::gid || exchanges(expr.op) || expr.op == Op::subgroup_id;
    });
}

bool reads_data(const Code& code, ExprIndex index) {
    return any_of(code, index, [&](const CodeExpr& expr) {
        const Syntax syntax = operation(expr.op).syntax;
        if (expr.op == Op::variable) return code.variables[expr.place].from_data;
        return syntax == Syntax::load || syntax == Syntax::atomic;
    });
}

bool has_control(const CodeStatement& s) {
    return s.kind == Kind::if_ || s.kind == Kind::while_ || s.kind == Kind::loop;
}

/// Makes one pass over all statements; true when a variable changed.
bool spread(Code& code) {
    bool changed = false;
    std::vector<std::pair<uint32_t, bool>> open;  // end, decided by data
    for (uint32_t i = 0; i < code.statements.size(); ++i) {
        const CodeStatement& s = code.statements[i];
        while (!open.empty() && open.back().first == i) open.pop_back();
        const bool under_data = !open.empty() && open.back().second;
        const bool binds = s.kind == Kind::let || s.kind == Kind::assign || s.kind == Kind::loop;
        const bool data = reads_data(code, s.expr[0]) || reads_data(code, s.expr[1]);
        if (binds) {
            Variable& variable = code.variables[s.variable];
            const bool lanes = differs(code, s.expr[0]) || differs(code, s.expr[1]);
            changed |= (lanes && variable.uniform) || ((data || under_data) && !variable.from_data);
            variable.uniform &= !lanes;
            variable.from_data |= data || under_data;
        }
        if (s.body_end > 0) open.emplace_back(s.body_end, under_data || (has_control(s) && data));
    }
    return changed;
}

void mark_barriers(Code& code) {
    std::vector<uint32_t> open;
    for (uint32_t i = 0; i < code.statements.size(); ++i) {
        while (!open.empty() && code.statements[open.back()].body_end == i) open.pop_back();
        CodeStatement& s = code.statements[i];
        if (s.kind == Kind::barrier)
            for (const uint32_t block : open) code.statements[block].holds_barrier = true;
        if (s.body_end > 0) open.push_back(i);
    }
}

}  // namespace

void analyse_flow(Code& code, const Source& source, Diagnostics& diagnostics) {
    while (spread(code)) {
    }
    mark_barriers(code);
    for (uint32_t i = 0; i < code.statements.size(); ++i) {
        const CodeStatement& s = code.statements[i];
        if (!has_control(s) || !s.holds_barrier) continue;
        if (!differs(code, s.expr[0]) && !differs(code, s.expr[1])) continue;
        const Place place = i < source.statements.size() ? source.statements[i] : Place{};
        diagnostics.error(
            {source.path, place.line, place.column},
            fmt::format("{}: barrier may be reached by only part of a workgroup. Fix: move the barrier "
                        "to uniform control flow.",
                        code.where(i)));
    }
}

std::optional<uint32_t> first_data_dependence(const Code& code) {
    if (code.tiles != nullptr) return first_data_dependence_of_tiles(code);
    for (uint32_t i = 0; i < code.statements.size(); ++i) {
        const CodeStatement& s = code.statements[i];
        const bool addresses =
            s.kind == Kind::store || s.kind == Kind::async_load || s.kind == Kind::async_store;
        if ((has_control(s) || addresses) && reads_data(code, s.expr[0])) return i;
        const bool bound = s.kind == Kind::loop || s.kind == Kind::async_load || s.kind == Kind::async_store;
        if (bound && reads_data(code, s.expr[1])) return i;
        for (const ExprIndex root : s.expr) {
            const bool indexed = any_of(code, root, [&](const CodeExpr& expr) {
                const Syntax syntax = operation(expr.op).syntax;
                return (syntax == Syntax::load || syntax == Syntax::atomic) &&
                       reads_data(code, expr.operand[0]);
            });
            if (indexed) return i;
        }
    }
    return std::nullopt;
}

namespace {

/// True if any statement reads a variable.
bool is_read(const Code& code, uint32_t variable) {
    for (const CodeExpr& expr : code.exprs)
        if (expr.op == Op::variable && expr.place == variable) return true;
    return false;
}

bool is_atomic(const CodeExpr& expr) { return operation(expr.op).syntax == Syntax::atomic; }

}  // namespace

std::optional<uint32_t> first_order_dependence(const Code& code) {
    const auto other_kind = [&](const CodeExpr& atomic) {
        for (const CodeExpr& expr : code.exprs)
            if (is_atomic(expr) && expr.place == atomic.place && expr.op != atomic.op) return true;
        return false;
    };
    for (uint32_t i = 0; i < code.statements.size(); ++i) {
        const CodeStatement& s = code.statements[i];
        for (const ExprIndex root : s.expr) {
            if (!any_of(code, root, is_atomic)) continue;
            const CodeExpr& expr = code.exprs[root];
            const bool dropped = is_atomic(expr) && (s.kind == Kind::let || s.kind == Kind::assign) &&
                                 !is_read(code, s.variable);
            const bool exchanges = expr.op == Op::atomic_exchange || expr.op == Op::atomic_compare_exchange;
            const bool nested =
                any_of(code, expr.operand[0], is_atomic) || any_of(code, expr.operand[1], is_atomic);
            if (!dropped || exchanges || nested || other_kind(expr)) return i;
        }
    }
    return std::nullopt;
}

uint64_t Code::workgroup_bytes() const {
    uint64_t used = 0;
    for (const CodeBuffer& buffer : buffers)
        if (buffer.is_workgroup()) used = begin_of(buffer, used) + buffer.declared_bytes();
    return used;
}

uint64_t Code::begin_of(const CodeBuffer& buffer, uint64_t used) const {
    if (body->rules() != "xla") return used;
    uint64_t alignment = least_tile_alignment;
    while (alignment < std::min(buffer.declared_bytes(), tile_alignment)) alignment *= 2;
    return (used + alignment - 1) / alignment * alignment;
}

std::string Code::where(uint32_t statement) const {
    const std::string text = statement_text(body->statement(static_cast<int>(statement)));
    if (const std::string origin = line_of(statement); !origin.empty())
        return fmt::format("{}, kernel `{}`, `{}`", origin, name(), text);
    const std::string line =
        statement < places.size() ? fmt::format(", line {}", places[statement].line) : std::string();
    const std::string region = region_of(statement);
    return fmt::format("kernel `{}`{}{}, `{}`", name(),
                       region.empty() ? "" : fmt::format(", region {}", region), line, text);
}

std::string Code::line_of(uint32_t statement) const {
    for (uint32_t i = statement; i-- > 0;)
        if (statements[i].kind == Kind::line) return body->statement(static_cast<int>(i)).tag();
    return "";
}

std::string Code::region_of(uint32_t statement) const {
    std::string names;
    for (uint32_t i = 0; i < statement; ++i) {
        if (statements[i].kind != Kind::region || statements[i].body_end <= statement) continue;
        names += (names.empty() ? "" : "/") + body->statement(static_cast<int>(i)).name();
    }
    return names;
}

}  // namespace kpu::kernel
