// After which statement a tile is needed no more, so that its memory serves others.
#include <algorithm>

#include "isa/kernel/tile_code.hpp"

namespace kpu::kernel {
namespace {

struct LastUse {
    size_t depth = 0;  ///< depth of the variable's scope
    uint32_t statement = 0;
    bool in_scope = false;  ///< not in a block of that scope, which may be executed again
};

class Lifetimes {
  public:
    Lifetimes(const Code& code, TileCode& tiles) : code_(code), tiles_(tiles), last_(code.variables.size()) {}

    void find() {
        for (uint32_t s = 0; s < code_.statements.size(); ++s) visit(s);
        std::vector<std::pair<uint32_t, uint32_t>> ends;
        for (uint32_t v = 0; v < last_.size(); ++v)
            if (last_[v].in_scope && reads_once(code_.statements[last_[v].statement].kind))
                ends.emplace_back(last_[v].statement, v);
        std::sort(ends.begin(), ends.end());
        for (const auto& [statement, variable] : ends) {
            TileStatement& reader = tiles_.statements[statement];
            if (reader.dead_end == 0) reader.dead_begin = static_cast<uint32_t>(tiles_.dead.size());
            tiles_.dead.push_back(variable);
            reader.dead_end = static_cast<uint32_t>(tiles_.dead.size());
        }
    }

  private:
    /// True if it reads its operands once; blocks, copies and waits may look at theirs again.
    static bool reads_once(Kind kind) {
        return kind == Kind::let || kind == Kind::assign || kind == Kind::store;
    }

    void visit(uint32_t statement) {
        while (!block_ends_.empty() && block_ends_.back() == statement) block_ends_.pop_back();
        const CodeStatement& s = code_.statements[statement];
        for (const ExprIndex expr : tiles_.statements[statement].expr)
            if (expr != no_expr) read(expr, statement);
        if (s.kind == Kind::let) last_[s.variable] = {block_ends_.size(), statement, true};
        if (s.kind == Kind::assign) use(s.variable, statement);
        if (statement_kind(s.kind).end.empty()) return;
        block_ends_.push_back(s.body_end);
        if (s.else_begin != s.body_end) block_ends_.push_back(s.else_begin);
    }

    void read(ExprIndex index, uint32_t statement) {
        const TileExpr& expr = tiles_.exprs[index];
        if (expr.op == Op::variable) use(expr.place, statement);
        for (const ExprIndex operand : expr.operands) read(operand, statement);
    }

    /// Notes a use of a variable that is visible, so that equal depths are the same scope. Loop variables are
    /// left out. Those of loops are no one's here.
    void use(uint32_t variable, uint32_t statement) {
        if (code_.variables[variable].kind != Variable::Kind::let) return;
        LastUse& last = last_[variable];
        last.statement = statement;
        last.in_scope = block_ends_.size() == last.depth;
    }

    const Code& code_;
    TileCode& tiles_;
    std::vector<LastUse> last_;
    std::vector<uint32_t> block_ends_;  ///< innermost last
};

}  // namespace

void find_dead_tiles(const Code& code, TileCode& tiles) { Lifetimes(code, tiles).find(); }

}  // namespace kpu::kernel
