#include "compiler/onnx/importer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "compiler/onnx/operators.hpp"

namespace kpu::onnx {
namespace {

constexpr size_t most_nodes = 250'000;  ///< functions count as often as they are called
constexpr size_t most_made_mib = 640;   ///< enough for VGG-19 without a weight in the file
constexpr int most_depth = 64;          ///< calls of functions and branches inside each other

/// Checks operands without elements, where an operator divides by their sizes or has no rule for them.
void check_elements(const Call& call) {
    if (call.empty_operands || !call.has(0) || call.given(0).items != nullptr) return;
    if (elements_of(call.shape(0)) != 0) return;
    throw Unsupported(fmt::format("a tensor {} without elements is not taken", text_of(call.shape(0))));
}

/// Resolves a node's attributes by those that the call of the function around it gives.
NodeModel resolved(const NodeModel& node, const Scope& scope) {
    NodeModel result = node;
    result.attributes.clear();
    for (const Attribute& attribute : node.attributes) {
        if (attribute.reference.empty()) {
            result.attributes.push_back(attribute);
            continue;
        }
        const auto given = scope.attributes.find(attribute.reference);
        if (given == scope.attributes.end()) continue;
        result.attributes.push_back(*given->second);
        result.attributes.back().name = attribute.name;
        result.attributes.back().reference.clear();
    }
    return result;
}

/// Returns the names that a branch or body makes itself.
std::unordered_set<std::string> names_of(const GraphModel& graph) {
    std::unordered_set<std::string> result;
    for (const ValueInfo& input : graph.inputs) result.insert(input.name);
    for (const auto& tensor : graph.tensors) result.insert(tensor->name);
    for (const NodeModel& node : graph.nodes) result.insert(node.outputs.begin(), node.outputs.end());
    return result;
}

/// Returns "a, b and c", of as many as fit a line.
template <class Form>
std::string listed(const std::vector<std::string>& names, Form form) {
    constexpr size_t most = 5;
    std::string text;
    for (size_t i = 0; i < std::min(most, names.size()); ++i)
        text += fmt::format("{}{}", i == 0 ? "" : i + 1 < names.size() ? ", " : " and ", form(names[i]));
    return names.size() > most ? fmt::format("{} and {} more", text, names.size() - most) : text;
}

}  // namespace

std::string quoted_list(const std::vector<std::string>& names) {
    return listed(names, [](const std::string& name) { return fmt::format("`{}`", name); });
}

std::string bind_options(const std::vector<std::string>& names) {
    return listed(names, [](const std::string& name) { return fmt::format("--bind {}=VALUE", name); });
}

void add_reads(const NodeModel& node, std::vector<std::string>& names) {
    names.insert(names.end(), node.inputs.begin(), node.inputs.end());
    for (const Attribute& attribute : node.attributes) {
        if (attribute.graph == nullptr) continue;
        std::vector<std::string> inside;
        for (const NodeModel& inner : attribute.graph->nodes) add_reads(inner, inside);
        for (const ValueInfo& output : attribute.graph->outputs) inside.push_back(output.name);
        const std::unordered_set<std::string> own = names_of(*attribute.graph);
        std::copy_if(inside.begin(), inside.end(), std::back_inserter(names),
                     [&](const std::string& name) { return own.count(name) == 0; });
    }
}

const Operand* Scope::find(const std::string& name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
        if (const auto found = scope->values.find(name); found != scope->values.end()) return &found->second;
    }
    return nullptr;
}

Scope Scope::inside(std::string prefix_of_names) {
    Scope inner;
    inner.parent = this;
    inner.opsets = opsets;
    inner.prefix = std::move(prefix_of_names);
    inner.depth = depth + 1;
    inner.attributes = attributes;
    return inner;
}

void Scope::update(const std::string& name, const Operand& operand) {
    for (Scope* scope = this; scope != nullptr; scope = scope->parent) {
        if (const auto found = scope->values.find(name); found != scope->values.end()) {
            found->second = operand;
            return;
        }
    }
}

void Importer::refuse_text(std::string text) const {
    Diagnostics diagnostics;
    diagnostics.error({model_.origin, 0, 0}, std::move(text));
    throw UserError(std::move(diagnostics));
}

