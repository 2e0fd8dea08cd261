// Loops, tasks and waits: attributes, units, placement, and the operation each task is charged to.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.hpp"
#include "isa/binder.hpp"

namespace kpu {
namespace {

std::string_view kind_name(AttrKind kind) {
    switch (kind) {
        case AttrKind::integer:
            return "an integer";
        case AttrKind::real:
            return "a number";
        case AttrKind::boolean:
            return "true or false";
        case AttrKind::elem_type:
            return "an element type";
        case AttrKind::ints:
            return "a list of integers";
        case AttrKind::reals:
            return "a list of numbers";
        case AttrKind::text:
            return "a string";
        case AttrKind::word:
            return "a word";
    }
    return "a value";
}

std::string_view example_of(AttrKind kind) {
    switch (kind) {
        case AttrKind::integer:
            return "1";
        case AttrKind::real:
            return "0.5";
        case AttrKind::boolean:
            return "true";
        case AttrKind::elem_type:
            return "f32";
        case AttrKind::ints:
            return "[1, 1]";
        case AttrKind::reals:
            return "[0.5, 2]";
        case AttrKind::text:
            return "\"text\"";
        case AttrKind::word:
            return "word";
    }
    return "value";
}

/// Returns a default of the opcode table; integers and numbers are all it holds.
BoundAttr default_of(const AttrSpec& spec) {
    BoundAttr attr;
    attr.name = spec.name;
    const std::string_view text = spec.default_text;
    std::from_chars(text.data(), text.data() + text.size(), attr.integer);
    std::from_chars(text.data(), text.data() + text.size(), attr.real);
    attr.text = text;
    if (spec.kind == AttrKind::boolean) attr.integer = text == "true" ? 1 : 0;
    return attr;
}

template <class Decorators>
bool has_decorator(const Decorators& decorators, std::string_view name) {
    return std::any_of(decorators.begin(), decorators.end(),
                       [&](const proto::Decorator& d) { return d.name() == name; });
}

/// Returns the argument of @profile; empty without one.
template <class Decorators>
std::string profile_tag(const Decorators& decorators) {
    for (const proto::Decorator& decorator : decorators) {
        if (decorator.name() != "profile" || decorator.arg_size() == 0) continue;
        return decorator.arg(0).word().empty() ? decorator.arg(0).text() : decorator.arg(0).word();
    }
    return {};
}

/// True if a unit of this kind can execute a task whose own kind is another.
bool can_execute(UnitKind kind, const BoundTask& task) {
    if (kind == task.unit) return true;
    if (task.stores()) return row_of(kind).stores;
    if (task.launches()) return kpu::computes(kind) && row_of(kind).opcodes == row_of(task.unit).opcodes;
    return task.computes() && kpu::computes(kind) && row_of(kind).opcodes == row_of(task.unit).opcodes;
}

std::string_view operation_name(const proto::Task& task) {
    switch (task.kind()) {
        case proto::Task::TRANSFER:
            return "transfer";
        case proto::Task::STORE:
            return "store";
        case proto::Task::KERNEL:
            return task.kernel().name();
        default:
            return task.opcode();
    }
}

}  // namespace

bool Binder::bind_statements() {
    const size_t before = diagnostics_.error_count();
    bind_kernels();
    for (const proto::Op& op : program_.op()) {
        result_.ops.push_back({op.id(),
                               op.op_type(),
                               op.estimated_cycles(),
                               op.estimated_energy_pj(),
                               {},
                               op.bound(),
                               op.bound_cycles()});
        op_ids_.insert(op.id());
    }
    const auto count = static_cast<size_t>(program_.statement_size());
    result_.ops.reserve(result_.ops.size() + count);
    op_ids_.reserve(result_.ops.size() + count);
    result_.statements.reserve(count);
    result_.tasks.reserve(count);
    result_.carries_places = program_.place_size() > 0;
    for (size_t i = 0; i < count; ++i) {
        BoundStatement& statement = result_.statements.emplace_back();
        statement.parent = nesting_.parent[i];
        const proto::Statement& source = program_.statement(static_cast<int>(i));
        if (source.has_loop()) {
            statement.kind = BoundStatement::Kind::loop;
            statement.index = static_cast<uint32_t>(result_.loops.size());
            bind_loop(i);
        } else if (source.has_task()) {
            statement.kind = BoundStatement::Kind::task;
            statement.index = static_cast<uint32_t>(result_.tasks.size());
            bind_task(i);
        } else if (source.has_wait()) {
            statement.kind = BoundStatement::Kind::wait;
            statement.index = static_cast<uint32_t>(result_.waits.size());
            result_.waits.emplace_back(source.wait().dep().begin(), source.wait().dep().end());
        }
    }
    return diagnostics_.error_count() == before;
}

void Binder::bind_loop(size_t index) {
    const proto::Loop& source = program_.statement(static_cast<int>(index)).loop();
    const SourcePos pos = module_.pos_of_statement(index);
    BoundLoop& loop = result_.loops.emplace_back();
    loop.variable = source.variable();
    loop.body_end = source.body_end();
    loop.depth = nesting_.depth[index];
    const Phrase what{"loop", source.variable(), "bounds of "};
    if (!expr_of(source.first(), pos, what, loop.first) || !expr_of(source.last(), pos, what, loop.last))
        return;
    for (const proto::Decorator& decorator : source.decorator()) {
        if (decorator.name() != "max_in_flight") continue;
        int64_t window = 0;
        if (decorator.arg_size() != 1 || !decorator.arg(0).has_expr()) {
            error(pos, "@max_in_flight takes one integer. Fix: write @max_in_flight(2).");
        } else if (constant_of(decorator.arg(0).expr(), pos, {"@max_in_flight", {}, {}}, window)) {
            if (window < 1) {
                error(pos, fmt::format("@max_in_flight({}) is below 1. Fix: allow at least one iteration.",
                                       window));
            }
            loop.max_in_flight = static_cast<uint64_t>(std::max<int64_t>(window, 1));
        }
    }
}

void Binder::bind_task(size_t index) {
    const proto::Task& source = program_.statement(static_cast<int>(index)).task();
    const SourcePos pos = module_.pos_of_statement(index);
    BoundTask task;
    task.kind = source.kind();
    task.sync = source.sync();
    task.memmove = has_decorator(source.decorator(), "memmove");
    // lines of another compiler's source are shared by the tasks that it made of them
    const bool own_line = pos.line > 0 && program_.statement(static_cast<int>(index)).place() == 0;
    task.name = !source.name().empty() ? source.name()
                : own_line             ? fmt::format("{}@{}", operation_name(source), pos.line)
                                       : fmt::format("{}#{}", operation_name(source), index);
    task.inputs.reserve(static_cast<size_t>(source.input_size()));
    task.outputs.reserve(static_cast<size_t>(source.output_size()));
    for (const proto::Operand& operand : source.input()) task.inputs.push_back(operand.region());
    for (const proto::Operand& operand : source.output()) {
        task.outputs.push_back(operand.region());
        if (has_decorator(operand.decorator(), "materialized") ||
            result_.regions[operand.region()].materialized) {
            task.materialized.push_back(operand.region());
        }
    }
    task.deps.assign(source.dep().begin(), source.dep().end());
    for (const proto::Carried& carried : source.carried())
        task.carried.push_back({carried.task(), carried.loop(), carried.distance()});
    bool known = true;
    if (task.computes()) {
        const std::optional<OpcodeId> id = find_opcode(source.opcode());
        known = id && !opcode(*id).movement;
        if (known) {
            task.opcode = *id;
            task.unit = opcode(*id).unit;
            bind_attributes(source, task, pos);
            normalise_axis(task);
        } else {
            const std::string where =
                own_line ? std::string() : fmt::format(" of task `{}` (statement {})", task.name, index);
            error(pos, fmt::format("unknown opcode `{}`{}. Fix: did you mean `{}`?", source.opcode(), where,
                                   nearest_opcode(source.opcode())));
        }
    } else if (task.launches()) {
        known = bind_launch(source, task, pos);
    } else {
        bind_transfer(task);
    }
    if (known) {
        place(source, task, pos);
        count_work(task);
    }
    task.profile = profile_of(source, index);
    task.op = op_of(source, task, index);
    result_.tasks.push_back(std::move(task));
}

void Binder::bind_transfer(BoundTask& task) {
    if (task.stores()) {
        task.unit = limits_.store_on_dma ? UnitKind::dma : UnitKind::cstl;
        return;
    }
    const Level from = result_.regions[task.inputs[0]].level, to = result_.regions[task.outputs[0]].level;
    const bool ddr = (from == Level::ddr) != (to == Level::ddr);
    task.unit = ddr ? UnitKind::sdma : UnitKind::dma;
    if (ddr && (from == Level::l1 || to == Level::l1)) task.partner = UnitKind::dma;
}

void Binder::bind_attributes(const proto::Task& source, BoundTask& task, const SourcePos& pos) {
    const OpcodeSpec& spec = opcode(task.opcode);
    std::vector<std::string_view> names;
    for (const AttrSpec& attr : spec.attributes) names.push_back(attr.name);
    for (const proto::Attribute& attribute : source.attribute()) {
        const auto it = std::find(names.begin(), names.end(), attribute.name());
        if (it == names.end()) {
            error(pos, names.empty()
                           ? fmt::format("{} has no attributes; `{}` is not one. Fix: leave it out.",
                                         spec.name, attribute.name())
                           : fmt::format("{} has no attribute `{}`. Fix: did you mean `{}`?", spec.name,
                                         attribute.name(), nearest_name(attribute.name(), names)));
            continue;
        }
        if (task.attrs.find(attribute.name()) != nullptr) {
            error(pos, fmt::format("attribute `{}` is given twice. Fix: give it once.", attribute.name()));
            continue;
        }
        const AttrSpec& expected = spec.attributes[static_cast<size_t>(it - names.begin())];
        BoundAttr attr;
        attr.name = attribute.name();
        if (!bind_attribute(expected, attribute.value(), attr, pos)) {
            error(pos, fmt::format("attribute `{}` of {} must be {}. Fix: write {}={}.", attr.name, spec.name,
                                   kind_name(expected.kind), attr.name, example_of(expected.kind)));
        }
        task.attrs.list.push_back(std::move(attr));
    }
    for (const AttrSpec& attr : spec.attributes) {
        if (task.attrs.find(attr.name) != nullptr) continue;
        if (attr.required) {
            error(pos, fmt::format("{} is required: {} needs this attribute. Fix: add {}=..., {}.", attr.name,
                                   spec.name, attr.name, attr.meaning));
        } else if (!attr.default_text.empty()) {
            task.attrs.list.push_back(default_of(attr));
        }
    }
}

/// Makes a negative axis count from the last dimension of the first input; one outside is refused later.
void Binder::normalise_axis(BoundTask& task) const {
    if (task.inputs.empty()) return;
    const int64_t rank = result_.regions[task.inputs[0]].shape.rank;
    for (BoundAttr& attr : task.attrs.list) {
        if (attr.name == "axis" && attr.integer < 0 && attr.integer >= -rank) attr.integer += rank;
    }
}

/// Binds a float, or an integer expression.
bool Binder::bind_number(const proto::Value& value, const Phrase& what, BoundAttr& out,
                         const SourcePos& pos) {
    out.real = value.real();
    if (value.has_expr()) {
        if (!constant_of(value.expr(), pos, what, out.integer)) return false;
        out.real = static_cast<double>(out.integer);
    }
    return (value.has_expr() || value.kind_case() == proto::Value::kReal) && std::isfinite(out.real);
}

bool Binder::bind_attribute(const AttrSpec& spec, const proto::Value& value, BoundAttr& out,
                            const SourcePos& pos) {
    const Phrase what{"attribute", spec.name, {}};
    switch (spec.kind) {
        case AttrKind::integer:
            return value.has_expr() && constant_of(value.expr(), pos, what, out.integer);
        case AttrKind::real:
            return bind_number(value, what, out, pos);
        case AttrKind::boolean:
            if (value.has_expr() && !constant_of(value.expr(), pos, what, out.integer)) return false;
            if (!value.has_expr()) out.integer = value.word() == "true" ? 1 : 0;
            return (value.has_expr() && (out.integer == 0 || out.integer == 1)) || value.word() == "true" ||
                   value.word() == "false";
        case AttrKind::elem_type:
            out.text = value.word();
            out.type = parse_elem_type(value.word()).value_or(ElemType::none);
            return out.type != ElemType::none;
        case AttrKind::ints:
            if (!value.has_list()) return false;
            for (const proto::Value& item : value.list().item()) {
                int64_t number = 0;
                if (!item.has_expr() || !constant_of(item.expr(), pos, what, number)) return false;
                out.ints.push_back(number);
            }
            return true;
        case AttrKind::reals:
            if (!value.has_list()) return false;
            for (const proto::Value& item : value.list().item()) {
                if (!bind_number(item, what, out, pos)) return false;
                out.reals.push_back(out.real);
            }
            return true;
        case AttrKind::text:
            out.text = value.text();
            return value.kind_case() == proto::Value::kText;
        case AttrKind::word:
            out.text = value.word();
            return value.kind_case() == proto::Value::kWord;
    }
    return false;
}

/// Places a task: the engine follows from L1 operands; decorators pin instance and token table.
void Binder::place(const proto::Task& source, BoundTask& task, const SourcePos& pos) {
    for (const std::vector<uint32_t>* operands : {&task.inputs, &task.outputs}) {
        for (const uint32_t index : *operands) {
            const BoundRegion& region = result_.regions[index];
            if (region.level != Level::l1) continue;
            if (task.engine >= 0 && task.engine != region.engine) {
                error(pos,
                      fmt::format(
                          "task `{}` touches L1[{}] and L1[{}]; a task runs on one engine. Fix: move data "
                          "through L2.",
                          task.name, task.engine, region.engine));
                return;
            }
            task.engine = region.engine;
        }
    }
    for (const proto::Decorator& decorator : source.decorator()) {
        if (decorator.name() == "resource") bind_resource(decorator, task, pos);
        if (decorator.name() == "seq_engine") bind_seq_engine(decorator, task, pos);
    }
}

void Binder::bind_resource(const proto::Decorator& decorator, BoundTask& task, const SourcePos& pos) {
    const std::optional<UnitKind> unit = parse_unit_kind(decorator.unit());
    if (unit && !row_of(*unit).resource) {
        return error(pos, fmt::format("{} is not a valid @resource target. Fix: name {}.", decorator.unit(),
                                      names_of_units([](const UnitKindRow& row) { return row.resource; },
                                                     ", ", " or ")));
    }
    int64_t instance = 0;
    if (!unit || !decorator.has_index()) {
        return error(pos, "@resource takes a unit and an instance. Fix: write @resource(CSTL[0]).");
    }
    BoundExpr index;
    if (!expr_of(decorator.index(), pos, {"@resource", {}, {}}, index)) return;
    const bool varies = !index.is_constant();
    if (!varies) instance = index.constant;
    if (instance < 0)
        return error(pos, fmt::format("@resource({}[{}]) is negative. Fix: count from 0.", decorator.unit(),
                                      instance));
    const uint32_t count = limits_.count(*unit);
    if (!can_execute(*unit, task) || (!limits_.agnostic && count == 0)) {  // another type, if there is one
        const std::string shown = varies ? std::string("...") : fmt::format("{}", instance);
        diagnostics_.info(
            pos, fmt::format("@resource({}[{}]): {}; task `{}` goes to {} instead.", decorator.unit(), shown,
                             can_execute(*unit, task)
                                 ? fmt::format("`{}` has no {}", limits_.name, decorator.unit())
                                 : fmt::format("a {} cannot execute it", decorator.unit()),
                             task.name, name_of(task.unit)));
        return;
    }
    task.unit = *unit;
    if (varies) {
        task.instance_by_loops = std::move(index);
    } else if (limits_.agnostic || instance < count) {
        task.instance = static_cast<int32_t>(std::min<int64_t>(instance, INT32_MAX));
    } else {
        diagnostics_.info(pos,
                          fmt::format("@resource({}[{}]): an engine has {} of them; task `{}` may use any.",
                                      decorator.unit(), instance, count, task.name));
    }
}

void Binder::bind_seq_engine(const proto::Decorator& decorator, BoundTask& task, const SourcePos& pos) {
    int64_t engine = 0;
    if (decorator.arg_size() != 1 || !decorator.arg(0).has_expr()) {
        return error(pos, "@seq_engine takes one integer. Fix: write @seq_engine(0).");
    }
    if (!constant_of(decorator.arg(0).expr(), pos, {"@seq_engine", {}, {}}, engine)) return;
    const int64_t engines = limits_.agnostic ? 1024 : limits_.num_engines;
    if (engine < 0 || engine >= engines || (task.engine >= 0 && task.engine != engine)) {
        return error(
            pos, fmt::format("@seq_engine({}) does not fit task `{}`: {}. Fix: name another engine.", engine,
                             task.name,
                             task.engine >= 0 ? fmt::format("its operands are in L1[{}]", task.engine)
                                              : fmt::format("the device has {} engines", engines)));
    }
    task.token_engine = static_cast<int32_t>(engine);
    if (row_of(task.unit).per_engine) task.engine = static_cast<int32_t>(engine);
}

void Binder::count_work(BoundTask& task) const {
    if (task.outputs.empty()) return;
    const BoundRegion& out = result_.regions[task.outputs[0]];
    task.elements = out.typed() ? static_cast<uint64_t>(out.shape.product()) : out.extent;
    if (!task.computes() || task.inputs.size() < 2) return;
    const Dims& first = result_.regions[task.inputs[0]].shape;
    const Dims& second = result_.regions[task.inputs[1]].shape;
    if (const MacRule macs = opcode(task.opcode).macs)
        task.macs = macs(first, second, task.elements, task.attrs);
}

/// Returns the task's own tag, else that of the innermost loop around it that has one.
std::string Binder::profile_of(const proto::Task& source, size_t index) const {
    std::string tag = profile_tag(source.decorator());
    for (int32_t loop = nesting_.parent[index]; tag.empty() && loop >= 0;
         loop = nesting_.parent[static_cast<size_t>(loop)]) {
        tag = profile_tag(program_.statement(loop).loop().decorator());
    }
    return tag;
}

void Binder::add_profile(BoundOp& op, const std::string& tag) {
    if (tag.empty() || ("|" + op.profile + "|").find("|" + tag + "|") != std::string::npos) return;
    op.profile += (op.profile.empty() ? "" : "|") + tag;
}

uint32_t Binder::op_of(const proto::Task& source, const BoundTask& task, size_t index) {
    if (source.op() > 0) {
        add_profile(result_.ops[source.op() - 1], task.profile);
        return source.op() - 1;
    }
    std::string id = task.name;
    if (!op_ids_.insert(id).second) {  // two tasks on one line, or a token named like an op
        id += "#" + std::to_string(index);
        op_ids_.insert(id);
    }
    result_.ops.push_back({std::move(id), std::string(operation_name(source)), 0, 0, task.profile, {}, 0});
    return static_cast<uint32_t>(result_.ops.size() - 1);
}

}  // namespace kpu
