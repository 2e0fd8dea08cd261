#include "isa/bound_program.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "isa/expr.hpp"
#include "isa/iterations.hpp"

namespace kpu {

bool Dims::operator==(const Dims& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
}

SourcePos BoundProgram::pos_of(size_t statement) const {
    if (!module || statement >= module->source.statements.size()) return {};
    return module->pos_of_statement(statement);
}

std::string BoundProgram::where(const BoundTask& task) const {
    const bool of_network = task.op < ops.size() && !ops[task.op].type.empty();
    return fmt::format(
        "program `{}`, {}task `{}`{}", name,
        of_network ? fmt::format("operation `{}` ({}), ", ops[task.op].id, ops[task.op].type) : std::string(),
        task.name, place_text(*this, task));
}

void LoopValues::push(int64_t value) {
    if (depth < inline_values.size()) {
        inline_values[depth] = value;
    } else {
        overflow.push_back(value);
    }
    ++depth;
}

int64_t BoundExpr::eval(const LoopValues& loops) const {
    if (kinds.empty()) return constant;
    std::array<int64_t, max_expr_stack> stack;
    size_t top = 0;
    for (size_t i = 0; i < kinds.size(); ++i) {
        switch (kinds[i]) {
            case proto::ExprToken::INT:
                stack[top++] = values[i];
                break;
            case proto::ExprToken::LOOP:
                stack[top++] = loops[static_cast<size_t>(values[i])];
                break;
            case proto::ExprToken::NEG:
                stack[top - 1] = apply_operator(kinds[i], 0, stack[top - 1]);
                break;
            default:
                --top;
                stack[top - 1] = apply_operator(kinds[i], stack[top - 1], stack[top]);
        }
    }
    return stack[0];
}

int32_t BoundTask::instance_in(const LoopValues& loops) const {
    if (instance_by_loops.is_constant()) return instance;
    const int64_t value = instance_by_loops.eval(loops);
    if (value < 0)
        throw UserError(
            fmt::format("@resource({}[{}]) is negative. Fix: count from 0.", name_of(unit), value));
    return static_cast<int32_t>(std::min<int64_t>(value, INT32_MAX));
}

std::string_view operation_of(const BoundTask& task) {
    if (task.computes()) return opcode(task.opcode).name;
    if (task.launches()) return task.launch->code->name();
    return task.stores() ? "store" : "transfer";
}

const BoundAttr* BoundAttrs::find(std::string_view name) const {
    const auto it =
        std::find_if(list.begin(), list.end(), [&](const BoundAttr& a) { return a.name == name; });
    return it == list.end() ? nullptr : &*it;
}

int64_t BoundAttrs::integer(std::string_view name, int64_t fallback) const {
    const BoundAttr* attr = find(name);
    return attr != nullptr ? attr->integer : fallback;
}

std::string_view BoundAttrs::word(std::string_view name, std::string_view fallback) const {
    const BoundAttr* attr = find(name);
    return attr == nullptr ? fallback : attr->text;
}

double BoundAttrs::real(std::string_view name, double fallback) const {
    const BoundAttr* attr = find(name);
    return attr != nullptr ? attr->real : fallback;
}

}  // namespace kpu
