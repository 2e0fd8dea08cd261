#pragma once
// Walks the nodes of a model, its functions and branches, and calls the importers of operators.
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/onnx/call.hpp"
#include "compiler/onnx/import.hpp"

namespace kpu::onnx {

/// The names that nodes of one graph or function see.
struct Scope {
    Scope* parent = nullptr;  ///< scope around a branch: it sees its names
    const Opsets* opsets = nullptr;
    std::string prefix;  ///< prefix of names in functions and branches
    int depth = 0;
    std::unordered_map<std::string, Operand> values;
    std::unordered_map<std::string, const Attribute*> attributes;  ///< attributes of the call of a function

    const Operand* find(const std::string& name) const;
    /// Returns the scope of a branch or body in this one.
    Scope inside(std::string prefix_of_names);
    void update(const std::string& name, const Operand& operand);
};

/// Returns "`a`, `b` and `c`", of as many as fit a line; and how their values are given: "--bind a=VALUE and
/// --bind b=VALUE".
std::string quoted_list(const std::vector<std::string>& names);
std::string bind_options(const std::vector<std::string>& names);

/// Adds the names that a node reads, those that its branches and bodies take from around them included.
void add_reads(const NodeModel& node, std::vector<std::string>& names);

class Importer {
  public:
    Importer(const Model& model, const ImportOptions& options, Diagnostics& notes)
        : model_(model), options_(options), notes_(notes) {}

    /// Looks at every node; `support` has a row for each.
    void run();
    /// Returns the graph after run() without an unsupported node.
    graph::Graph finish();
    std::vector<NodeSupport> support;
    /// Describes the unsupported nodes; empty: there are none.
    std::string problems() const;

  private:
    template <class... Args>
    [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
        refuse_text(fmt::format(text, std::forward<Args>(args)...));
    }
    [[noreturn]] void refuse_text(std::string text) const;
    void note(const std::string& text);

    void add_inputs(Scope& scope);
    void add_input(Scope& scope, const ValueInfo& info);
    std::vector<const ValueInfo*> inputs() const;
    void check_positions() const;
    void set_batch();
    std::optional<int64_t> told_size(const ValueInfo& info, size_t axis);
    std::optional<int64_t> known_size(const ValueInfo& info, size_t axis);
    int64_t size_of(const ValueInfo& info, size_t axis);
    void bind_input(Scope& scope, const ValueInfo& info, const std::string& value);
    std::string list_of_inputs() const;
    void add_tensors(Scope& scope, const GraphModel& graph);
    void define(Scope& scope, const std::string& name, Operand operand);
    void add_outputs(Scope& scope);
    using Counts = std::vector<std::pair<std::string, graph::ValueId>>;  ///< indexed by output
    void add_counts(const Counts& counts, const std::set<std::string>& names);
    void warn_of_nan();
    // of what the file declares: declared.cpp
    void check_declared(const ValueInfo& info, const Sizes& shape) const;
    void look_at(const Scope& scope, const std::string& name, const Operand& operand);
    void warn_of_declared();

    std::vector<const NodeModel*> ordered(const std::vector<NodeModel>& nodes, const Scope& scope) const;
    void import_nodes(const std::vector<NodeModel>& nodes, Scope& scope);
    void count_node();
    void count_made(const Call& call);
    void import_node(const NodeModel& node, Scope& scope);
    void import_operator(const NodeModel& node, Scope& scope, const graph::Source& source);
    void import_if(const NodeModel& node, Scope& scope, const graph::Source& source);
    void import_both(Call& call, Scope& scope);
    std::vector<Operand> import_branch(const NodeModel& node, const GraphModel& branch, Scope inner);
    std::vector<std::string> inputs_behind(graph::ValueId value) const;
    /// Body of a Loop or Scan.
    struct Body {
        const GraphModel& graph;
        Scope common;                  ///< part that is the same in all iterations, imported once
        std::vector<NodeModel> nodes;  ///< the rest
        std::string name;
    };
    Body body_of(const NodeModel& node, Scope& scope, const graph::Source& source);
    std::vector<Operand> iteration(Body& body, int64_t number, const std::vector<Operand>& inputs);
    void import_iterations(const NodeModel& node, Scope& scope, const graph::Source& source);
    void import_loop(Call& call, Body body, Scope& scope);
    void import_scan(Call& call, Body body, Scope& scope);
    void import_call(const NodeModel& node, const Function& function, Scope& scope,
                     const graph::Source& source);
    const Function* find_function(const NodeModel& node);
    std::vector<Operand> operands(const NodeModel& node, const Scope& scope, std::string& lost);
    bool replace_lost(Operand& operand, const std::string& name);
    void give_results(const Call& call, Scope& scope, size_t first);
    void name_results(const NodeModel& node, const Scope& scope, const std::vector<Operand>& results,
                      size_t first);
    graph::Source source_of(const NodeModel& node, const Scope& scope);

    const Model& model_;
    const ImportOptions& options_;
    std::set<std::string> batch_dims_;  ///< dynamic dimensions that are the batch
    Diagnostics& notes_;
    graph::Graph graph_;
    std::unordered_set<std::string> sources_;
    std::map<std::array<std::string, 3>, const Function*> functions_;  ///< indexed by domain, name, overload
    std::map<std::string, graph::ValueId> made_once_;                  ///< Call::once
    size_t visited_ = 0, made_ = 0;  ///< nodes and calls; bytes of constants
    std::set<std::string> used_dims_, told_;
    /// Reasons why nodes cannot be imported: inputs that decide structure and are no constants; constants
    /// without bytes do.
    std::set<std::string> bindable_;
    bool lacks_bytes_ = false;
    std::unordered_map<std::string, const ValueInfo*> infos_;
    std::vector<std::string> doubles_;  ///< names of tensors of float64 that the device computes with
    std::vector<std::string> stale_;    ///< values whose shapes value_info declares and the nodes do not make
    /// Number of uses of names, by nodes and outputs of the model.
    std::unordered_map<std::string, int> reads_;
};

}  // namespace kpu::onnx
