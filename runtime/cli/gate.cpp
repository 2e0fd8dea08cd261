// check --ci: findings that end it, each group with an exit code of its own.
#include "runtime/cli/gate.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kpu::cli {
namespace {

using Kind = analysis::FindingKind;

/// Returns the rule that a finding falls under; null: none.
const GateRule* rule_of(const analysis::FindingOrigins& origins, size_t finding) {
    const auto origin = origins.find(finding);
    if (origin == origins.end()) return nullptr;
    for (const GateRule& rule : gate_rules()) {
        const auto is_kind = [&](Kind kind) { return name_of(kind) == origin->second.kind; };
        if (std::any_of(rule.kinds.begin(), rule.kinds.end(), is_kind)) return &rule;
    }
    return nullptr;
}

}  // namespace

const std::vector<GateRule>& gate_rules() {
    static const std::vector<GateRule> rules = {
        {exit_hazards,
         "hazards",
         {Kind::raw, Kind::war, Kind::waw, Kind::uninitialised, Kind::empty_token, Kind::deadlock}},
        {exit_no_device, "no device is known", {Kind::no_device}},
        {exit_unchecked, "something was not decided or left out", {Kind::not_proved, Kind::not_checked}}};
    return rules;
}

std::string gate_help() {
    std::string text;
    for (const GateRule& rule : gate_rules()) {
        std::string kinds;
        for (const Kind kind : rule.kinds)
            kinds += fmt::format("{}{}", kinds.empty() ? "" : ", ", name_of(kind));
        text += fmt::format("{}{} {} ({})", text.empty() ? "" : ", ", static_cast<int>(rule.code), rule.what,
                            kinds);
    }
    return text;
}

Diagnostics gated(const Diagnostics& diagnostics, const analysis::FindingOrigins& origins) {
    Diagnostics result;
    for (size_t i = 0; i < diagnostics.all().size(); ++i) {
        Diagnostic item = diagnostics.all()[i];
        if (item.severity == Severity::warning && rule_of(origins, i) != nullptr)
            item.severity = Severity::error;
        result.add(std::move(item));
    }
    return result;
}

int gate_exit_code(const Diagnostics& diagnostics, const analysis::FindingOrigins& origins) {
    int code = exit_ok;
    for (size_t i = 0; i < diagnostics.all().size(); ++i) {
        if (diagnostics.all()[i].severity != Severity::error) continue;
        const GateRule* rule = rule_of(origins, i);
        if (rule == nullptr) return exit_bad_input;
        if (code == exit_ok || rule->code < code) code = rule->code;
    }
    return code;
}

}  // namespace kpu::cli
