#include "analysis/mend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

namespace kpu::analysis {
namespace {

constexpr int max_rounds = 64;

/// Returns a token name that the program does not use yet.
std::string new_name(const KPUProgram& program) {
    std::set<std::string> taken;
    for (const auto& constant : program.constant()) taken.insert(constant.name());
    for (const auto& param : program.param()) taken.insert(param.name());
    for (const auto& buffer : program.buffer()) taken.insert(buffer.name());
    for (const auto& region : program.region()) taken.insert(region.name());
    for (const auto& statement : program.statement()) {
        taken.insert(statement.task().name());
        taken.insert(statement.loop().variable());
    }
    for (int n = 1;; ++n) {
        std::string name = fmt::format("done{}", n);
        if (taken.count(name) == 0) return name;
    }
}

bool add_dependency(KPUProgram& program, const Fix& fix) {
    proto::Task& from = *program.mutable_statement(static_cast<int>(fix.from))->mutable_task();
    proto::Task& to = *program.mutable_statement(static_cast<int>(fix.to))->mutable_task();
    if (std::find(to.dep().begin(), to.dep().end(), fix.from) != to.dep().end()) return false;
    if (from.name().empty()) from.set_name(new_name(program));
    to.add_dep(fix.from);
    return true;
}

bool carry_token(KPUProgram& program, const Fix& fix) {
    proto::Task& from = *program.mutable_statement(static_cast<int>(fix.from))->mutable_task();
    proto::Task& to = *program.mutable_statement(static_cast<int>(fix.to))->mutable_task();
    const auto distance = static_cast<uint32_t>(fix.window);
    for (const proto::Carried& known : to.carried())
        if (known.task() == fix.from && known.loop() == fix.loop && known.distance() == distance)
            return false;
    if (from.name().empty()) from.set_name(new_name(program));
    proto::Carried& carried = *to.add_carried();
    carried.set_task(fix.from);
    carried.set_loop(fix.loop);
    carried.set_distance(distance);
    return true;
}

bool narrow_window(KPUProgram& program, const Fix& fix, uint64_t now) {
    if (fix.window >= now) return false;
    proto::Loop& loop = *program.mutable_statement(static_cast<int>(fix.to))->mutable_loop();
    for (proto::Decorator& decorator : *loop.mutable_decorator()) {
        if (decorator.name() != "max_in_flight" || decorator.arg_size() != 1) continue;
        proto::Expr& expr = *decorator.mutable_arg(0)->mutable_expr();
        expr.Clear();
        proto::ExprToken& token = *expr.add_token();
        token.set_kind(proto::ExprToken::INT);
        token.set_value(static_cast<int64_t>(fix.window));
        return true;
    }
    return false;
}

/// Makes the fixes of one report; the number of changes.
uint64_t apply(const ScheduleReport& report, const BoundProgram& program, KPUProgram& source) {
    uint64_t changes = 0;
    std::set<uint32_t> narrowed;
    for (const Finding& finding : report.findings) {
        if (finding.fix.kind == Fix::Kind::add_dependency) changes += add_dependency(source, finding.fix);
        if (finding.fix.kind == Fix::Kind::carry_token) changes += carry_token(source, finding.fix);
        if (finding.fix.kind != Fix::Kind::narrow_window) continue;
        uint64_t now = program.loops[program.statements[finding.fix.to].index].max_in_flight;
        for (const Finding& other : report.findings) {  // the narrowest that any asks for
            if (other.fix.kind == Fix::Kind::narrow_window && other.fix.to == finding.fix.to &&
                other.fix.window < finding.fix.window)
                now = 0;
        }
        if (narrowed.count(finding.fix.to) == 0 && narrow_window(source, finding.fix, now)) {
            narrowed.insert(finding.fix.to);
            ++changes;
        }
    }
    return changes;
}

}  // namespace

Mended mend(BoundProgram program, const ParamBindings& params, const DeviceLimits& limits) {
    Mended mended;
    mended.program = std::move(program);
    mended.module = mended.program.module;
    for (int round = 0;; ++round) {
        mended.left = check_schedule(mended.program, limits);
        if (round == max_rounds) return mended;
        auto next = std::make_shared<Module>(*mended.module);
        const uint64_t changes = apply(mended.left, mended.program, next->program);
        if (changes == 0) return mended;
        mended.changes += changes;
        mended.module = std::move(next);
        mended.program = kpu::bind(mended.module, params, limits);
    }
}

}  // namespace kpu::analysis
