// Finds what a kernel of rule set xla does that depends on what buffers hold.
#include "isa/kernel/tile_flow.hpp"

#include <algorithm>

#include "isa/kernel/tile_code.hpp"

namespace kpu::kernel {

bool tile_reads_data(const Code& code, ExprIndex root) {
    if (root == no_expr) return false;
    const TileExpr& expr = code.tiles->exprs[root];
    if (expr.op == Op::load) return true;
    if (expr.op == Op::variable) return code.variables[expr.place].from_data;
    return std::any_of(expr.operands.begin(), expr.operands.end(),
                       [&](ExprIndex operand) { return tile_reads_data(code, operand); });
}

namespace {

bool index_reads_data(const Code& code, ExprIndex root) {
    if (root == no_expr) return false;
    const TileExpr& expr = code.tiles->exprs[root];
    if ((expr.op == Op::load || expr.op == Op::window || expr.op == Op::clipped) &&
        std::any_of(expr.operands.begin(), expr.operands.end(),
                    [&](ExprIndex operand) { return tile_reads_data(code, operand); }))
        return true;
    return std::any_of(expr.operands.begin(), expr.operands.end(),
                       [&](ExprIndex operand) { return index_reads_data(code, operand); });
}

/// True if more than the place of the window depends on data: what is copied has the same size wherever it
/// is.
bool copied_window_reads_data(const Code& code, ExprIndex root) {
    const TileExpr& window = code.tiles->exprs[root];
    if (window.op == Op::clipped) return index_reads_data(code, root);
    return std::any_of(window.operands.begin(), window.operands.end(),
                       [&](ExprIndex operand) { return index_reads_data(code, operand); });
}

/// Makes one pass over all statements; true when a variable changed.
bool spread_through_tiles(Code& code) {
    bool changed = false;
    for (uint32_t i = 0; i < code.statements.size(); ++i) {
        const CodeStatement& s = code.statements[i];
        if (s.kind != Kind::let && s.kind != Kind::assign && s.kind != Kind::loop) continue;
        const TileStatement& t = code.tiles->statements[i];
        Variable& variable = code.variables[s.variable];
        if (variable.from_data || !(tile_reads_data(code, t.expr[0]) || tile_reads_data(code, t.expr[1])))
            continue;
        variable.from_data = changed = true;
    }
    return changed;
}

}  // namespace

void mark_data(Code& code) {
    while (spread_through_tiles(code)) {
    }
}

std::optional<uint32_t> first_data_dependence_of_tiles(const Code& code) {
    for (uint32_t i = 0; i < code.statements.size(); ++i) {
        const CodeStatement& s = code.statements[i];
        const TileStatement& t = code.tiles->statements[i];
        const bool control = s.kind == Kind::if_ || s.kind == Kind::while_ || s.kind == Kind::loop;
        const bool counts = s.kind == Kind::signal || s.kind == Kind::wait;
        if (s.kind == Kind::async_copy) {
            if (copied_window_reads_data(code, t.expr[0]) || index_reads_data(code, t.expr[1]) ||
                tile_reads_data(code, t.expr[2]))
                return i;
            continue;
        }
        for (const ExprIndex root : t.expr)
            if (index_reads_data(code, root) || ((control || counts) && tile_reads_data(code, root)))
                return i;
        // its mask says which words are asked for
        const bool masks = s.kind == Kind::masked_store && tile_reads_data(code, t.expr[1]);
        const bool place = s.kind == Kind::store || s.kind == Kind::masked_store;
        if (masks || (place && tile_reads_data(code, t.expr[0]))) return i;
    }
    return std::nullopt;
}

}  // namespace kpu::kernel