void Importer::run() {
    const int64_t opset = model_.opsets.at("");
    if (opset < first_opset || opset > last_opset) {
        refuse("the model uses opset {}, {} to {} are known. Fix: {}.", opset, first_opset, last_opset,
               opset > last_opset ? "export it with a lower opset_version"
                                  : "convert it with onnx.version_converter");
    }
    if (model_.graph.nodes.empty())
        refuse("the graph is empty: it has no nodes. Fix: export the model again.");
    if (model_.graph.outputs.empty()) refuse("the graph has no outputs. Fix: export the model again.");
    graph_.name = model_.graph.name;
    graph_.positions = options_.positions;
    for (const ValueInfo& info : model_.graph.values) infos_.emplace(info.name, &info);
    for (const NodeModel& node : model_.graph.nodes) {
        std::vector<std::string> names;
        add_reads(node, names);
        for (const std::string& name : names) ++reads_[name];
    }
    for (const ValueInfo& info : model_.graph.outputs) ++reads_[info.name];
    for (const Function& function : model_.functions) {
        if (!functions_.emplace(std::array{function.domain, function.name, function.overload}, &function)
                 .second)
            refuse("the function `{}` is there twice. Fix: export the model again.", function.name);
    }
    Scope scope;
    scope.opsets = &model_.opsets;
    add_tensors(scope, model_.graph);
    add_inputs(scope);
    import_nodes(model_.graph.nodes, scope);
    check_positions();
    add_outputs(scope);
}

void Importer::check_positions() const {
    const auto writes = [](const graph::Node& node) { return node.spec().name == "insert_rows"; };
    if (!options_.positions.any() || !problems().empty() ||
        std::any_of(graph_.nodes.begin(), graph_.nodes.end(), writes))
        return;
    refuse(
        "--positions: no node has a cache that it writes rows into (GroupQueryAttention with past and "
        "present of one "
        "length, TensorScatter). Fix: leave it out, or export the model with such caches.");
}

graph::Graph Importer::finish() {
    warn_of_nan();
    graph::remove_unused(graph_);
    graph::check(graph_);
    return std::move(graph_);
}

std::string Importer::problems() const {
    std::string text, fix;
    size_t count = 0;
    for (const NodeSupport& node : support) {
        if (node.reason.empty()) continue;
        ++count;
        text += fmt::format("\n  node `{}` ({}): {}", node.name, node.type, node.reason);
    }
    if (count == 0) return text;
    if (!bindable_.empty())
        fix += fmt::format("make inputs that decide structure constants, {}; or ",
                           bind_options({bindable_.begin(), bindable_.end()}));
    if (lacks_bytes_) fix += "give the model with these constants, which --mode timing needs too; or ";
    return fmt::format(
        "{} of {} nodes cannot be imported:{}\nFix: {}replace these nodes by others in the model; "
        "docs/onnx.md "
        "lists what is taken.",
        count, support.size(), text, fix);
}

// ---- nodes

std::vector<const NodeModel*> Importer::ordered(const std::vector<NodeModel>& nodes,
                                                const Scope& scope) const {
    std::unordered_map<std::string, size_t> makers;
    for (size_t i = 0; i < nodes.size(); ++i) {
        for (const std::string& name : nodes[i].outputs) {
            if (!name.empty() && (!makers.emplace(name, i).second || scope.values.count(name) != 0))
                refuse("the name `{}` is made twice. Fix: give each tensor a name of its own.", name);
        }
    }
    std::vector<size_t> missing(nodes.size(), 0);
    std::vector<std::vector<size_t>> users(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
        std::vector<std::string> reads;
        add_reads(nodes[i], reads);
        for (const std::string& name : reads) {
            const auto maker = makers.find(name);
            if (maker == makers.end()) continue;
            users[maker->second].push_back(i);
            ++missing[i];
        }
    }
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t i = 0; i < nodes.size(); ++i) {
        if (missing[i] == 0) ready.push(i);
    }
    std::vector<const NodeModel*> result;
    for (; !ready.empty();) {
        const size_t next = ready.top();
        ready.pop();
        result.push_back(&nodes[next]);
        for (const size_t user : users[next]) {
            if (--missing[user] == 0) ready.push(user);
        }
    }
    for (size_t i = 0; i < nodes.size() && result.size() < nodes.size(); ++i) {
        if (missing[i] == 0) continue;
        refuse("the graph has a cycle: node `{}` ({}) needs its own result. Fix: export the model again.",
               nodes[i].name, nodes[i].full_type());
    }
    return result;
}

