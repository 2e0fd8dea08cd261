#pragma once

#include <string>

#include "analysis/schedule_check.hpp"
#include "isa/nem/nem.hpp"
#include "isa/verify.hpp"

namespace kpu::analysis::test {

inline std::shared_ptr<const Module> module_of(const std::string& text) {
    Diagnostics diagnostics;
    nem::Document document = nem::parse(text, "p.nem", nem::default_loader({}), diagnostics);
    auto module = std::make_shared<Module>(std::move(document.module));
    module->origin = "p.nem";
    if (!diagnostics.has_errors()) verify(module, {}, {}, diagnostics);
    if (diagnostics.has_errors()) throw UserError(diagnostics.to_string());
    return module;
}

inline std::string findings_of(const std::string& text, const DeviceLimits& limits = {}) {
    const BoundProgram program = bind(module_of(text), {}, limits);
    Diagnostics diagnostics;
    add_to(check_schedule(program, limits), program, diagnostics);
    return diagnostics.to_string();
}

}  // namespace kpu::analysis::test
