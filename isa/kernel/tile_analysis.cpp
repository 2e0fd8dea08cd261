// Kernels of rule set xla: names, shapes, windows and semaphores resolved.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "isa/kernel/tile_code.hpp"
#include "isa/kernel/tile_flow.hpp"

namespace kpu::kernel {
namespace {

class TileAnalysis {
  public:
    TileAnalysis(const Source& source, Diagnostics& diagnostics)
        : source_(source), body_(*source.body), diagnostics_(diagnostics) {}

    std::shared_ptr<Code> run() {
        code_->body = source_.body;
        code_->path = source_.path;
        code_->places = source_.statements;
        for (int i = 0; i < body_.buffer_size(); ++i) add_buffer(body_.buffer(i));
        for (const uint32_t size : body_.workgroup())
            if (size != 1) error("a kernel of rule set xla has one invocation. Fix: write workgroup(1).");
        if (code_->workgroup_bytes() > max_tile_bytes)
            error(fmt::format("workgroup memory requires {} bytes, more than {}. Fix: use smaller blocks.",
                              code_->workgroup_bytes(), max_tile_bytes));
        tiles_->semaphores.resize(code_->buffers.size());
        scopes_.push_back({static_cast<uint32_t>(body_.statement_size()), {}});
        in_head_ = false;
        reserve();
        for (current_ = 0; current_ < static_cast<uint32_t>(body_.statement_size()); ++current_)
            add_statement();
        if (errors_ == 0) check_semaphores();
        if (errors_ > 0) return nullptr;
        find_dead_tiles(*code_, *tiles_);
        code_->tiles = tiles_;
        return code_;
    }

  private:
    struct SaidAbove {};  ///< thrown for names whose `let` is wrong
    struct Scope {
        uint32_t end;
        std::vector<std::string_view> names;  ///< the body's
    };

    void error(const std::string& message) {
        ++errors_;
        Place place = source_.start;
        if (!in_head_ && current_ < source_.statements.size()) place = source_.statements[current_];
        const std::string line = in_head_ ? "" : code_->line_of(current_);
        const std::string subject =
            in_head_ || current_ >= static_cast<uint32_t>(body_.statement_size())
                ? fmt::format("kernel `{}`: ", body_.name())
                : fmt::format("kernel `{}`, `{}`: ", body_.name(),
                              statement_text(body_.statement(static_cast<int>(current_))));
        diagnostics_.error({source_.path, place.line, place.column},
                           (line.empty() ? "" : line + ", ") + subject + message);
    }

    /// Reserves memory for all at once, since the form that was checked says how much there will be.
    void reserve() {
        const auto statements = static_cast<size_t>(body_.statement_size());
        code_->statements.reserve(statements);
        tiles_->statements.reserve(statements);
        code_->variables.reserve(statements);
        tiles_->variables.reserve(statements);
        visible_.reserve(statements);
        size_t tokens = 0;
        for (const proto::KernelStatement& statement : body_.statement())
            for (const proto::KernelExpression& expression : statement.expression())
                tokens += static_cast<size_t>(expression.token_size());
        tiles_->exprs.reserve(tokens);
    }

    void add_buffer(const proto::KernelBuffer& buffer) {
        const Type type = *parse_type(buffer.type());
        if (buffers_.count(buffer.name()) > 0 || visible_.count(buffer.name()) > 0)
            return error(fmt::format("duplicate buffer name `{}`. Fix: each buffer must have a unique name.",
                                     buffer.name()));
        if (buffer.access() == proto::KernelBuffer::SCALAR) {
            if (type != Type::i32 && type != Type::u32)
                return error(fmt::format("scalar `{}` has type `{}`. Fix: use i32 or u32.", buffer.name(),
                                         name_of(type)));
            code_->scalars.push_back(add_variable(buffer.name(), type, {}, Variable::Kind::scalar));
            return;
        }
        if (!contains(tile_buffers, type))
            return error(
                fmt::format("buffer `{}` of `{}`, which memory does not hold. Fix: use one of {}; a bool and "
                            "floats of 8 bits are stored as u8.",
                            buffer.name(), name_of(type), names_of(tile_buffers)));
        if (buffer.count() == 0)
            return error(
                fmt::format("buffer `{}` needs its number of elements. Fix: declare it.", buffer.name()));
        if (buffer.range_end() != 0 || buffer.range_begin() != 0)
            return error(fmt::format("buffer `{}` has a byte range. Fix: store what is to be written.",
                                     buffer.name()));
        buffers_.emplace(buffer.name(), static_cast<uint32_t>(code_->buffers.size()));
        code_->buffers.push_back({buffer.name(), buffer.access(), type, buffer.count(), 0, 0, false});
    }

