#pragma once

#include <string>

#include "isa/module.hpp"

namespace kpu::test {

/// Returns the source map of a compiler that wrote each statement from a line of its own, in two files.
inline SourcePos emitter_pos(uint32_t statement) {
    return {statement % 3 == 2 ? "lib/tiles.py" : "net.py", 100 + 7 * statement, 1 + statement % 5,
            statement};
}

/// Gives every statement the place of emitter_pos().
inline void add_places(KPUProgram& program) {
    program.clear_source_file();
    program.clear_place();
    program.add_source_file("net.py");
    program.add_source_file("lib/tiles.py");
    for (int s = 0; s < program.statement_size(); ++s) {
        const SourcePos pos = emitter_pos(static_cast<uint32_t>(s));
        proto::Place& place = *program.add_place();
        place.set_file(pos.file == program.source_file(0) ? 0 : 1);
        place.set_line(pos.line);
        place.set_column(pos.column);
        program.mutable_statement(s)->set_place(static_cast<uint32_t>(program.place_size()));
    }
}

inline bool same_place(const SourcePos& a, const SourcePos& b) {
    return a.file == b.file && a.line == b.line && a.column == b.column && a.statement == b.statement;
}

}  // namespace kpu::test
