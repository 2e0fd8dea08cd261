// Buffers, scopes and statements.
#include <fmt/format.h>

#include <algorithm>

#include "isa/kernel/analysis.hpp"
#include "isa/kernel/tile_code.hpp"

namespace kpu::kernel {

Analysis::Analysis(const Source& source, Diagnostics& diagnostics)
    : source_(source), body_(*source.body), diagnostics_(diagnostics), code_(std::make_shared<Code>()) {}

SourcePos Analysis::pos() const {
    if (in_head_ || current_ >= source_.statements.size())
        return {source_.path, source_.start.line, source_.start.column};
    const Place& place = source_.statements[current_];
    return {source_.path, place.line, place.column};
}

namespace {
std::string subject(const proto::KernelBody& body, bool in_head, uint32_t statement) {
    if (in_head) return fmt::format("kernel `{}`: ", body.name());
    return fmt::format("kernel `{}`, `{}`: ", body.name(),
                       statement_text(body.statement(static_cast<int>(statement))));
}
}  // namespace

void Analysis::error(std::string message) {
    ++errors_;
    diagnostics_.error(pos(), subject(body_, in_head_, current_) + std::move(message));
}

void Analysis::warning(std::string message) {
    diagnostics_.warning(pos(), subject(body_, in_head_, current_) + std::move(message));
}

std::shared_ptr<Code> Analysis::run() {
    code_->body = source_.body;
    code_->path = source_.path;
    code_->places = source_.statements;
    check_head();
    if (errors_ > 0) return nullptr;
    scopes_.push_back({static_cast<uint32_t>(body_.statement_size()), {}, false});
    add_buffers();
    check_workgroup_memory();
    in_head_ = false;
    for (uint32_t i = 0; i < static_cast<uint32_t>(body_.statement_size()); ++i) add_statement(i);
    return errors_ > 0 ? nullptr : code_;
}

void Analysis::check_head() {
    uint64_t invocations = 1;
    for (size_t axis = 0; axis < 3; ++axis) {
        const uint32_t size = body_.workgroup(static_cast<int>(axis));
        code_->workgroup[axis] = size;
        if (size == 0) return error("workgroup size contains zero. Fix: all dimensions must be >= 1.");
        if (invocations * size > UINT32_MAX)
            return error(
                "workgroup invocation count overflows u32. Fix: reduce workgroup dimensions before "
                "reference execution.");
        invocations *= size;
    }
    if (invocations > max_workgroup_invocations)
        error(fmt::format(
            "a workgroup of {} invocations, more than {}. Fix: make it smaller and the grid larger.",
            invocations, max_workgroup_invocations));
}

void Analysis::add_buffers() {
    for (int i = 0; i < body_.buffer_size(); ++i) {
        const auto at = static_cast<size_t>(i);
        const Place place = at < source_.buffers.size() ? source_.buffers[at] : Place{};
        add_buffer(body_.buffer(i), {source_.path, place.line, place.column});
    }
}

void Analysis::add_buffer(const proto::KernelBuffer& source, const SourcePos& at) {
    const auto report = [&](std::string message) {
        ++errors_;
        diagnostics_.error(at, subject(body_, true, 0) + std::move(message));
    };
    const Type type = *parse_type(source.type());
    const bool known = buffers_.count(source.name()) > 0 || visible_.count(source.name()) > 0;
    if (known)
        return report(fmt::format("duplicate buffer name `{}`. Fix: each buffer must have a unique name.",
                                  source.name()));
    if (source.access() == proto::KernelBuffer::SCALAR) {
        if (!contains(words, type) && type != Type::boolean)
            return report(
                fmt::format("scalar `{}` has type `{}`. Fix: use u32, i32, u64 or bool; launches bind "
                            "integers.",
                            source.name(), name_of(type)));
        visible_.emplace(source.name(), static_cast<uint32_t>(code_->variables.size()));
        code_->scalars.push_back(static_cast<uint32_t>(code_->variables.size()));
        code_->variables.push_back({source.name(), type, Variable::Kind::scalar});
        return;
    }
    if (contains(only_values, type))
        report(fmt::format(
            "buffer `{}` of `{}`, which memory does not hold. Fix: use i8 or u8, and cast what is loaded.",
            source.name(), name_of(type)));
    if (source.access() == proto::KernelBuffer::WORKGROUP && source.count() == 0)
        report(fmt::format("workgroup buffer `{}` has count 0. Fix: declare a positive element count.",
                           source.name()));
    if (source.range_end() < source.range_begin() ||
        (source.range_end() != 0 && source.access() != proto::KernelBuffer::OUTPUT))
        report(fmt::format(
            "byte range of `{}`: it ends before it begins, or `{}` is not an output. Fix: give outputs "
            "a range within their bytes.",
            source.name(), source.name()));
    buffers_.emplace(source.name(), static_cast<uint32_t>(code_->buffers.size()));
    code_->buffers.push_back({source.name(), source.access(), type, source.count(), source.range_begin(),
                              source.range_end(), false});
}

void Analysis::check_workgroup_memory() {
    if (code_->workgroup_bytes() > max_workgroup_bytes)
        error(fmt::format(
            "workgroup memory requires {} bytes, exceeding the 67108864-byte reference budget. Fix: "
            "reduce workgroup buffer counts.",
            code_->workgroup_bytes()));
}

void Analysis::close_scopes(uint32_t index) {
    const auto close = [&] {
        for (const std::string_view name : scopes_.back().names) visible_.erase(name);
        scopes_.pop_back();
    };
    while (scopes_.size() > 1 && scopes_.back().end == index) close();
}

void Analysis::add_statement(uint32_t index) {
    current_ = index;
    close_scopes(index);
    const proto::KernelStatement& source = body_.statement(static_cast<int>(index));
    CodeStatement statement;
    statement.kind = find_statement_kind(source.kind())->kind;
    if (scopes_.back().returned)
        error(
            "unreachable statements after `return`. Fix: remove statements after `return` or reorder them.");
    resolve(source, statement);
    const bool block = !statement_kind(statement.kind).end.empty();
    if (block) {
        statement.body_end = source.body_end();
        statement.else_begin = source.else_begin() != 0 ? source.else_begin() : source.body_end();
        // the then side is a scope within that of both sides, so that the else side has its own
        scopes_.push_back({source.body_end(), {}, false});
        if (source.else_begin() != 0) scopes_.push_back({source.else_begin(), {}, false});
    }
    if (statement.kind == Kind::loop) {
        std::string name = source.name();
        declare(name, Type::u32, Variable::Kind::loop, statement);
    }
    scopes_.back().returned |= statement.kind == Kind::return_;
    code_->statements.push_back(statement);
}

void Analysis::resolve(const proto::KernelStatement& source, CodeStatement& statement) {
    for (int i = 0; i < source.expression_size(); ++i)
        statement.expr[static_cast<size_t>(i)] = resolve_expression(source.expression(i), statement);
    switch (statement.kind) {
        case Kind::let:
            return declare(source.name(), type_of(statement.expr[0]), Variable::Kind::let, statement);
        case Kind::assign:
            return resolve_assign(source, statement);
        case Kind::store:
            return resolve_store(source, statement);
        case Kind::if_:
        case Kind::while_:
            return resolve_condition(source, statement);
        case Kind::loop:
            return resolve_loop(source, statement);
        case Kind::barrier:
            if (source.tag() == "relaxed")
                error(
                    "barrier uses memory ordering `Relaxed`, but barriers must synchronize memory. Fix: use "
                    "Acquire, Release, AcqRel, or SeqCst; use no barrier at all for Relaxed.");
            if (source.tag() == "grid")
                error(
                    "a barrier of the whole grid: workgroups run one after another. Fix: split the kernel "
                    "into "
                    "two launches.");
            return;
        case Kind::async_load:
        case Kind::async_store:
            return resolve_copy(source, statement);
        case Kind::async_wait:
            statement.tag = tag_of(source.tag());
            return;
        case Kind::trap:
            statement.tag = tag_of(source.tag());
            if (const Type type = type_of(statement.expr[0]); type != Type::none && !contains(computed, type))
                error(fmt::format(
                    "reference trap `{}` address is not a u32. Fix: pass a scalar u32 trap address.",
                    source.tag()));
            return;
        case Kind::block:
        case Kind::region:
        case Kind::return_:
            return;
        default:
            return refuse(source, statement.kind);
    }
}

/// Declares a name. There is no shadowing: a name that is visible cannot be bound again.
void Analysis::declare(const std::string& name, Type type, Variable::Kind kind, CodeStatement& statement) {
    const auto& own = scopes_.back().names;
    statement.variable = static_cast<uint32_t>(code_->variables.size());
    if (std::find(own.begin(), own.end(), name) != own.end())
        return error(
            fmt::format("duplicate sibling let binding `{}` in the same region. Fix: rename one binding or "
                        "move one declaration into an inner Block/Region/Loop if a new scope is intended.",
                        name));
    if (visible_.count(name) > 0)
        return error(
            fmt::format("duplicate local binding `{}` shadows an outer scope. Fix: choose a unique local "
                        "name.",
                        name));
    const std::string& kept = body_.statement(static_cast<int>(current_)).name();
    code_->variables.push_back({name, type, kind});
    scopes_.back().names.push_back(kept);
    visible_.emplace(kept, statement.variable);
}

void Analysis::resolve_assign(const proto::KernelStatement& source, CodeStatement& statement) {
    const auto found = variable_of(source.name());
    if (!found)
        return error(fmt::format(
            "assignment to undeclared variable `{}`. Fix: add a Let before assigning it.", source.name()));
    const Variable& variable = code_->variables[*found];
    if (variable.kind == Variable::Kind::loop)
        return error(fmt::format("assignment to loop variable `{}`. Fix: loop variables are immutable.",
                                 source.name()));
    if (variable.kind == Variable::Kind::scalar)
        return error(
            fmt::format("assignment to scalar `{}` of the launch. Fix: copy it with let.", source.name()));
    statement.variable = *found;
    const Type type = type_of(statement.expr[0]);
    if (type != Type::none && variable.type != Type::none && type != variable.type)
        error(fmt::format(
            "assignment to `{}` has type `{}` but the binding was declared as `{}`. Fix: cast the "
            "value to `{}` or introduce a new binding with the intended type.",
            source.name(), name_of(type), name_of(variable.type), name_of(variable.type)));
}

void Analysis::resolve_store(const proto::KernelStatement& source, CodeStatement& statement) {
    const auto found = buffer_of(source.name());
    if (!found)
        return error(
            fmt::format("store to unknown buffer `{}`. Fix: declare it in Program::buffers.", source.name()));
    CodeBuffer& buffer = code_->buffers[*found];
    buffer.direct = true;
    statement.buffer = *found;
    if (!buffer.writable())
        return error(
            fmt::format("store to non-writable buffer `{}`. Fix: declare it with BufferAccess::ReadWrite, "
                        "BufferAccess::WriteOnly, or BufferAccess::Workgroup.",
                        buffer.name));
    if (buffer.type == Type::bytes || buffer.type == Type::i4)
        return error(
            fmt::format("operation on buffer `{}` with element type `{}` is not supported. Fix: use a "
                        "typed buffer.",
                        buffer.name, name_of(buffer.type)));
    const Type index = type_of(statement.expr[0]);
    if (index != Type::none && index != Type::u32) {
        const CodeExpr& literal = at(statement.expr[0]);
        if (literal.op == Op::literal_i32 && static_cast<int32_t>(literal.bits) < 0)
            return error(
                fmt::format("store index {} cannot be represented as u32. Fix: use a non-negative scalar "
                            "index within u32.",
                            operand_text(statement.expr[0])));
        return error(
            fmt::format("Node::Store buffer `{}` index has type `{}` but must be `u32`. Fix: cast the index "
                        "to U32 before storing.",
                        buffer.name, name_of(index)));
    }
    if (index != Type::none && at(statement.expr[0]).op == Op::literal_u32 && buffer.count > 0 &&
        at(statement.expr[0]).bits >= buffer.count)
        error(fmt::format(
            "store index {} overflows buffer `{}` with count {}. Fix: keep constant store indices "
            "below the declared element count.",
            at(statement.expr[0]).bits, buffer.name, buffer.count));
    if (const Type value = type_of(statement.expr[1]); value != Type::none) check_stored_type(buffer, value);
}

void Analysis::check_stored_type(const CodeBuffer& buffer, Type value) {
    constexpr TypeSet integers = static_cast<TypeSet>(words | set_of(Type::boolean));
    TypeSet accepted = integers;
    if (buffer.type == Type::f32) accepted = set_of(Type::f32, Type::u32);
    if (buffer.type == Type::f16 || buffer.type == Type::bf16) accepted = 0;
    accepted = static_cast<TypeSet>(accepted | set_of(buffer.type));
    if (!contains(accepted, value))
        error(fmt::format("store of `{}` to buffer `{}` of `{}`. Fix: cast the value to one of {}.",
                          name_of(value), buffer.name, name_of(buffer.type), names_of(accepted)));
}

void Analysis::resolve_condition(const proto::KernelStatement&, CodeStatement& statement) {
    const Type type = type_of(statement.expr[0]);
    if (type != Type::none && type != Type::u32 && type != Type::boolean)
        error(fmt::format(
            "Node::{} condition has type `{}` but must be `u32` or `bool`. Fix: cast or rewrite the "
            "condition expression to produce `u32` or `bool`.",
            statement.kind == Kind::if_ ? "If" : "While", name_of(type)));
}

void Analysis::resolve_loop(const proto::KernelStatement&, CodeStatement& statement) {
    for (size_t i = 0; i < 2; ++i) {
        const Type type = type_of(statement.expr[i]);
        if (type == Type::none || type == Type::u32) continue;
        const std::string_view side = i == 0 ? "lower" : "upper", name = i == 0 ? "from" : "to";
        const CodeExpr& literal = at(statement.expr[i]);
        if (literal.op == Op::literal_i32 && static_cast<int32_t>(literal.bits) < 0)
            error(fmt::format(
                "loop {} bound {} cannot be represented as u32. Fix: use an in-range unsigned loop "
                "bound.",
                side, operand_text(statement.expr[i])));
        else
            error(fmt::format(
                "Node::Loop {}-bound has type `{}`; legal loop bound type is `u32`. Fix: cast the "
                "`{}` bound to `u32`.",
                name, name_of(type), name));
    }
}

uint32_t Analysis::copy_buffer(const std::string& name) {
    if (const auto found = buffer_of(name)) return *found;
    error(fmt::format("missing buffer declaration `{}`. Fix: declare every async transfer buffer.", name));
    return 0;
}

void Analysis::resolve_copy(const proto::KernelStatement& source, CodeStatement& statement) {
    const bool load = statement.kind == Kind::async_load;
    statement.tag = tag_of(source.tag());
    statement.buffer = copy_buffer(source.name());
    statement.other = copy_buffer(source.other());
    for (size_t i = 0; i < 2; ++i) {
        const Type type = type_of(statement.expr[i]);
        if (type == Type::none) continue;
        const std::string_view label = load
                                           ? (i == 0 ? "async load source offset" : "async load size")
                                           : (i == 0 ? "async store destination offset" : "async store size");
        const CodeExpr& value = at(statement.expr[i]);
        const bool negative = value.op == Op::literal_i32 && static_cast<int32_t>(value.bits) < 0;
        if (!contains(words, type) || negative)
            error(fmt::format(
                "{} cannot be represented as u64. Fix: use an in-range non-negative byte count.", label));
        else if (value.op == Op::literal_u64 && value.bits > max_copy_bytes)
            error(fmt::format("{} exceeds host usize. Fix: reduce the async transfer span.", label));
    }
    if (statement.other < code_->buffers.size() && !code_->buffers[statement.other].writable())
        error(fmt::format(
            "store target `{}` is not writable. Fix: declare it ReadWrite, WriteOnly, or Workgroup.",
            source.other()));
}

uint32_t Analysis::tag_of(const std::string& tag) {
    if (tag.empty())
        error(
            "async stream tag is empty. Fix: use a stable non-empty tag to pair AsyncLoad and AsyncWait "
            "nodes.");
    const auto found = std::find(code_->tags.begin(), code_->tags.end(), tag);
    if (found == code_->tags.end()) code_->tags.push_back(tag);
    return static_cast<uint32_t>(std::find(code_->tags.begin(), code_->tags.end(), tag) -
                                 code_->tags.begin());
}

/// Refuses a statement that the language knows and nobody executes.
void Analysis::refuse(const proto::KernelStatement& s, Kind kind) {
    constexpr std::string_view collective =
        "Fix: run this Program on a distributed backend with collective support or lower the single-rank "
        "collective before reference execution.";
    switch (kind) {
        case Kind::resume:
            return error(
                fmt::format("reference dispatch reached Resume `{}` without a replay runtime. Fix: lower "
                            "Resume through a runtime-owned replay path before reference execution.",
                            s.tag()));
        case Kind::all_reduce:
            return error(fmt::format("reference dispatch reached AllReduce on buffer `{}` for group {}. {}",
                                     s.name(), s.number(), collective));
        case Kind::all_gather:
        case Kind::reduce_scatter:
            return error(fmt::format("reference dispatch reached {} `{}` -> `{}` for group {}. {}",
                                     kind == Kind::all_gather ? "AllGather" : "ReduceScatter", s.name(),
                                     s.other(), s.number(), collective));
        case Kind::broadcast:
            return error(fmt::format(
                "reference dispatch reached Broadcast on buffer `{}` from root {} for group {}. {}", s.name(),
                s.root(), s.number(), collective));
        case Kind::indirect_dispatch:
            return refuse_dispatch(s);
        case Kind::opaque:
            return error(
                fmt::format("reference interpreter does not support opaque node extension `{}`/`{}`. Fix: "
                            "provide a reference evaluator for this NodeExtension or lower it to core Node "
                            "variants before evaluation.",
                            s.tag(), s.other()));
        case Kind::line:
        case Kind::forget:
        case Kind::masked_store:
            return error(fmt::format("`{}` belongs to rule set xla. Fix: leave it out.", s.kind()));
        default:
            return error("semaphores belong to rule set xla. Fix: use barrier, or async_wait.");
    }
}

void Analysis::refuse_dispatch(const proto::KernelStatement& s) {
    const uint64_t offset = s.number();
    const auto found = buffer_of(s.name());
    if (offset % 4 != 0)
        return error(
            fmt::format("indirect dispatch offset {} is not 4-byte aligned. Fix: use a u32-aligned dispatch "
                        "tuple.",
                        offset));
    if (!found)
        return error(
            fmt::format("indirect dispatch references unknown buffer `{}`. Fix: declare the count buffer "
                        "before execution.",
                        s.name()));
    if (offset > UINT64_MAX - 12)
        return error("indirect dispatch byte range overflowed u64. Fix: shrink the count offset.");
    const CodeBuffer& buffer = code_->buffers[*found];
    if (buffer.count > 0 && uint64_t{buffer.count} * storage_bits(buffer.type) / 8 < offset + 12)
        return error(
            fmt::format("indirect dispatch buffer `{}` is too short for a 3-word dispatch tuple at byte "
                        "offset {}. Fix: provide 12 readable bytes starting at that offset.",
                        s.name(), offset));
    error(fmt::format(
        "Node::IndirectDispatch cannot execute in the sequential reference interpreter because dynamic "
        "indirect dispatch requires runtime queue scheduling. Fix: run this program on a "
        "backend/runtime that supports indirect dispatch or lower `{}` at byte offset {} to a static "
        "workgroup grid before reference execution.",
        s.name(), offset));
}

std::shared_ptr<const Code> analyse(const Source& source, Diagnostics& diagnostics) {
    if (source.body->rules() == "xla") return analyse_tiles(source, diagnostics);
    const std::shared_ptr<Code> code = Analysis(source, diagnostics).run();
    if (code == nullptr) return nullptr;
    Diagnostics flow;
    analyse_flow(*code, source, flow);
    for (const Diagnostic& found : flow.all()) diagnostics.add(found);
    return flow.has_errors() ? nullptr : code;
}

}  // namespace kpu::kernel