    uint32_t add_variable(const std::string& name, Type type, const Shape& shape, Variable::Kind kind) {
        const auto index = static_cast<uint32_t>(code_->variables.size());
        code_->variables.push_back({name, type, kind});
        tiles_->variables.push_back(shape);
        visible_[name] = index;
        return index;
    }

    void add_statement() {
        while (scopes_.size() > 1 && scopes_.back().end == current_) {
            for (const std::string_view name : scopes_.back().names) visible_.erase(name);
            scopes_.pop_back();
        }
        const proto::KernelStatement& source = body_.statement(static_cast<int>(current_));
        CodeStatement statement;
        TileStatement tiles;
        statement.kind = find_statement_kind(source.kind())->kind;
        bool resolved = false;
        try {
            for (int i = 0; i < source.expression_size(); ++i)
                tiles.expr[static_cast<size_t>(i)] = resolve(source.expression(i));
            resolve_statement(source, statement, tiles);
            resolved = true;
        } catch (const SaidAbove&) {
        } catch (const TileMistake& mistake) {
            error(mistake.what());
        }
        if (!resolved && statement.kind == Kind::let && visible_.count(source.name()) == 0)
            declare(source.name(), Type::none, {}, Variable::Kind::let, statement);
        if (!statement_kind(statement.kind).end.empty()) {
            statement.body_end = source.body_end();
            statement.else_begin = source.else_begin() != 0 ? source.else_begin() : source.body_end();
            scopes_.push_back({source.body_end(), {}});
            if (source.else_begin() != 0) scopes_.push_back({source.else_begin(), {}});
            if (statement.kind == Kind::loop) {
                const ExprIndex from = tiles.expr[0];
                declare(source.name(), from == no_expr ? Type::none : tiles_->exprs[from].type, {},
                        Variable::Kind::loop, statement);
            }
        }
        code_->statements.push_back(statement);
        tiles_->statements.push_back(tiles);
    }

    void declare(const std::string& name, Type type, const Shape& shape, Variable::Kind kind,
                 CodeStatement& statement) {
        if (visible_.count(name) > 0)
            return error(fmt::format(
                "duplicate local binding `{}`. Fix: choose a unique local name; shadowing is not allowed.",
                name));
        statement.variable = add_variable(name, type, shape, kind);
        scopes_.back().names.push_back(name);
    }

    // ---- statements

    void resolve_statement(const proto::KernelStatement& source, CodeStatement& s, TileStatement& t) {
        switch (s.kind) {
            case Kind::let:
                need_value(t.expr[0]);
                return declare(source.name(), at(t.expr[0]).type, at(t.expr[0]).shape, Variable::Kind::let,
                               s);
            case Kind::assign:
                return resolve_assign(source, s, t);
            case Kind::store:
                return resolve_store(source, s, t);
            case Kind::if_:
            case Kind::while_:
                if (at(t.expr[0]).type != Type::boolean || !at(t.expr[0]).shape.empty())
                    throw TileMistake("the condition is not a bool scalar. Fix: compare something.");
                return;
            case Kind::loop:
                for (size_t i = 0; i < 2; ++i) need_index(t.expr[i]);
                if (at(t.expr[0]).type != at(t.expr[1]).type)
                    throw TileMistake("bounds of two types. Fix: cast one of them.");
                return;
            case Kind::masked_store:
                return resolve_masked_store(source, s, t);
            case Kind::forget:
                s.buffer = buffer(source.name());
                if (!code_->buffers[s.buffer].is_workgroup())
                    throw TileMistake("only workgroup memory is forgotten. Fix: name such a buffer.");
                access_shape(s.buffer, t.expr[0]);
                return;
            case Kind::async_copy:
                return resolve_copy(source, s, t);
            case Kind::signal:
            case Kind::wait:
                t.semaphore = s.buffer = semaphore(source.name());
                need_index(t.expr[0]);
                return need_index(t.expr[1]);
            case Kind::block:
            case Kind::region:
            case Kind::return_:
            case Kind::line:
                return;
            case Kind::trap:
                return need_index(t.expr[0]);
            default:
                throw TileMistake(fmt::format(
                    "`{}` is of rule set gpu. Fix: write async_copy, signal and wait.", source.kind()));
        }
    }

