#pragma once

#include <string>

#include "analysis/schedule_check.hpp"
#include "isa/nem/nem.hpp"
#include "isa/verify.hpp"

namespace kpu::analysis::test {

inline std::shared_ptr<const Module> module_of(const std::string& text) {
    Diagnostics diagnostics;
    nem::Document document = nem::parse(text, "p.nem", nem::default_loader({}), diagnostics);
    if (!diagnostics.has_errors()) verify(document.module, {}, {}, diagnostics);
    if (diagnostics.has_errors()) throw UserError(diagnostics.to_string());
    document.module.origin = "p.nem";
    return std::make_shared<const Module>(std::move(document.module));
}

inline std::string findings_of(const std::string& text, const DeviceLimits& limits = {}) {
    const BoundProgram program = bind(module_of(text), {}, limits);
    Diagnostics diagnostics;
    add_to(check_schedule(program, limits), program, diagnostics);
    return diagnostics.to_string();
}

}  // namespace kpu::analysis::test
