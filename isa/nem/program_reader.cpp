#include "isa/nem/program_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isa/bound_program.hpp"
#include "isa/container.hpp"
#include "isa/structure.hpp"

namespace kpu::nem {
namespace {

using Kind = Symbol::Kind;

bool uses_loops(const proto::Expr& expr) {
    return std::any_of(expr.token().begin(), expr.token().end(),
                       [](const proto::ExprToken& token) { return token.kind() == proto::ExprToken::LOOP; });
}

bool uses_loops(const proto::Buffer& buffer) {
    return uses_loops(buffer.size()) || uses_loops(buffer.align()) || uses_loops(buffer.engine());
}

}  // namespace

ProgramReader::ProgramReader(Lexer& lexer, Context& context, std::string path)
    : Reader(lexer, context, std::move(path)),
      module_(context.document.module),
      program_(context.document.module.program) {
    module_.source.files.push_back(path_);
    symbols_.reserve(lexer.text().size() / 128);  // bytes of text a name that outlives its loop
}

void ProgramReader::read(const std::vector<std::string>& includes, std::string_view body) {
    try {
        read_head(includes, body);
    } catch (const SyntaxError&) {
        recover(std::string_view::npos);  // what stands in the colon's place may be the first statement
    }
    for (;;) {
        const size_t offset = peek().offset;
        try {
            read_metadata();
            if (at_end()) break;
            read_statement();
            if (next_place_) refuse_place("put this line right before a task, a loop, a wait or a region");
        } catch (const SyntaxError&) {
            next_place_.reset();
            recover(offset);
        }
    }
    finish();
}

void ProgramReader::read_head(const std::vector<std::string>& includes, std::string_view body) {
    for (const std::string& include : includes) program_.mutable_device()->add_include(include);
    if (!body.empty()) program_.mutable_device()->set_body(std::string(body));
    if (body.empty() && peek().is(Word::device)) {
        module_.source.device = place_of(next());
        if (peek().kind == TokenKind::string) {
            program_.mutable_device()->set_path(string_value(next()));
        } else {
            program_.mutable_device()->set_name(std::string(expect_identifier("a device name or file").text));
        }
    }
    if (peek().is(Word::program)) {
        next();
        program_.set_name(std::string(expect_identifier("a program name").text));
        expect(':', "after the program name");
    }
}

void ProgramReader::finish() {
    for (const OpenLoop& loop : loops_) {
        report(loop.start, "loop without endloop. Fix: close it with endloop");
        break;  // the outermost says it all
    }
    check_metadata();
    check_form();
    if (context_.errors == 0) use_places(module_);
    module_.data.resize(static_cast<size_t>(program_.data_size()));
}

/// Checks metadata lines about tensors, operations and data against the whole program.
void ProgramReader::check_form() {
    if (context_.errors > 0) return;
    try {
        if (whole_module_) {
            check_structure(program_, path_);
        } else {  // statements were checked when they were read
            check_host_side(program_, path_);
        }
    } catch (const UserError& error) {
        std::string_view message = error.what();
        if (message.substr(0, path_.size() + 2) == path_ + ": ") message.remove_prefix(path_.size() + 2);
        report_at(0, 1, std::string(message));
    }
}

void ProgramReader::declare(Token name, Kind kind, size_t index) {
    pending_name_.reset();
    const Symbol symbol{kind, static_cast<uint32_t>(index), false};
    // the tables of the program form know no blocks for these
    const bool global = kind == Kind::buffer || kind == Kind::constant || kind == Kind::param;
    const Symbol* first =
        global ? symbols_.declare_global(name.text, symbol) : symbols_.declare(name.text, symbol);
    if (first == nullptr || first->kind == Kind::poisoned) return;
    if (first->kind != kind) {
        report(name, fmt::format("name conflict - {} already declared as {}. Fix: rename one of them",
                                 name.text, name_of(first->kind)));
    } else {
        report(name, fmt::format("duplicate {} declaration {}. Fix: rename or remove it",
                                 kind == Kind::constant ? "constant" : name_of(kind), name.text));
    }
}

void ProgramReader::declare_pending() {
    if (pending_name_) symbols_.declare(pending_name_->text, {});
    pending_name_.reset();
}

proto::Statement& ProgramReader::add_statement(const Token& at) {
    module_.source.statements.push_back(place_of(at));
    proto::Statement& statement = *program_.add_statement();
    if (next_place_) {
        place_references_.push_back(*next_place_);
        statement.set_place(static_cast<uint32_t>(next_place_->index + 1));
        next_place_.reset();
    }
    return statement;
}

// ---- recovery

bool ProgramReader::at_statement() {
    const Token& token = peek();
    switch (token.word) {
        case Word::const_:
        case Word::buffer:
        case Word::let:
        case Word::loop:
        case Word::endloop:
            return true;
        case Word::wait:
            return token.line_start || peek(1).is('(');
        default:
            break;
    }
    if (token.is(';')) return true;
    if (token.kind != TokenKind::name || token.word != Word::none) return false;
    if (peek(1).is('=')) {
        if (token.text == "dst" || token.text == "src") return false;  // operands of a call that failed
        return peek(2).is(Word::region) || (peek(2).kind == TokenKind::name && peek(3).is('.'));
    }
    return peek(1).is('.') && (peek(2).is_name("async") || peek(2).is_name("sync"));
}

/// Skips to where a statement can start; `offset`: where the failed one began.
void ProgramReader::recover(size_t offset) {
    declare_pending();
    in_const_ = false;
    if (peek().offset == offset && !at_end()) next();
    while (!at_end() && !at_statement()) next();
}

// ---- statements

void ProgramReader::read_statement() {
    const Token token = peek();
    const bool named = token.kind == TokenKind::name && token.word == Word::none && peek(1).is('=');
    const bool is_task = token.word == Word::none && (named ? !peek(2).is(Word::region) : peek(1).is('.'));
    if (next_op_ && !is_task) {
        report_at(next_op_->line, next_op_->column,
                  "an operation was named, but no task follows. Fix: put this line "
                  "right before a transfer, store or compute task");
        next_op_.reset();
    }
    if (!next_carried_.empty() && !is_task) {
        report(next_carried_.front().name,
               "tokens of earlier iterations, but no task follows. Fix: put this line right before a "
               "transfer, store or compute task");
        next_carried_.clear();
    }
    switch (token.word) {
        case Word::const_:
            return read_const();
        case Word::buffer:
            return read_buffer();
        case Word::let:
            return read_let();
        case Word::loop:
            return read_loop();
        case Word::endloop:
            return read_endloop();
        case Word::wait:
            return read_wait();
        case Word::device:
        case Word::program:
        case Word::include:
            fail(token,
                 fmt::format("`{}` must stand before the first statement. Fix: move it to the top (include, "
                             "device, program, in this order)",
                             token.text));
        default:
            break;
    }
    if (accept(';')) return;
    if (token.is(Word::in))
        fail(token, "`in` without an opcode. Fix: the opcode before it ends with .async or .sync");
    if (token.kind != TokenKind::name || token.word != Word::none || (!named && !is_task))
        fail(token,
             fmt::format("expected a statement, found {}. Fix: start with const, buffer, let, loop, wait, a "
                         "transfer, a store or an opcode",
                         quoted(token)));
    if (is_task) return read_task();
    pending_name_ = next();
    next();
    read_region_declaration(token);
}

void ProgramReader::read_const() {
    const Token start = next();
    if (!loops_.empty())
        report(start,
               "const declaration not permitted inside loop body. Fix: move it before the loop or use let");
    const Token name = expect_identifier("a constant name");
    pending_name_ = name;
    expect('=', "after the constant name");
    in_const_ = true;
    const ExprCode code = parse_integer_expr("const declarations");
    in_const_ = false;
    declare(name, Kind::constant, constants_.size());
    constants_.push_back(fold_integer(code, constants_));
    proto::Constant& constant = *program_.add_constant();
    constant.set_name(std::string(name.text));
    store(code, *constant.mutable_value());
    module_.source.constants.push_back(place_of(name));
}

void ProgramReader::read_buffer() {
    next();
    const Token name = expect_identifier("a buffer name");
    pending_name_ = name;
    expect(':', "after the buffer name");
    auto& buffer = make<proto::Buffer>();
    buffer.set_name(std::string(name.text));
    if (!peek().is(Word::level)) fail_expected("DDR, L2 or L1");
    const Token level = next();
    buffer.set_level(level.text == "DDR" ? proto::DDR : level.text == "L2" ? proto::L2 : proto::L1);
    if (buffer.level() == proto::L1 && accept('[')) {
        read_expr(*buffer.mutable_engine(), "engine indices");
        expect(']', "after the engine index");
    }
    expect('(', "before the buffer's size");
    do {
        const Token key = peek();
        const bool is_size = key.is_name("size");
        if (!is_size && !key.is_name("align")) fail_expected("size or align");
        if (is_size ? buffer.has_size() : buffer.has_align())
            fail(key, fmt::format("second {} of buffer {}. Fix: remove one", key.text, name.text));
        next();
        expect('=', "after the buffer's property");
        if (is_size) {
            read_expr(*buffer.mutable_size(), "buffer sizes");
        } else {
            read_expr(*buffer.mutable_align(), "buffer alignments");
        }
    } while (accept(','));
    const Token end = peek();
    expect(')', "after the buffer's properties");
    if (!buffer.has_size())
        report(end, fmt::format("buffer {} has no size. Fix: add size = BYTES", name.text));
    read_decorators(buffer);
    if (!loops_.empty() && uses_loops(buffer))
        fail(name, fmt::format(
                       "buffer {} depends on a loop variable; buffers are placed before the program starts. "
                       "Fix: declare one buffer for all iterations and offset its regions",
                       name.text));
    declare(name, Kind::buffer, static_cast<size_t>(program_.buffer_size()));
    program_.mutable_buffer()->UnsafeArenaAddAllocated(&buffer);
    module_.source.buffers.push_back(place_of(name));
}

void ProgramReader::read_let() {
    next();
    const Token name = expect_identifier("a name");
    pending_name_ = name;
    expect('=', "after the name");
    if (peek().is(Word::region)) {
        read_region_declaration(name);
        return;
    }
    LetValue let;
    if (peek().kind == TokenKind::string || peek().is('[') || peek().is(Word::elem_type)) {
        read_value(let.other, false, false);
    } else {
        const ExprCode code = parse_expr();
        let.code.assign(code.begin(), code.end());
    }
    const Token at = peek();
    proto::Buffer unused;
    read_decorators(unused);
    if (unused.decorator_size() > 0)
        context_.diagnostics.warning(pos_of(at),
                                     fmt::format("decorators have no effect on the value {}. Fix: remove "
                                                 "them",
                                                 name.text));
    declare(name, Kind::value, lets_.size());
    lets_.push_back(std::move(let));
}

void ProgramReader::read_region_declaration(const Token& name) {
    const uint32_t index = read_region(std::string(name.text));
    read_decorators(*program_.mutable_region(static_cast<int>(index)));
    declare(name, Kind::region, index);
    add_statement(name).set_let_region(index);
}

void ProgramReader::read_loop() {
    const Token start = next();
    // Deeper loops than a program may have are still matched with their endloops; the first one too deep is
    // reported.
    if (loops_.size() == max_loop_depth)
        report(start, fmt::format("loops nested deeper than {}. Fix: merge loops", max_loop_depth));
    auto& loop = make<proto::Loop>();
    bool opened = false;
    try {
        read_loop_header(loop);
        opened = true;
    } catch (const SyntaxError&) {
        // The body and its endloop follow all the same: without the loop they would be errors of their own.
        in_const_ = false;
        while (!at_end() && !peek().is(':') && !at_statement()) next();
        accept(':');
    }
    symbols_.open_block();
    if (opened) {
        declare(*pending_name_, Kind::loop, loops_.size());
    } else {
        declare_pending();
    }
    loops_.push_back({static_cast<uint32_t>(program_.statement_size()), start});
    add_statement(start).unsafe_arena_set_allocated_loop(&loop);
}

void ProgramReader::read_loop_header(proto::Loop& loop) {
    const Token name = expect_identifier("a loop variable");
    pending_name_ = name;
    loop.set_variable(std::string(name.text));
    if (!peek().is(Word::in)) fail_expected("`in` after the loop variable");
    next();
    expect('[', "before the loop bounds");
    read_expr(*loop.mutable_first(), "loop bounds");
    if (peek().kind != TokenKind::dots) fail_expected("`..` between the loop bounds");
    next();
    read_expr(*loop.mutable_last(), "loop bounds");
    expect(']', "after the loop bounds");
    read_decorators(loop);
    expect(':', "before the loop body");
}

void ProgramReader::read_endloop() {
    const Token token = next();
    if (loops_.empty()) fail(token, "endloop without a loop. Fix: remove it");
    const auto index = static_cast<int>(loops_.back().statement);
    resolve_carried(loops_.back().statement);
    program_.mutable_statement(index)->mutable_loop()->set_body_end(
        static_cast<uint32_t>(program_.statement_size()));
    loops_.pop_back();
    symbols_.close_block();
}

/// True if the task that gives a token is the one being read, or comes after it in the same loop.
bool ProgramReader::comes_later(const Token& name) const {
    if (pending_name_ && pending_name_->text == name.text) return true;
    Lexer rest(lexer_.text().substr(name.offset));
    for (int depth = 0; rest.peek().kind != TokenKind::end; rest.skip()) {
        if (rest.peek().is(Word::loop)) ++depth;
        if (rest.peek().is(Word::endloop) && --depth < 0) return false;
        const bool task =
            rest.peek(1).is('=') && rest.peek(2).kind == TokenKind::name && rest.peek(3).is('.');
        if (rest.peek().is_name(name.text) && task) return true;
    }
    return false;
}

uint32_t ProgramReader::resolve_token(bool of_task) {
    const Token name = peek();
    if (name.kind != TokenKind::name || name.word != Word::none) fail_expected("a token name");
    next();
    const Symbol* symbol = symbols_.find(name.text);
    if (symbol == nullptr && of_task && !loops_.empty() && comes_later(name)) {
        const auto loop = static_cast<int>(loops_.back().statement);
        fail(name,
             fmt::format("unknown token `{0}`. Fix: declare it before its first use, or, for its task of an "
                         "earlier iteration, write `#! deps {0}[{1}-1]` on the line before this task",
                         name.text, program_.statement(loop).loop().variable()));
    }
    if (symbol == nullptr)
        fail(name,
             fmt::format("unknown token `{}`{}", name.text, symbols_.suggestion(name.text, {Kind::token})));
    if (symbol->kind == Kind::poisoned) throw SyntaxError{};
    if (symbol->kind != Kind::token)
        fail(name, fmt::format("`{}` is a {}, not a token{}", name.text, name_of(symbol->kind),
                               symbols_.suggestion(name.text, {Kind::token})));
    return symbol->index;
}

void ProgramReader::read_wait() {
    const Token start = next();
    expect('(', "after wait");
    auto& wait = make<proto::Wait>();
    do {
        wait.add_dep(resolve_token(false));
    } while (accept(','));
    expect(')', "after the tokens");
    const Token at = peek();
    proto::Buffer unused;
    read_decorators(unused);
    if (unused.decorator_size() > 0)
        context_.diagnostics.warning(pos_of(at), "decorators have no effect on wait. Fix: remove them");
    add_statement(start).unsafe_arena_set_allocated_wait(&wait);
}

}  // namespace kpu::nem