    void resolve_assign(const proto::KernelStatement& source, CodeStatement& s, const TileStatement& t) {
        const auto found = visible_.find(source.name());
        if (found == visible_.end())
            throw TileMistake(
                fmt::format("assignment to undeclared variable `{}`. Fix: add a Let before assigning it.",
                            source.name()));
        const Variable& variable = code_->variables[found->second];
        if (variable.kind != Variable::Kind::let)
            throw TileMistake(fmt::format(
                "assignment to loop variable `{}`. Fix: loop variables are immutable.", source.name()));
        need_value(t.expr[0]);
        s.variable = found->second;
        const TileExpr& value = at(t.expr[0]);
        if (variable.type != Type::none &&
            (value.type != variable.type || value.shape != tiles_->variables[s.variable]))
            throw TileMistake(fmt::format(
                "`{}` is {}, the value {}. Fix: assign a value of that type and shape.", source.name(),
                tile_text(variable.type, tiles_->variables[s.variable]), tile_text(value.type, value.shape)));
    }

    void resolve_masked_store(const proto::KernelStatement& source, CodeStatement& s, TileStatement& t) {
        resolve_store_of(source, s, t, 2);
        check_mask(t.expr[1], t.expr[0]);
    }
    void check_mask(ExprIndex mask, ExprIndex index) const {
        if (at(index).op != Op::window)
            throw TileMistake("a mask without window. Fix: write window{shape, sizes}(start, ...).");
        const Shape& shape = at(index).shape;
        if (at(mask).type != Type::boolean || at(mask).shape != shape)
            throw TileMistake(fmt::format("mask of {}. Fix: use {}.",
                                          tile_text(at(mask).type, at(mask).shape),
                                          tile_text(Type::boolean, shape)));
    }

    void resolve_store(const proto::KernelStatement& source, CodeStatement& s, TileStatement& t) {
        resolve_store_of(source, s, t, 1);
    }
    void resolve_store_of(const proto::KernelStatement& source, CodeStatement& s, TileStatement& t,
                          size_t value_at) {
        s.buffer = buffer(source.name());
        CodeBuffer& target = code_->buffers[s.buffer];
        target.direct = true;
        stored_.insert(s.buffer);
        if (!target.writable())
            throw TileMistake(fmt::format(
                "store target `{}` is not writable. Fix: declare it ReadWrite, WriteOnly, or Workgroup.",
                target.name));
        need_value(t.expr[value_at]);
        const TileExpr& value = at(t.expr[value_at]);
        const Shape shape = access_shape(s.buffer, t.expr[0]);
        if (value.type != target.type || value.shape != shape)
            throw TileMistake(fmt::format("store of {} to {}. Fix: store a value of that type and shape.",
                                          tile_text(value.type, value.shape), tile_text(target.type, shape)));
    }

    void resolve_copy(const proto::KernelStatement& source, CodeStatement& s, TileStatement& t) {
        s.buffer = buffer(source.name());
        s.other = buffer(source.other());
        const CodeBuffer &from = code_->buffers[s.buffer], &to = code_->buffers[s.other];
        if (!to.writable())
            throw TileMistake(fmt::format(
                "copy to `{}`, which is not writable. Fix: declare it write, read_write or workgroup.",
                to.name));
        Shape sides[2];
        for (size_t i = 0; i < 2; ++i) {
            const TileExpr& window = at(t.expr[i]);
            if (window.op != Op::window && window.op != Op::clipped)
                throw TileMistake(
                    "a side of the copy is not a window. Fix: write window{shape, sizes}(start, ...).");
            check_window(i == 0 ? s.buffer : s.other, window);
            Shape& side = sides[i] = window.shape;
            side.erase(std::remove(side.begin(), side.end(), 1), side.end());
            if (side.size() > max_copy_rank)
                throw TileMistake(
                    fmt::format("a copy of more than {} dimensions. Fix: copy it in parts.", max_copy_rank));
        }
        if (from.type != to.type || sides[0] != sides[1])
            throw TileMistake(fmt::format("copy of {} to {}. Fix: use windows of one type and size.",
                                          tile_text(from.type, sides[0]), tile_text(to.type, sides[1])));
        const TileExpr& count = at(t.expr[2]);
        if (count.op != Op::load || count.operands.size() != 1 || at(count.operands[0]).type == Type::none)
            throw TileMistake("the last operand is not a semaphore. Fix: write semaphore[i].");
        t.semaphore = semaphore(code_->buffers[count.place].name);
        t.expr[2] = count.operands[0];
    }

