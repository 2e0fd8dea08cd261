// Graphs as text and as pictures.
#include <fmt/ranges.h>

#include <map>

#include "compiler/graph/graph.hpp"

namespace kpu::graph {
namespace {

std::string type_text(const Value& value) {
    std::string text = fmt::format("{}{}", name_of(value.elem), shape_text(value.shape));
    if (!value.quant) return text;
    const BoundQuant& q = value.quant;
    if (q.kind == proto::Quant::PER_TENSOR && q.scales.size() == 1 && q.zero_points.size() == 1)
        return text + fmt::format(" scale={} zero={}", q.scales[0], q.zero_points[0]);
    return text + fmt::format(" scales[{}] axis={}", q.scales.size(), q.axis);
}

std::string attribute_text(const AttrSpec& spec, const BoundAttr& attr) {
    switch (spec.kind) {
        case AttrKind::integer:
            return fmt::format("{}={}", spec.name, attr.integer);
        case AttrKind::boolean:
            return fmt::format("{}={}", spec.name, attr.integer != 0);
        case AttrKind::real:
            return fmt::format("{}={}", spec.name, attr.real);
        case AttrKind::ints:
            return fmt::format("{}=[{}]", spec.name, fmt::join(attr.ints, ","));
        case AttrKind::reals:
            return fmt::format("{}=[{}]", spec.name, fmt::join(attr.reals, ","));
        case AttrKind::elem_type:
            return fmt::format("{}={}", spec.name, name_of(attr.type));
        case AttrKind::text:
        case AttrKind::word:
            return fmt::format("{}={}", spec.name, attr.text);
    }
    return "";
}

std::string attributes_text(const Node& node) {
    std::string text;
    for (const AttrSpec& spec : node.spec().attributes) {
        const BoundAttr* attr = node.attrs.find(spec.name);
        if (attr != nullptr) text += (text.empty() ? "" : " ") + attribute_text(spec, *attr);
    }
    return text;
}

std::string names(const Graph& graph, const std::vector<ValueId>& ids) {
    std::string text;
    for (const ValueId id : ids) text += fmt::format("{}%{}", text.empty() ? "" : ", ", graph.value(id).name);
    return text;
}

std::string source_text(const Node& node) {
    std::string text = node.source.name;
    for (const Source& source : node.absorbed) text += " + " + source.name;
    if (node.group != 0)
        text += fmt::format("{}group {}{}", text.empty() ? "" : "  ", node.group, node.anchor ? "*" : "");
    return text;
}

std::string node_text(const Graph& graph, const Node& node) {
    const std::string attributes = attributes_text(node), source = source_text(node);
    std::string types;
    for (const ValueId id : node.outputs) types += (types.empty() ? "" : ", ") + type_text(graph.value(id));
    return fmt::format("  {} = {}({}){}  {}{}\n", names(graph, node.outputs), node.spec().name,
                       names(graph, node.inputs), attributes.empty() ? "" : " {" + attributes + "}", types,
                       source.empty() ? "" : "  # " + source);
}

std::string port_text(const Graph& graph, const Port& port, std::string_view role) {
    std::string host(name_of(port.elem));
    if (port.host == HostType::int64) host = "i64";
    if (port.host == HostType::boolean) host = "bool";
    if (port.host == HostType::uint64) host = "u64";
    if (port.host == HostType::float64) host = "f64";
    const std::string order = port.perm.empty() ? "" : fmt::format(" perm=[{}]", fmt::join(port.perm, ","));
    return fmt::format("  {} {}: %{} {}  host {}{}\n", role, port.name, graph.value(port.value).name,
                       type_text(graph.value(port.value)), host, order);
}

// ---- pictures

std::string quoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += c == '\n' ? ' ' : c;
    }
    return result + "\"";
}

std::string dot_node(const Node& node, size_t id) {
    const std::string label = fmt::format("{}\\n", node.spec().name);
    const std::string name = quoted(node.source.name);
    return fmt::format("    n{} [label=\"{}{}, tooltip={}];\n", id, label, name.substr(1),
                       quoted(attributes_text(node)));
}

/// An arrow for each value that nodes or the host make and others read.
std::string dot_edges(const Graph& graph) {
    const std::vector<int32_t> makers = producers(graph);
    std::vector<std::string> from(graph.values.size());
    for (size_t i = 0; i < graph.inputs.size(); ++i) from[graph.inputs[i].value] = fmt::format("i{}", i);
    for (ValueId id = 0; id < makers.size(); ++id) {
        if (makers[id] >= 0) from[id] = fmt::format("n{}", makers[id]);
    }
    std::string text;
    const auto arrow = [&](ValueId id, const std::string& to) {
        if (from[id].empty()) return;  // constants would hide the network
        text += fmt::format("  {} -> {} [label={}];\n", from[id], to, quoted(type_text(graph.value(id))));
    };
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
        for (const ValueId operand : graph.nodes[i].inputs) arrow(operand, fmt::format("n{}", i));
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) arrow(graph.outputs[i].value, fmt::format("o{}", i));
    return text;
}

}  // namespace

std::string to_text(const Graph& graph) {
    std::string text = fmt::format("graph {}\n", graph.name);
    for (const Port& port : graph.inputs) text += port_text(graph, port, "input");
    for (const Value& value : graph.values) {
        if (value.constant()) text += fmt::format("  constant %{} {}\n", value.name, type_text(value));
    }
    for (const Node& node : graph.nodes) text += node_text(graph, node);
    for (const Port& port : graph.outputs) text += port_text(graph, port, "output");
    return text;
}

std::string to_dot(const Graph& graph) {
    std::string text =
        fmt::format("digraph {} {{\n  node [shape=box, fontname=\"sans-serif\"];\n", quoted(graph.name));
    for (size_t i = 0; i < graph.inputs.size(); ++i)
        text += fmt::format("  i{} [shape=ellipse, label={}];\n", i, quoted(graph.inputs[i].name));
    std::map<uint32_t, std::string> groups;
    for (size_t i = 0; i < graph.nodes.size(); ++i)
        groups[graph.nodes[i].group] += dot_node(graph.nodes[i], i);
    for (const auto& [group, nodes] : groups) {
        text += group == 0
                    ? nodes
                    : fmt::format("  subgraph cluster_{} {{\n    style=rounded;\n{}  }}\n", group, nodes);
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i)
        text += fmt::format("  o{} [shape=ellipse, label={}];\n", i, quoted(graph.outputs[i].name));
    return text + dot_edges(graph) + "}\n";
}

}  // namespace kpu::graph
