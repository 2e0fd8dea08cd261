// Command files of Surfer: what its manual lists as commands.
#include <fmt/format.h>

#include "traces/viewers/layout.hpp"

namespace kpu::traces {

std::string surfer_commands(const Layout& layout) {
    std::string text;
    for (const ViewerGroup& group : layout.groups) {
        if (!group.open) continue;
        text += fmt::format("divider_add {}\n", group.title);
        for (const ViewerSignal& signal : group.signals) {
            const std::string name = signal.plain_name();
            const bool number_of_state = name == "cause";
            if (!number_of_state) text += fmt::format("variable_add {}\n", signal.path());
        }
    }
    const CostliestOp& op = layout.costliest;
    if (!op.name.empty()) {
        text += fmt::format("divider_add A to B: {}, which most cycles are charged to\n", op.name);
        text += fmt::format("cursor_set {}\nmarker_set A\ncursor_set {}\nmarker_set B\n", op.from, op.to);
    }
    return text + "zoom_fit\n";
}

}  // namespace kpu::traces
