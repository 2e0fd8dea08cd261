// Places that a program carries: lines of the source of the compiler that made it.
#include <fmt/format.h>

#include <algorithm>

#include "isa/module.hpp"
#include "isa/structure.hpp"

namespace kpu {
namespace {

constexpr int max_source_files = 1 << 16;
constexpr size_t max_path_bytes = 4096;

bool is_printable_path(const std::string& path) {
    return !path.empty() && path.size() <= max_path_bytes &&
           std::none_of(path.begin(), path.end(), [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; });
}

}  // namespace

void check_places(const KPUProgram& program, const std::string& origin) {
    const auto fail = [&](std::string_view list, int index, const std::string& text) {
        throw UserError(fmt::format("{}: malformed program: {}[{}]{}", origin, list, index, text));
    };
    if (program.source_file_size() > max_source_files) {
        throw UserError(
            fmt::format("{}: malformed program: source_file has {} entries; {} are allowed. Fix: name each "
                        "file once.",
                        origin, program.source_file_size(), max_source_files));
    }
    for (int i = 0; i < program.source_file_size(); ++i) {
        if (!is_printable_path(program.source_file(i)))
            fail("source_file", i,
                 fmt::format(" is `{}`. Fix: a path of 1 to {} bytes without control characters.",
                             escaped(program.source_file(i)), max_path_bytes));
    }
    for (int i = 0; i < program.place_size(); ++i) {
        const proto::Place& place = program.place(i);
        if (place.file() >= static_cast<uint32_t>(program.source_file_size()))
            fail("place", i,
                 fmt::format(".file is {}, but there are {} source files.", place.file(),
                             program.source_file_size()));
        if (place.line() < 1 || place.line() > INT32_MAX)
            fail("place", i,
                 fmt::format(".line is {}; 1 to {} are allowed. Fix: leave out a place that is not known.",
                             place.line(), INT32_MAX));
        if (place.column() > INT32_MAX)
            fail("place", i, fmt::format(".column is {}; 0 to {} are allowed.", place.column(), INT32_MAX));
    }
    for (int i = 0; i < program.statement_size(); ++i) {
        const uint32_t place = program.statement(i).place();
        if (place > static_cast<uint32_t>(program.place_size()))
            fail("statement", i,
                 fmt::format(".place is {}, but there are {} places.", place, program.place_size()));
    }
}

void use_places(Module& module) {
    const KPUProgram& program = module.program;
    if (program.place_size() == 0) return;
    SourceMap& source = module.source;
    const auto first_file = static_cast<uint32_t>(source.files.size());
    source.files.insert(source.files.end(), program.source_file().begin(), program.source_file().end());
    constexpr SourceMap::Place unknown{UINT32_MAX, 0, 0};
    source.statements.resize(static_cast<size_t>(program.statement_size()), unknown);
    source.regions.resize(static_cast<size_t>(program.region_size()), unknown);
    for (int i = 0; i < program.statement_size(); ++i) {
        const proto::Statement& statement = program.statement(i);
        if (statement.place() == 0) continue;
        const proto::Place& given = program.place(static_cast<int>(statement.place()) - 1);
        const SourceMap::Place place{first_file + given.file(), given.line(), given.column()};
        source.statements[static_cast<size_t>(i)] = place;
        if (statement.has_let_region()) source.regions[statement.let_region()] = place;
        for (const auto* operands : {&statement.task().input(), &statement.task().output()}) {
            for (const proto::Operand& operand : *operands) {
                if (program.region(static_cast<int>(operand.region())).name().empty())  // written inline
                    source.regions[operand.region()] = place;
            }
        }
    }
}

}  // namespace kpu