    void check_semaphores() {
        in_head_ = true;
        for (uint32_t i = 0; i < code_->buffers.size(); ++i)
            if (tiles_->semaphores[i] && stored_.count(i) > 0)
                error(fmt::format("semaphore `{}` is stored to. Fix: signal and wait only.",
                                  code_->buffers[i].name));
    }

    // ---- expressions

    const TileExpr& at(ExprIndex index) const { return tiles_->exprs[index]; }
    void need_value(ExprIndex index) const {
        if (at(index).type == Type::none && (at(index).op == Op::window || at(index).op == Op::clipped))
            throw TileMistake("a window is not a value. Fix: use it as an index of a buffer.");
    }
    void need_index(ExprIndex index) const {
        const TileExpr& expr = at(index);
        if (!expr.shape.empty() || (expr.type != Type::i32 && expr.type != Type::u32))
            throw TileMistake(fmt::format("{} is not an index. Fix: use an i32 or u32 scalar.",
                                          tile_text(expr.type, expr.shape)));
    }
    uint32_t buffer(const std::string& name) const {
        const auto found = buffers_.find(name);
        if (found == buffers_.end())
            throw TileMistake(fmt::format("unknown buffer `{}`. Fix: declare it in Program::buffers.", name));
        return found->second;
    }
    uint32_t semaphore(const std::string& name) {
        const uint32_t index = buffer(name);
        const CodeBuffer& found = code_->buffers[index];
        if (!found.is_workgroup() || found.type != Type::u32)
            throw TileMistake(fmt::format("`{}` is not a semaphore. Fix: declare it workgroup u32.", name));
        tiles_->semaphores[index] = true;
        return index;
    }

    /// Returns the shape that a load or store of this index has.
    Shape access_shape(uint32_t buffer, ExprIndex index) const {
        const TileExpr& expr = at(index);
        if (expr.op == Op::clipped) throw TileMistake("only copies are clipped. Fix: write window.");
        if (expr.op != Op::window) {
            need_index(index);
            return {};
        }
        check_window(buffer, expr);
        return expr.shape;
    }
    void check_window(uint32_t buffer, const TileExpr& window) const {
        const CodeBuffer& b = code_->buffers[buffer];
        const size_t rank = window.dims.size() / 3;
        const Shape shape(window.dims.begin(), window.dims.begin() + static_cast<ptrdiff_t>(rank));
        if (elements_of(shape) > int64_t{b.count})
            throw TileMistake(
                fmt::format("a window of [{}] in buffer `{}` of {} elements. Fix: use its shape.",
                            fmt::join(shape, ", "), b.name, b.count));
    }

    ExprIndex resolve(const proto::KernelExpression& expression) {
        std::vector<ExprIndex>& stack = stack_;
        stack.clear();
        for (const proto::KernelToken& token : expression.token()) {
            const Operation& row = *find_operation(token.op());
            TileExpr& expr = tiles_->exprs.emplace_back();
            expr.op = row.op;
            uint64_t operands = row.operands;
            if (row.syntax == Syntax::tile) operands = token.bits();
            if (row.syntax == Syntax::load) operands = std::max<uint64_t>(token.bits(), 1);
            expr.operands.assign(stack.end() - static_cast<ptrdiff_t>(operands), stack.end());
            stack.resize(stack.size() - operands);
            expr.dims.assign(token.dims().begin(), token.dims().end());
            expr.bits = token.bits();
            try {
                resolve_token(token, row, expr);
            } catch (const TileMistake& mistake) {
                throw TileMistake(fmt::format("`{}`: {}", row.name, mistake.what()));
            }
            stack.push_back(static_cast<ExprIndex>(tiles_->exprs.size() - 1));
        }
        return stack.back();
    }

