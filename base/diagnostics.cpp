#include "base/diagnostics.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kpu {
namespace {

std::string_view name_of(Severity severity) {
    switch (severity) {
        case Severity::error:
            return "error";
        case Severity::warning:
            return "warning";
        case Severity::info:
            return "info";
    }
    return "error";
}

std::string position_text(const SourcePos& pos) {
    if (pos.file.empty() && pos.line == 0) return "";
    const std::string_view file = pos.file.empty() ? std::string_view("<program>") : pos.file;
    if (pos.line == 0) return fmt::format("{}: ", file);
    return fmt::format("{}:{}:{}: ", file, pos.line, pos.column);
}

}  // namespace

std::string to_string(const Diagnostic& diagnostic) {
    std::string text = fmt::format("{}{}: {}", position_text(diagnostic.pos), name_of(diagnostic.severity),
                                   diagnostic.message);
    for (const std::string& note : diagnostic.notes) text += fmt::format("\n    note: {}", note);
    return text;
}

void Diagnostics::error(SourcePos pos, std::string message) {
    add({Severity::error, std::move(message), std::move(pos), {}});
}

void Diagnostics::warning(SourcePos pos, std::string message) {
    add({Severity::warning, std::move(message), std::move(pos), {}});
}

void Diagnostics::info(SourcePos pos, std::string message) {
    add({Severity::info, std::move(message), std::move(pos), {}});
}

void Diagnostics::add(Diagnostic diagnostic) {
    if (diagnostic.severity == Severity::error) ++errors_;
    list_.push_back(std::move(diagnostic));
}

size_t Diagnostics::warning_count() const {
    return static_cast<size_t>(std::count_if(
        list_.begin(), list_.end(), [](const Diagnostic& d) { return d.severity == Severity::warning; }));
}

std::string Diagnostics::to_string() const {
    std::string text;
    for (const Diagnostic& diagnostic : list_) {
        if (!text.empty()) text += '\n';
        text += kpu::to_string(diagnostic);
    }
    return text;
}

void Diagnostics::promote_warnings() {
    for (Diagnostic& diagnostic : list_) {
        if (diagnostic.severity != Severity::warning) continue;
        diagnostic.severity = Severity::error;
        ++errors_;
    }
}

UserError::UserError(Diagnostics diagnostics)
    : std::runtime_error(diagnostics.to_string()), diagnostics_(std::move(diagnostics)) {}

}  // namespace kpu