void Importer::import_nodes(const std::vector<NodeModel>& nodes, Scope& scope) {
    if (scope.depth > most_depth)
        refuse("functions and branches are nested more than {} deep. Fix: flatten them.", most_depth);
    if (nodes.size() > most_nodes) refuse("the model has more than {} nodes. Fix: split it.", most_nodes);
    for (const NodeModel* node : ordered(nodes, scope)) import_node(*node, scope);
}

graph::Source Importer::source_of(const NodeModel& node, const Scope& scope) {
    std::string name = node.name.empty() ? fmt::format("{}_{}", node.type, support.size()) : node.name;
    name = scope.prefix + name;
    std::string result = name;
    for (int number = 2; !sources_.insert(result).second; ++number)
        result = fmt::format("{}.{}", name, number);
    return {result, node.full_type()};
}

void Importer::count_node() {
    if (++visited_ > most_nodes) refuse("the model has more than {} nodes. Fix: split it.", most_nodes);
}

void Importer::count_made(const Call& call) {
    made_ += call.made();
    if (made_ > most_made_mib << 20)
        refuse("the nodes of the model make constants of more than {} MiB. Fix: split the model.",
               most_made_mib);
}

void Importer::import_node(const NodeModel& given, Scope& scope) {
    count_node();
    const NodeModel node = scope.attributes.empty() ? given : resolved(given, scope);
    const graph::Source source = source_of(node, scope);
    if (const Function* function = find_function(node); function != nullptr) {
        import_call(node, *function, scope, source);
        return;
    }
    support.push_back({source.name, source.type, ""});
    const size_t row = support.size() - 1;
    try {
        if (node.domain.empty() && node.type == "If") {
            import_if(node, scope, source);
        } else if (node.domain.empty() && (node.type == "Loop" || node.type == "Scan")) {
            import_iterations(node, scope, source);
        } else {
            import_operator(node, scope, source);
        }
    } catch (const NotConstant& reason) {
        support[row].reason = reason.what();
        if (reason.value) {
            const std::vector<std::string> names = inputs_behind(*reason.value);
            bindable_.insert(names.begin(), names.end());
        }
    } catch (const LacksBytes& reason) {
        support[row].reason = reason.what();
        lacks_bytes_ = true;
    } catch (const Unsupported& reason) {
        support[row].reason = reason.what();
    } catch (const UserError& error) {                                     // of a shape rule
        const std::vector<Diagnostic>& found = error.diagnostics().all();  // whose file the list names anyway
        support[row].reason = found.empty() ? error.what() : found[0].message;
    }
    for (const std::string& name : node.outputs) {
        if (name.empty() || scope.values.count(name) != 0) continue;
        Operand lost;
        lost.lost = source.name;
        scope.values.emplace(name, std::move(lost));
        if (support[row].reason.empty())
            support[row].reason = fmt::format("does not make its output `{}`", name);
    }
}

std::vector<Operand> Importer::operands(const NodeModel& node, const Scope& scope, std::string& lost) {
    std::vector<Operand> result;
    for (const std::string& name : node.inputs) {
        if (name.empty()) {
            result.emplace_back();
            continue;
        }
        const Operand* operand = scope.find(name);
        if (operand == nullptr) throw Unsupported(fmt::format("it reads `{}`, which nothing makes", name));
        result.push_back(*operand);
        if (!operand->lost.empty() && !replace_lost(result.back(), name)) lost = operand->lost;
    }
    while (!result.empty() && node.inputs[result.size() - 1].empty()) result.pop_back();
    return result;
}

/// Replaces what an unsupported node makes by what the file declares of it, so that the nodes after it can be
/// looked at.
bool Importer::replace_lost(Operand& operand, const std::string& name) {
    const auto info = infos_.find(name);
    if (info == infos_.end() || !info->second->shaped || elem_of(info->second->type) == ElemType::none)
        return false;
    Operand declared;
    declared.type = info->second->type;
    for (size_t d = 0; d < info->second->shape.size(); ++d)
        declared.shape.push_back(size_of(*info->second, d));
    if (declared.shape.size() > max_rank || elements_of(declared.shape) < 1) return false;
    declared.value = graph_.add_value(name, elem_of(declared.type), graph::dims(declared.shape));
    operand = std::move(declared);
    return true;
}

