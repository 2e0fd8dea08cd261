// Tasks: transfers, stores and compute calls, and where a call's attributes end.
#include <fmt/format.h>

#include <algorithm>

#include "isa/nem/program_reader.hpp"
#include "isa/opcodes.hpp"

namespace kpu::nem {
namespace {

using Kind = Symbol::Kind;

/// Decorators of a task; after the last operand they mean the task, not the operand.
bool is_task_decorator(std::string_view name) {
    for (const std::string_view known :
         {"resource", "deterministic", "debug", "profile", "memmove", "seq_engine"})
        if (known == name) return true;
    return false;
}

void lift_task_decorators(proto::Task& task) {
    auto& from = *task.mutable_output(task.output_size() - 1)->mutable_decorator();
    int kept = 0;
    for (int i = 0; i < from.size(); ++i) {
        if (is_task_decorator(from[i].name())) {
            task.add_decorator()->Swap(&from[i]);
        } else {
            from.SwapElements(kept++, i);
        }
    }
    from.DeleteSubrange(kept, from.size() - kept);
}

/// True for `_N`: how the printer names the token of statement N when it has no name.
bool is_number_name(std::string_view name, int statement) {
    return name[0] == '_' && name.substr(1) == std::to_string(statement);
}

constexpr int max_operands = 64;  ///< limits of the program form: inputs, outputs, attributes of a task

}  // namespace

void ProgramReader::read_task() {
    const Token start = peek();
    auto& task = make<proto::Task>();
    std::optional<Token> name;
    if (next_op_) {
        op_references_.push_back(*next_op_);
        task.set_op(static_cast<uint32_t>(next_op_->index + 1));
        next_op_.reset();
    }
    std::vector<CarriedToken> carried;
    carried.swap(next_carried_);
    if (peek(1).is('=')) {
        pending_name_ = name = next();
        next();
        // the printer's name for a task without one
        if (!is_number_name(name->text, program_.statement_size())) task.set_name(std::string(name->text));
        if (peek().is(Word::wait))
            fail(
                peek(),
                "wait produces no token. Fix: remove the name before it, and wait for the tasks' own tokens");
    }
    const Token call = expect_identifier("transfer, store or an opcode");
    if (call.text == "transfer" || call.text == "store") {
        read_transfer(task, call);
    } else {
        task.set_kind(proto::Task::COMPUTE);
        task.set_opcode(std::string(call.text));
        read_compute(task);
        if (task.opcode() == "compute") make_launch(task, call);
    }
    read_decorators(task);
    add_carried(carried, task);
    if (name) declare(*name, Kind::token, static_cast<size_t>(program_.statement_size()));
    add_statement(start).unsafe_arena_set_allocated_task(&task);
}

/// Reads the form after the dot: true for sync.
bool ProgramReader::read_form() {
    expect('.', "before async or sync");
    if (!peek().is_name("async") && !peek().is_name("sync")) fail_expected("async or sync");
    return next().text == "sync";
}

void ProgramReader::read_transfer(proto::Task& task, const Token& kind) {
    task.set_kind(kind.text == "store" ? proto::Task::STORE : proto::Task::TRANSFER);
    task.set_sync(read_form());
    expect('(', "before the operands");
    bool has_deps = false;
    do {
        const Token key = peek();
        const bool is_dst = key.is_name("dst"), is_src = key.is_name("src");
        if (!is_dst && !is_src && !key.is_name("deps")) fail_expected("dst, src or deps");
        if (is_dst ? task.output_size() > 0 : is_src ? task.input_size() > 0 : has_deps)
            fail(key, fmt::format("second {} of a {}. Fix: remove one", key.text, kind.text));
        next();
        expect('=', "after dst, src or deps");
        if (is_dst) {
            read_operand(*task.add_output());
        } else if (is_src) {
            read_operand(*task.add_input());
        } else {
            read_deps(task);
            has_deps = true;
        }
    } while (accept(','));
    const Token end = peek();
    expect(')', "after the operands");
    if (task.output_size() == 0 || task.input_size() == 0)
        fail(end, fmt::format("{} needs both dst and src. Fix: add {}=", kind.text,
                              task.output_size() == 0 ? "dst" : "src"));
}

void ProgramReader::read_deps(proto::Task& task) {
    expect('[', "before the tokens");
    do {
        task.add_dep(resolve_token(true));
    } while (accept(','));
    expect(']', "after the tokens");
}

void ProgramReader::read_compute(proto::Task& task) {
    // The opcode's own name may hold dots: gemm.acc.async
    while (peek().is('.') && peek(1).kind == TokenKind::name && !peek(1).is_name("async") &&
           !peek(1).is_name("sync")) {
        next();
        *task.mutable_opcode() += fmt::format(".{}", next().text);
    }
    if (!peek().is('.'))
        fail(peek(), fmt::format("expected .async or .sync after {}, found {}. Fix: write {}.async",
                                 task.opcode(), quoted(peek()), task.opcode()));
    task.set_sync(read_form());
    const bool launch = task.opcode() == "compute";  // a kernel may read nothing
    if (!launch || !peek().is(Word::out)) {
        if (!peek().is(Word::in)) fail_expected("`in` before the input operands");
        next();
        do {
            if (task.input_size() == max_operands) fail(peek(), "more than 64 inputs. Fix: split the task");
            read_operand(*task.add_input());
        } while (accept(','));
    }
    if (!peek().is(Word::out)) fail_expected("`out` before the output operands");
    next();
    do {
        if (task.output_size() == max_operands) fail(peek(), "more than 64 outputs. Fix: split the task");
        read_operand(*task.add_output());
    } while (accept(','));
    lift_task_decorators(task);
    read_attributes(task);
}

/// Line ends mean nothing, so `accum_type=i32 tR = relu.async ...` must be told apart: a dotted call or a
/// region after the `=` starts a statement, everything else is an attribute.
bool ProgramReader::attribute_follows() {
    if (peek().kind != TokenKind::name || !peek(1).is('=')) return false;
    const bool call = peek(2).kind == TokenKind::name && peek(3).is('.');
    return !call && !peek(2).is(Word::region) && !peek(2).is(Word::wait);
}

void ProgramReader::read_attributes(proto::Task& task) {
    const std::optional<OpcodeId> id = attribute_follows() ? find_opcode(task.opcode()) : std::nullopt;
    bool has_deps = false;
    while (attribute_follows()) {
        const Token name = next();
        next();
        const auto& known = task.attribute();
        const bool second = name.text == "deps"
                                ? has_deps
                                : std::any_of(known.begin(), known.end(), [&](const proto::Attribute& a) {
                                      return a.name() == name.text;
                                  });
        if (second) fail(name, fmt::format("second attribute {}. Fix: remove one", name.text));
        if (name.text == "deps") {
            read_deps(task);
            has_deps = true;
            continue;
        }
        bool word = false;
        if (id) {
            for (const AttrSpec& spec : opcode(*id).attributes) {
                word |= spec.name == name.text &&
                        (spec.kind == AttrKind::word || spec.kind == AttrKind::boolean ||
                         spec.kind == AttrKind::elem_type);
            }
        }
        if (task.attribute_size() == max_operands) fail(name, "more than 64 attributes. Fix: remove some");
        proto::Attribute& attribute = *task.add_attribute();
        attribute.set_name(std::string(name.text));
        read_value(*attribute.mutable_value(), word, false);
    }
}

/// Makes a launch of a kernel: compute.async ... op="saxpy" grid=[8, 1, 1] args=[n].
void ProgramReader::make_launch(proto::Task& task, const Token& call) {
    proto::Kernel& kernel = *task.mutable_kernel();
    for (const proto::Attribute& attribute : task.attribute()) {
        const proto::Value& value = attribute.value();
        const bool integers =
            value.has_list() && std::all_of(value.list().item().begin(), value.list().item().end(),
                                            [](const proto::Value& item) { return item.has_expr(); });
        if (attribute.name() == "op" && value.kind_case() == proto::Value::kText) {
            kernel.set_name(value.text());
        } else if (attribute.name() == "grid" && integers && value.list().item_size() <= 3) {
            for (const proto::Value& item : value.list().item()) *kernel.add_grid() = item.expr();
        } else if (attribute.name() == "args" && integers) {
            for (const proto::Value& item : value.list().item()) *kernel.add_scalar() = item.expr();
        } else {
            fail(call,
                 fmt::format(
                     "compute takes op=\"name\", grid=[x, y, z] and args=[...] of integers, not this `{}`. "
                     "Fix: leave it out or write it so",
                     attribute.name()));
        }
    }
    if (kernel.name().empty()) fail(call, "compute launches a kernel: which one? Fix: add op=\"name\"");
    task.clear_attribute();
    task.clear_opcode();
    task.set_kind(proto::Task::KERNEL);
}

}  // namespace kpu::nem
