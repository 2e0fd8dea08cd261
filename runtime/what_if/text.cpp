// Texts of what changes would save.
#include <fmt/format.h>

#include "runtime/what_if/simulate.hpp"
#include "traces/report.hpp"

namespace kpu::what_if {
namespace {

/// Returns "a, b and c".
std::string listed(const std::vector<std::string>& items) {
    std::string text;
    for (size_t i = 0; i < items.size(); ++i)
        text += (i == 0 ? "" : i + 1 == items.size() ? " and " : ", ") + items[i];
    return text;
}

}  // namespace

std::string text_of(const Answers& answers) {
    if (!answers.skipped.empty())
        return fmt::format("What if, simulated: not done, for {}.\n", answers.skipped);
    std::string text = fmt::format("What if, simulated (of {} cycles)\n", traces::grouped(answers.cycles));
    std::vector<std::string> nothing;
    const auto now = static_cast<double>(answers.cycles);
    for (const Outcome& outcome : answers.outcomes) {
        if (!outcome.cycles) {
            text += fmt::format("  {:<28} {}: {}\n", "cannot be", outcome.words, outcome.problem);
        } else if (*outcome.cycles == answers.cycles) {
            nothing.push_back(outcome.words);
        } else {
            const bool saves = *outcome.cycles < answers.cycles;
            const Cycles difference =
                saves ? answers.cycles - *outcome.cycles : *outcome.cycles - answers.cycles;
            text += fmt::format("  {} {:>12} cycles {:>5.1f} %  {}\n", saves ? "saves" : "costs",
                                traces::grouped(difference), 100 * static_cast<double>(difference) / now,
                                outcome.words);
        }
    }
    if (!nothing.empty()) text += fmt::format("  changes nothing: {}\n", listed(nothing));
    return text;
}

}  // namespace kpu::what_if
