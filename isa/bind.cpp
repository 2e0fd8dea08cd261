#include <fmt/format.h>

#include "isa/binder.hpp"
#include "isa/container.hpp"
#include "isa/expr.hpp"

namespace kpu {

std::string Phrase::text() const {
    std::string text(property);
    text += kind;
    if (!name.empty()) text += fmt::format(" `{}`", name);
    return text;
}

Binder::Binder(const Module& module, const DeviceLimits& limits, Diagnostics& diagnostics)
    : module_(module),
      program_(module.program),
      limits_(limits),
      diagnostics_(diagnostics),
      nesting_(nesting_of(module.program)) {
    result_.name = program_.name();
}

bool Binder::bind_values(const ParamBindings& params) {
    try {
        params_ = bind_params(program_, params);
    } catch (const UserError& e) {
        error({module_.origin, 0, 0}, e.what());
        return false;
    }
    try {
        constants_ = eval_constants(module_);
    } catch (const UserError& e) {
        for (const Diagnostic& diagnostic : e.diagnostics().all()) diagnostics_.add(diagnostic);
        return false;
    }
    return true;
}

bool Binder::expr_of(const proto::Expr& expr, const SourcePos& pos, const Phrase& what, BoundExpr& value) {
    try {
        value = compile_expr(expr, constants_, params_);
        return true;
    } catch (const UserError& e) {
        error(pos, fmt::format("{}: {}", what, e.what()));
        return false;
    }
}

bool Binder::constant_of(const proto::Expr& expr, const SourcePos& pos, const Phrase& what, int64_t& value) {
    BoundExpr bound;
    if (!expr_of(expr, pos, what, bound)) return false;
    if (!bound.is_constant()) {
        error(pos,
              fmt::format("{} must not depend on a loop variable. Fix: use constants and parameters.", what));
        return false;
    }
    value = bound.constant;
    return true;
}

BoundProgram bind(std::shared_ptr<const Module> module, const ParamBindings& params,
                  const DeviceLimits& limits) {
    check_form(module->program, module->origin);
    Diagnostics diagnostics;
    Binder binder(*module, limits, diagnostics);
    const bool bound = binder.bind_values(params) && binder.bind_buffers() && binder.bind_regions() &&
                       binder.bind_statements() && binder.bind_host();
    if (!bound || diagnostics.has_errors()) throw UserError(std::move(diagnostics));
    BoundProgram result = std::move(binder.result());
    result.module = std::move(module);
    return result;
}

void check_region_bounds(const BoundProgram& program, uint32_t region, int64_t address) {
    const BoundRegion& window = program.regions[region];
    const BoundBuffer& buffer = program.buffers[window.buffer];
    const auto name = [&] {
        return window.name.empty() ? std::string("region") : fmt::format("region `{}`", window.name);
    };
    // addresses are below 2^63 (see max_level_bytes), so the differences cannot overflow
    const auto base = static_cast<int64_t>(buffer.base);
    if (address < base) {
        throw UserError(
            fmt::format("{} starts {} bytes before buffer `{}`. Fix: keep its offset at 0 or above.", name(),
                        static_cast<uint64_t>(base) - static_cast<uint64_t>(address), buffer.name));
    }
    const uint64_t offset = static_cast<uint64_t>(address - base);
    if (offset > buffer.size || window.extent > buffer.size - offset) {
        throw UserError(fmt::format(
            "{} ends at byte {} but buffer `{}` has {}. Fix: grow the buffer or shrink the region.", name(),
            offset + window.extent, buffer.name, buffer.size));
    }
}

}  // namespace kpu
