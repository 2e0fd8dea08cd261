// Graphs as text and as pictures.
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <unordered_map>

#include "base/digest.hpp"
#include "compiler/graph/data.hpp"
#include "compiler/graph/text.hpp"
#include "compiler/graph/words.hpp"

namespace kpu::graph {
namespace {

constexpr uint64_t most_inline_bytes = 64;  ///< most bytes of a constant that stands in its line

std::string type_text(const Value& value) {
    std::string text = fmt::format("{}{}", name_of(value.elem), shape_text(value.shape));
    if (!value.quant) return text;
    const BoundQuant& q = value.quant;
    if (q.kind == proto::Quant::PER_TENSOR && q.scales.size() == 1 && q.zero_points.size() == 1)
        return text + fmt::format(" scale={} zero={}", q.scales[0], q.zero_points[0]);
    text += fmt::format(" {} axis={}", proto::Quant::Kind_Name(q.kind), q.axis);
    if (q.group_size != 0) text += fmt::format(" group_size={}", q.group_size);
    return text +
           fmt::format(" scales=[{}] zeros=[{}]", fmt::join(q.scales, ","), fmt::join(q.zero_points, ","));
}

/// Returns the fewest digits that stand for the number in its type.
std::string number_text(double number, ElemType elem) {
    if (elem != ElemType::f32) return fmt::format("{}", number);
    std::string text = fmt::format("{}", static_cast<float>(number));
    double again = 0;  // is rounded twice when it is read: to binary64, then to the type
    std::from_chars(text.data(), text.data() + text.size(), again);
    return static_cast<float>(again) == static_cast<float>(number) ? text : fmt::format("{}", number);
}

/// Returns the numbers of a few elements, if they stand for the bytes; else the bytes.
std::string numbers_text(const Data& data, ElemType elem, uint64_t elements) {
    if (!is_posit(elem)) {
        Value value;
        value.elem = elem;
        value.shape = dims({static_cast<int64_t>(elements)});
        value.data = data;
        const std::vector<double> numbers = graph::numbers(value);
        const bool exact = std::all_of(numbers.begin(), numbers.end(), [](double x) { return x == x; });
        if (exact) {
            const Data again = make_numbers(elem, numbers);
            if (again.size == data.size && std::memcmp(again.bytes, data.bytes, data.size) == 0) {
                std::string text;
                for (const double number : numbers)
                    text += (text.empty() ? "" : ",") + number_text(number, elem);
                return text;
            }
        }
    }
    std::string text = "0x";
    for (uint64_t i = 0; i < data.size; ++i) text += fmt::format("{:02x}", data.bytes[i]);
    return text;
}

/// Returns the elements in the line, one for all, or their place in the file beside the text.
std::string data_text(const Data& data, ElemType elem, uint64_t elements, std::string* constants) {
    if (elements == 0) return "[]";
    const uint64_t step = data.size / elements;
    const bool splat = elements > 1 && std::equal(data.bytes + step, data.bytes + data.size, data.bytes);
    if (splat) return fmt::format("splat {}", numbers_text({data.owner, data.bytes, step}, elem, 1));
    if (data.size <= most_inline_bytes) return fmt::format("[{}]", numbers_text(data, elem, elements));
    if (constants == nullptr) return "...";
    const size_t place = constants->size();
    constants->append(reinterpret_cast<const char*>(data.bytes), data.size);
    return fmt::format("at {}", place);
}

std::string constant_text(const Value& value, std::string* constants) {
    std::string text = fmt::format("  constant %{} {} = {}", word_text(value.name), type_text(value),
                                   data_text(value.data, value.elem, value.elements(), constants));
    if (value.blocks) {
        const Blocks& blocks = *value.blocks;
        const auto elements = static_cast<uint64_t>(blocks.shape.product());
        text += fmt::format("  blocks axis={} size={} {}{}", blocks.axis, blocks.size, name_of(blocks.elem),
                            shape_text(blocks.shape));
        text += " steps=" + data_text(blocks.steps, ElemType::i4, value.elements(), constants);
        text += " scales=" + data_text(blocks.scales, blocks.elem, elements, constants);
        if (blocks.zero_points)
            text += " zeros=" + data_text(blocks.zero_points, blocks.elem, elements, constants);
    }
    return text + "\n";
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
            return fmt::format("{}={}", spec.name, word_text(attr.text));
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
    for (const ValueId id : ids)
        text += fmt::format("{}%{}", text.empty() ? "" : ", ", word_text(graph.value(id).name));
    return text;
}

std::string source_text(const Source& source) {
    return word_text(source.name) + (source.type.empty() ? "" : ":" + word_text(source.type));
}

/// Writes where a node is from, and what passes have decided about it.
std::string origin_text(const Node& node) {
    std::string text;
    if (!node.source.name.empty() || !node.source.type.empty() || !node.absorbed.empty())
        text += "  from " + source_text(node.source);
    for (const Source& source : node.absorbed) text += " + " + source_text(source);
    if (node.group != 0) text += fmt::format("  group {}", node.group);
    if (node.anchor) text += "  anchor";
    if (node.alone) text += "  alone";
    if (node.strips != 0) text += fmt::format("  strips {}", node.strips);
    if (node.kept != ElemType::none) text += fmt::format("  kept {}", name_of(node.kept));
    return text;
}

std::string node_text(const Graph& graph, const Node& node) {
    const std::string attributes = attributes_text(node);
    std::string types;
    for (const ValueId id : node.outputs) types += (types.empty() ? "" : ", ") + type_text(graph.value(id));
    return fmt::format("  {} = {}({}){}  {}{}\n", names(graph, node.outputs), node.spec().name,
                       names(graph, node.inputs), attributes.empty() ? "" : " {" + attributes + "}", types,
                       origin_text(node));
}

std::string port_text(const Graph& graph, const Port& port, std::string_view role) {
    std::string host(name_of(port.elem));
    if (port.host == HostType::int64) host = "i64";
    if (port.host == HostType::boolean) host = "bool";
    if (port.host == HostType::uint64) host = "u64";
    if (port.host == HostType::float64) host = "f64";
    if (port.host != HostType::same) host += fmt::format(" as {}", name_of(port.elem));
    if (port.follows != Follows::none)
        host += fmt::format(" follows {} plus={}", port.follows == Follows::position ? "position" : "up_to",
                            port.plus);
    const std::string order = port.perm.empty() ? "" : fmt::format(" perm=[{}]", fmt::join(port.perm, ","));
    return fmt::format("  {} {}: %{} {}  host {}{}\n", role, word_text(port.name),
                       word_text(graph.value(port.value).name), type_text(graph.value(port.value)), host,
                       order);
}

/// Returns the values in the order in which the text has them, which is nearly never that of their ids.
std::string order_text(const Graph& graph) {
    std::vector<ValueId> ids;
    for (const Port& port : graph.inputs) ids.push_back(port.value);
    for (ValueId id = 0; id < graph.values.size(); ++id)
        if (graph.values[id].constant()) ids.push_back(id);
    for (const Node& node : graph.nodes) ids.insert(ids.end(), node.outputs.begin(), node.outputs.end());
    if (std::is_sorted(ids.begin(), ids.end())) return "";
    std::sort(ids.begin(), ids.end());
    std::string text = "  values";
    for (const ValueId id : ids) text += fmt::format(" %{}", word_text(graph.value(id).name));
    return text + "\n";
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

/// Returns an arrow for each value that nodes or the host make and others read.
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

std::string word_text(std::string_view name) {
    if (!name.empty() && std::all_of(name.begin(), name.end(), is_plain)) return std::string(name);
    std::string text = "\"";
    for (const char c : name) {
        if (c == '"' || c == '\\') {
            text += fmt::format("\\{}", c);
        } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
            text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        } else {
            text += c;
        }
    }
    return text + "\"";
}

std::string to_text(const Graph& graph, const TextHead& head, std::string* constants) {
    std::string text;
    for (const Port& port : graph.inputs) text += port_text(graph, port, "input");
    for (const Value& value : graph.values) {
        if (value.constant()) text += constant_text(value, constants);
    }
    for (const Node& node : graph.nodes) text += node_text(graph, node);
    for (const Port& port : graph.outputs) text += port_text(graph, port, "output");
    for (const auto& [name, reason] : graph.absent)
        text += fmt::format("  absent {} {}\n", word_text(name), word_text(reason));
    text += order_text(graph);
    if (const std::vector<std::string> gone = graph.gone_names(); !gone.empty()) {
        text += "  gone";
        for (const std::string& name : gone) text += " " + word_text(name);
        text += "\n";
    }
    std::string begin = fmt::format("graph {}\n", word_text(graph.name));
    if (head.passed != 0) begin += fmt::format("  passed {}\n", head.passed);
    if (!head.model.empty()) begin += fmt::format("  model {}\n", word_text(head.model));
    if (graph.positions.any())
        begin += fmt::format("  positions {} step {} rows {}\n", graph.positions.count, graph.positions.step,
                             graph.positions.rows);
    if (constants != nullptr && !constants->empty())
        begin += fmt::format("  constants {} sha256 {}\n", constants->size(), sha256_hex(*constants));
    return begin + text;
}

std::string to_text(const Graph& graph) { return to_text(graph, {}, nullptr); }

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
