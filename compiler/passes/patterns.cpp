// Functions that an opcode computes in one go, spelled out by the model.
#include "compiler/passes/passes.hpp"
#include "compiler/passes/rules.hpp"

namespace kpu::passes {

void find_patterns(Graph& graph, const Options&) {
    Rewriter rewriter(graph);
    std::vector<Rule> rules = norm_rules;
    rules.insert(rules.end(), activation_rules.begin(), activation_rules.end());
    rules.insert(rules.end(), guard_rules.begin(), guard_rules.end());
    apply_rules(rewriter, rules);
    rewriter.finish();
}

}  // namespace kpu::passes