    void resolve_token(const proto::KernelToken& token, const Operation& row, TileExpr& expr) {
        if (row.syntax == Syntax::literal) {
            expr.type = row.op == Op::literal_u32   ? Type::u32
                        : row.op == Op::literal_i32 ? Type::i32
                        : row.op == Op::literal_f32 ? Type::f32
                                                    : Type::boolean;
            if (row.op == Op::literal_u64) throw TileMistake("no u64 in rule set xla. Fix: use u32.");
            expr.place = tiles_->literals++;
            return;
        }
        if (row.syntax == Syntax::variable) {
            const auto found = visible_.find(token.name());
            if (found == visible_.end())
                throw TileMistake(fmt::format(
                    "reference to undeclared variable `{}`. Fix: add a Let before this use.", token.name()));
            expr.place = found->second;
            expr.type = code_->variables[expr.place].type;
            expr.shape = tiles_->variables[expr.place];
            if (expr.type == Type::none) throw SaidAbove();
            return;
        }
        if (row.syntax == Syntax::load) {
            if (expr.operands.size() > 2)
                throw TileMistake(
                    "a load has an index, and a mask at most. Fix: write x[window{shape, sizes}(start, "
                    "...)].");
            expr.place = buffer(token.name());
            code_->buffers[expr.place].direct = true;
            expr.shape = access_shape(expr.place, expr.operands[0]);
            expr.type = code_->buffers[expr.place].type;
            if (expr.operands.size() == 2) check_mask(expr.operands[1], expr.operands[0]);
            return;
        }
        if (row.op == Op::window || row.op == Op::clipped) return resolve_window(expr);
        const bool known = row.syntax == Syntax::infix || row.syntax == Syntax::prefix ||
                           row.syntax == Syntax::function || row.syntax == Syntax::cast ||
                           row.syntax == Syntax::tile;
        if (!known || row.op == Op::fma || row.op == Op::call || row.op == Op::opaque_expr)
            throw TileMistake("it is of rule set gpu. Fix: use an operation of xla.");
        in_.clear();
        for (const ExprIndex operand : expr.operands) {
            need_value(operand);
            in_.push_back(&at(operand));
        }
        infer_tile(expr, in_, parse_type(token.name()).value_or(Type::none));
    }

    void resolve_window(TileExpr& expr) const {
        const size_t rank = expr.operands.size();
        if (rank == 0) {
            const Shape shape = expr.dims;
            expr.dims.insert(expr.dims.end(), shape.begin(), shape.end());
            expr.dims.insert(expr.dims.end(), shape.size(), 1);
        } else {
            for (const ExprIndex start : expr.operands) need_index(start);
            if (expr.dims.size() == 2 * rank) expr.dims.insert(expr.dims.end(), rank, 1);
            if (expr.dims.size() != 3 * rank)
                throw TileMistake(
                    "its numbers are not a shape, sizes and strides. Fix: write one of each for each start.");
        }
        const size_t dims = expr.dims.size() / 3;
        int64_t count = 1;
        for (size_t i = 0; i < dims; ++i) {
            const int64_t whole = expr.dims[i], size = expr.dims[dims + i], stride = expr.dims[2 * dims + i];
            const bool fits = whole >= 1 && whole <= INT32_MAX && size >= 0 && stride >= 1 &&
                              stride <= INT32_MAX && (expr.op == Op::clipped || size <= whole) &&
                              size <= max_tile_elements;
            if (!fits || count > int64_t{INT32_MAX} / whole)
                throw TileMistake(
                    "no window of a buffer. Fix: use sizes within its shape, and strides from 1 on.");
            count *= whole;
        }
        expr.shape.assign(expr.dims.begin() + static_cast<ptrdiff_t>(dims),
                          expr.dims.begin() + static_cast<ptrdiff_t>(2 * dims));
        if (elements_of(expr.shape) > max_tile_elements)
            throw TileMistake("a window of too many elements. Fix: use smaller blocks.");
    }

    const Source& source_;
    const proto::KernelBody& body_;
    Diagnostics& diagnostics_;
    std::shared_ptr<Code> code_ = std::make_shared<Code>();
    std::shared_ptr<TileCode> tiles_ = std::make_shared<TileCode>();
    std::unordered_map<std::string_view, uint32_t> buffers_, visible_;
    std::unordered_set<uint32_t> stored_;
    std::vector<Scope> scopes_;
    std::vector<ExprIndex> stack_;     ///< stack of the expression that is being resolved
    std::vector<const TileExpr*> in_;  ///< operands of its operation
    uint32_t current_ = 0;
    bool in_head_ = true;
    size_t errors_ = 0;
};

}  // namespace

std::shared_ptr<const Code> analyse_tiles(const Source& source, Diagnostics& diagnostics) {
    const std::shared_ptr<Code> code = TileAnalysis(source, diagnostics).run();
    if (code != nullptr) mark_data(*code);
    return code;
}

}  // namespace kpu::kernel
