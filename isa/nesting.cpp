// Which loops stand around which statements.
#include "isa/structure.hpp"

namespace kpu {

Nesting nesting_of(const KPUProgram& program) {
    Nesting nesting;
    std::vector<int32_t> open;
    nesting.parent.reserve(static_cast<size_t>(program.statement_size()));
    nesting.depth.reserve(static_cast<size_t>(program.statement_size()));
    for (int i = 0; i < program.statement_size(); ++i) {
        while (!open.empty() &&
               program.statement(open.back()).loop().body_end() == static_cast<uint32_t>(i)) {
            open.pop_back();
        }
        nesting.parent.push_back(open.empty() ? -1 : open.back());
        nesting.depth.push_back(static_cast<uint16_t>(open.size()));
        if (program.statement(i).has_loop()) open.push_back(i);
    }
    return nesting;
}

}  // namespace kpu
