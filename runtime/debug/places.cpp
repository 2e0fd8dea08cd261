#include "runtime/debug/places.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/diagnostics.hpp"
#include "runtime/debug/words.hpp"

namespace kpu::runtime::debug {

using kernel::Code;

namespace {

constexpr size_t most_names = 20;  ///< in a message

/// True if one of them names the other, perhaps with fewer folders.
bool same_file(const std::string& a, const std::string& b) {
    const std::string &longer = a.size() < b.size() ? b : a, &shorter = a.size() < b.size() ? a : b;
    const size_t at = longer.size() - shorter.size();
    return longer.compare(at, shorter.size(), shorter) == 0 && (at == 0 || longer[at - 1] == '/');
}

/// Parses "softmax.py:12", "softmax.py:12 (softmax)"; number 0: it is no line of a file.
Line origin_of(const std::string& text) {
    const std::string place = text.substr(0, text.rfind(" ("));
    const size_t colon = place.rfind(':');
    Line line{place.substr(0, colon), 0};
    if (colon == std::string::npos || !read_number(place.substr(colon + 1), line.number)) return {};
    return line;
}

/// Calls `visit(statement, line)` for each line that a statement is of: the front end's first.
template <typename Visit>
void each_line(const Code& code, Visit&& visit) {
    Line origin;
    for (uint32_t i = 0; i < code.statements.size(); ++i) {
        if (code.statements[i].kind == kernel::Kind::line) {
            origin = origin_of(code.body->statement(static_cast<int>(i)).tag());
            continue;
        }
        if (origin.number > 0) visit(i, origin);
        if (i < code.places.size()) visit(i, Line{code.path, code.places[i].line});
    }
}

/// True if the kernel has the front end's lines, which lines without a file then mean.
bool has_origins(const Code& code) {
    return std::any_of(code.statements.begin(), code.statements.end(),
                       [](const kernel::CodeStatement& s) { return s.kind == kernel::Kind::line; });
}

void refuse_none(const Kernels& kernels) {
    if (kernels.empty()) throw UserError("the program launches no kernel. Fix: break at a task or a cycle.");
}

[[noreturn]] void no_line(const Kernels& kernels, const Line& wanted) {
    std::map<std::string, std::set<uint64_t>> lines;
    for (const Code* code : kernels)
        each_line(*code, [&](uint32_t, const Line& line) { lines[line.file].insert(line.number); });
    if (lines.empty()) throw UserError("no kernel has a statement. Fix: break at a task or a cycle.");
    std::vector<std::string> known;
    for (const auto& [file, numbers] : lines) {
        if (known.size() == most_names) break;
        if (!wanted.file.empty() && !same_file(file, wanted.file)) continue;
        const auto next = numbers.upper_bound(wanted.number);
        known.push_back(fmt::format("{}:{} to {}{}", file, *numbers.begin(), *numbers.rbegin(),
                                    next != numbers.end() && next != numbers.begin()
                                        ? fmt::format(" (the next one is {})", *next)
                                        : ""));
    }
    if (known.empty())
        for (const auto& [file, numbers] : lines)
            if (known.size() < most_names) known.push_back(file);
    throw UserError(fmt::format("no statement of a kernel is at {}{}. Fix: there are some at {}.",
                                wanted.file.empty() ? "line " : "", wanted.text(), fmt::join(known, ", ")));
}

std::string path_of(const Code& code, uint32_t region) {
    const std::string outer = code.region_of(region),
                      &name = code.body->statement(static_cast<int>(region)).name();
    return outer.empty() ? name : outer + "/" + name;
}

}  // namespace

std::string Line::text() const {
    return file.empty() ? std::to_string(number) : fmt::format("{}:{}", file, number);
}

Line line_of(const std::string& text) {
    const size_t colon = text.rfind(':');
    Line line;
    if (colon == 0) throw UserError(fmt::format("`{}` names no file. Fix: write FILE:N or N.", text));
    if (colon != std::string::npos) line.file = text.substr(0, colon);
    line.number = number_of(colon == std::string::npos ? text : text.substr(colon + 1));
    return line;
}

std::vector<Statements> statements_of(const Kernels& kernels, const Line& line) {
    refuse_none(kernels);
    std::vector<Statements> found;
    bool any = false;
    for (const Code* code : kernels) {
        Statements& here = found.emplace_back(code->statements.size(), false);
        const bool front_end = line.file.empty() && has_origins(*code);
        each_line(*code, [&](uint32_t statement, const Line& its) {
            const bool file =
                line.file.empty() ? !front_end || its.file != code->path : same_file(its.file, line.file);
            if (!file || its.number != line.number) return;
            here[statement] = any = true;
        });
    }
    if (!any) no_line(kernels, line);
    return found;
}

std::vector<Statements> regions_of(const Kernels& kernels, const std::string& name) {
    refuse_none(kernels);
    std::vector<Statements> found;
    std::set<std::string> known;
    bool any = false;
    for (const Code* code : kernels) {
        Statements& here = found.emplace_back(code->statements.size(), false);
        for (uint32_t i = 0; i < code->statements.size(); ++i) {
            if (code->statements[i].kind != kernel::Kind::region) continue;
            const std::string path = path_of(*code, i);
            known.insert(path);
            if (path == name || code->body->statement(static_cast<int>(i)).name() == name)
                here[i] = any = true;
        }
    }
    if (any) return found;
    std::vector<std::string> names(known.begin(), known.end());
    if (names.size() > most_names) names.resize(most_names);
    throw UserError(names.empty()
                        ? fmt::format("no region `{}`: kernels of this program have none. Fix: break at a "
                                      "line, a task or a cycle.",
                                      name)
                        : fmt::format("no region `{}`. Fix: name one of {}.", name, fmt::join(names, ", ")));
}

}  // namespace kpu::runtime::debug