void Importer::import_operator(const NodeModel& node, Scope& scope, const graph::Source& source) {
    std::string lost;
    std::vector<Operand> given = operands(node, scope, lost);
    const Operator* row = find_operator(node.domain, node.type);
    const bool ours = node.domain.empty() || node.domain == "com.microsoft";
    if (node.domain == "com.microsoft.nchwc")
        throw Unsupported(
            "ONNX Runtime made it for one machine's caches: let it optimize no further than "
            "ORT_ENABLE_EXTENDED");
    if (!ours) throw Unsupported(fmt::format("the domain {} is not known", node.domain));
    if (row == nullptr) throw Unsupported("the operator is not known");
    const int64_t opset = scope.opsets->at("");
    if (opset < row->since || opset > row->until) {
        throw Unsupported(fmt::format("opset {} has no such operator: {} {}", opset,
                                      opset < row->since ? "it came with" : "it ended with",
                                      opset < row->since ? row->since : row->until));
    }
    if (!lost.empty())
        throw Unsupported(fmt::format("not looked at: `{}` before it cannot be imported", lost));
    const size_t first = graph_.values.size();
    Call call(graph_, node, opset, source, std::move(given));
    call.empty_operands = row->empty;
    call.made_once = &made_once_;
    if (!call.all_constant() || call.any_stand_in() || !fold(call)) {
        check_elements(call);
        row->import(call);
    }
    for (size_t i = 0; i < call.inputs(); ++i) {
        // a constant becomes one value, however many nodes read it
        if (!call.has(i) || !call.given(i).constant()) continue;
        scope.update(node.inputs[i], call.given(i));
        look_at(scope, node.inputs[i], call.given(i));
    }
    give_results(call, scope, first);
}

/// Gives what the node made, values from `first` on, its names.
void Importer::give_results(const Call& call, Scope& scope, size_t first) {
    count_made(call);
    name_results(call.node, scope, call.results(), first);
    for (size_t i = 0; i < call.outputs(); ++i) {
        if (call.results()[i].type == Type::undefined) continue;
        look_at(scope, call.node.outputs[i], call.results()[i]);
        define(scope, call.node.outputs[i], call.results()[i]);
    }
}

/// Names values that this node made as the model calls them.
void Importer::name_results(const NodeModel& node, const Scope& scope, const std::vector<Operand>& results,
                            size_t first) {
    for (size_t i = 0; i < results.size(); ++i) {
        const std::string name = scope.prefix + node.outputs[i];
        if (results[i].value && *results[i].value >= first && !graph_.taken(name))
            graph_.rename(*results[i].value, name);
    }
}

// ---- functions

const Function* Importer::find_function(const NodeModel& node) {
    const auto found = functions_.find({node.domain, node.type, node.overload});
    return found == functions_.end() ? nullptr : found->second;
}

void Importer::import_call(const NodeModel& node, const Function& function, Scope& scope,
                           const graph::Source& source) {
    Scope inner;
    inner.opsets = &function.opsets;
    inner.prefix = source.name + "/";
    inner.depth = scope.depth + 1;
    for (const Attribute& attribute : function.defaults) inner.attributes[attribute.name] = &attribute;
    for (const Attribute& attribute : node.attributes) inner.attributes[attribute.name] = &attribute;
    // an empty map means that there is nothing to resolve
    static const Attribute none;
    inner.attributes.emplace("", &none);
    if (node.inputs.size() > function.inputs.size())
        refuse("node `{}` gives {} operands to function `{}`, which has {}. Fix: export the model again.",
               node.name, node.inputs.size(), function.name, function.inputs.size());
    for (size_t i = 0; i < function.inputs.size(); ++i) {
        const bool given = i < node.inputs.size() && !node.inputs[i].empty();
        const Operand* operand = given ? scope.find(node.inputs[i]) : nullptr;
        if (given && operand == nullptr)
            refuse("node `{}` ({}) reads `{}`, which nothing makes. Fix: export the model again.", node.name,
                   node.type, node.inputs[i]);
        Operand argument = given ? *operand : Operand();
        argument.sole = false;  // the function may read it more often
        inner.values.emplace(function.inputs[i], std::move(argument));
    }
    import_nodes(function.nodes, inner);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i].empty()) continue;
        const Operand* result = i < function.outputs.size() ? inner.find(function.outputs[i]) : nullptr;
        if (result == nullptr)
            refuse("function `{}` does not make output {} of node `{}`. Fix: export the model again.",
                   function.name, i, node.name);
        define(scope, node.outputs[i], *result);
    }
}

}  // namespace kpu::onnx
