#include "compiler/passes/passes.hpp"

#include <algorithm>
#include <chrono>

namespace kpu::passes {

const std::vector<Pass>& pass_table() {
    static const std::vector<Pass> table = {
        {"simplify", simplify, "identities, doubled nodes, views of views and dead code go", Exactness::bits,
         Stage::rewrite},
        {"fold_constants", fold_constants, "nodes of constants are computed", Exactness::bits,
         Stage::rewrite},
        {"patterns", find_patterns,
         "normalisations, softmax and activations that are spelled out become one node", Exactness::rounding,
         Stage::rewrite},
        {"layout", assign_layouts,
         "transposes cancel, move to where they cost least, into constants and to the host",
         Exactness::rounding, Stage::rewrite},
        {"sink_reshapes", sink_reshapes,
         "reshapes and joins after products move after what is computed row by row", Exactness::bits,
         Stage::rewrite},
        {"fold_batch_norm", fold_batch_norm, "scales and shifts of channels go into weights and bias",
         Exactness::rounding, Stage::rewrite},
        {"add_bias", add_bias, "a vector added to a product becomes its bias", Exactness::rounding,
         Stage::rewrite},
        {"global_pool", pool_globally, "means over height and width become average pools",
         Exactness::rounding, Stage::rewrite},
        {"simplify", simplify, "again, what the others have left", Exactness::bits, Stage::rewrite},
        {"precision", convert_precision, "floats become those of the device", Exactness::type, Stage::types},
        {"merge_groups", merge_groups,
         "small groups of a convolution become one, where the array is faster so", Exactness::bits,
         Stage::schedule},
        {"fit_tiles", fit_tiles, "nodes whose smallest tile is larger than L1 become several",
         Exactness::rounding, Stage::schedule},
        {"strided_reads", read_strided, "1x1 convolutions with strides read the pixels that they use",
         Exactness::bits, Stage::schedule},
        {"fuse", fuse, "nodes with the elementwise chain after them become groups", Exactness::bits,
         Stage::schedule},
        {"order", order, "an order of small peak memory", Exactness::bits, Stage::schedule},
    };
    return table;
}

bool is_pass(std::string_view name) {
    const std::vector<Pass>& table = pass_table();
    return std::any_of(table.begin(), table.end(), [name](const Pass& pass) { return pass.name == name; });
}

size_t place_of(const Pass& pass) { return static_cast<size_t>(&pass - pass_table().data()); }

size_t first_of(Stage stage) {
    const std::vector<Pass>& table = pass_table();
    const auto first =
        std::find_if(table.begin(), table.end(), [stage](const Pass& pass) { return pass.stage == stage; });
    return static_cast<size_t>(first - table.begin());
}

void run_passes(Graph& graph, const Options& options, Stage stage, const AfterPass& after) {
    using Clock = std::chrono::steady_clock;
    for (const Pass& pass : pass_table()) {
        if (pass.stage != stage || place_of(pass) < options.passed) continue;
        const Clock::time_point begin = Clock::now();
        pass.run(graph, options);
        const std::chrono::duration<double> time = Clock::now() - begin;
        graph::check(graph);
        if (after) after(pass, graph, time.count());
    }
}

}  // namespace kpu::passes
