#include "compiler/quantize/integer_models.hpp"

#include <algorithm>
#include <map>

#include "compiler/graph/data.hpp"

namespace kpu::quantize {
namespace {

using graph::Data;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Port;
using graph::Value;
using graph::ValueId;

bool is_conversion(const Node& node) {
    return node.spec().name == "quantize" || node.spec().name == "dequantize";
}

/// True if each operand may have an integer type of its own.
bool mixes_types(const Node& node) { return node.spec().macs != nullptr || is_conversion(node); }

bool is_convertible(const Value& value) {
    return value.elem == ElemType::u8 &&
           (value.quant.kind == proto::Quant::PER_TENSOR || value.quant.kind == proto::Quant::PER_CHANNEL);
}

/// Returns the values that stay u8: a node that takes one type only keeps all of its own, or none.
std::vector<bool> staying(const Graph& graph) {
    std::vector<bool> stays(graph.values.size(), false);
    for (const auto* ports : {&graph.inputs, &graph.outputs}) {
        for (const Port& port : *ports)
            stays[port.value] = port.elem == ElemType::none || is_integer(port.elem);
    }
    for (ValueId id = 0; id < stays.size(); ++id) {
        const Value& value = graph.value(id);
        stays[id] = stays[id] || (value.elem == ElemType::u8 && !is_convertible(value));
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (const Node& node : graph.nodes) {
            if (mixes_types(node)) continue;
            bool any = node.spec().traits.converts;
            const auto visit = [&](auto&& use) {
                for (const auto* list : {&node.inputs, &node.outputs}) {
                    for (const ValueId id : *list) {
                        if (graph.value(id).elem == ElemType::u8) use(id);
                    }
                }
            };
            visit([&](ValueId id) { any = any || (stays[id] && is_convertible(graph.value(id))); });
            if (!any) continue;
            visit([&](ValueId id) {
                changed = changed || !stays[id];
                stays[id] = true;
            });
        }
    }
    return stays;
}

/// Puts conversions where products have u8 operands or results that stay: arrays multiply i8. By way of floats, which
/// hold every step exactly.
class Converter {
  public:
    explicit Converter(Graph& graph) : graph_(graph) {}

    void run() {
        std::vector<Node> nodes = std::move(graph_.nodes);
        graph_.nodes.clear();
        for (Node& node : nodes) {
            for (ValueId& input : node.inputs) input = of(unsigned_, input);
            if (node.spec().macs == nullptr) {
                graph_.nodes.push_back(std::move(node));
                continue;
            }
            const graph::Source source = node.source;
            for (size_t i = 0; i < 2; ++i) {
                const ValueId input = node.inputs[i];
                if (!is_convertible(graph_.value(input))) continue;
                if (signed_.count(input) == 0) signed_[input] = converted(input, ElemType::i8, source);
                node.inputs[i] = signed_[input];
            }
            const ValueId y = node.outputs[0];
            graph_.nodes.push_back(std::move(node));
            if (!is_convertible(graph_.value(y))) continue;
            const BoundQuant quant = graph_.value(y).quant;
            graph_.value(y).quant = as_i8(quant, ElemType::u8);
            graph_.value(y).elem = ElemType::i8;
            unsigned_[y] = converted(y, ElemType::u8, source);
            graph_.value(unsigned_[y]).quant = quant;
        }
        for (Port& port : graph_.outputs) port.value = of(unsigned_, port.value);
    }

  private:
    static ValueId of(const std::map<ValueId, ValueId>& values, ValueId id) {
        const auto found = values.find(id);
        return found == values.end() ? id : found->second;
    }
    ValueId converted(ValueId from, ElemType elem, const graph::Source& source) {
        graph::NodeOptions options;
        options.source = source;
        options.elem = ElemType::f32;
        graph_.nodes.push_back(graph_.make_node("dequantize", {from}, {}, options));
        options.elem = elem;
        options.quant = as_i8(graph_.value(from).quant, graph_.value(from).elem);
        const ValueId real = graph_.nodes.back().outputs[0];
        graph_.nodes.push_back(graph_.make_node("quantize", {real}, {}, options));
        return graph_.nodes.back().outputs[0];
    }

    Graph& graph_;
    std::map<ValueId, ValueId> signed_, unsigned_;
};

class WideSums {
  public:
    WideSums(const Graph& graph, const graph::Supports& supports, std::vector<ElemType>& kept)
        : graph_(graph),
          supports_(supports),
          kept_(kept),
          users_(graph::users(graph)),
          wide_(graph.values.size()),
          here_(graph.nodes.size()) {}

    std::vector<NodeId> run() {
        for (size_t n = 0; n < graph_.nodes.size(); ++n) follow_sums(n);
        for (size_t n = graph_.nodes.size(); n-- > 0;) follow_scales(n);
        return std::move(narrow_);
    }

  private:
    bool is_float_value(ValueId id) const { return is_float(graph_.value(id).elem); }

    bool keep(size_t n) {
        if (kept_[n] != ElemType::none) return true;
        if (!takes_floats(graph_, graph_.nodes[n], ElemType::f32, supports_)) return false;
        kept_[n] = ElemType::f32;
        here_[n] = true;
        return true;
    }

    void follow_sums(size_t n) {
        const Node& node = graph_.nodes[n];
        const ValueId y = node.outputs[0];
        const bool reads =
            std::any_of(node.inputs.begin(), node.inputs.end(), [this](ValueId id) { return wide_[id]; });
        const bool sums = node.spec().macs != nullptr && graph_.value(y).elem == ElemType::i32;
        const bool scales = node.spec().name == "mul" || node.spec().name == "div";
        if (reads && is_float_value(y) && !keep(n)) narrow_.push_back(static_cast<NodeId>(n));
        const bool widens = is_wide_cast(node) && keep(n);
        wide_[y] = sums || widens || (reads && !(scales && is_float_value(y)));
    }

    /// True for a cast of integers that 16-bit floats do not hold: steps of 16 bits, which a zero point and a
    /// scale are to meet.
    bool is_wide_cast(const Node& node) const {
        if (node.spec().name != "cast" || !is_float_value(node.outputs[0])) return false;
        const ElemType from = graph_.value(node.inputs[0]).elem;
        return is_integer(from) && bit_width(from) > 8;
    }

    /// Follows what is made to meet the scales.
    void follow_scales(size_t n) {
        const Node& node = graph_.nodes[n];
        if (!node.spec().traits.elementwise || !is_float_value(node.outputs[0])) return;
        const uint64_t made = graph_.value(node.outputs[0]).elements();
        const auto larger = [&](ValueId id) { return graph_.value(id).elements() > made; };
        const auto meets = [&](NodeId user) { return here_[user]; };
        const std::vector<NodeId>& users = users_[node.outputs[0]];
        if (std::any_of(users.begin(), users.end(), meets) &&
            std::none_of(node.inputs.begin(), node.inputs.end(), larger))
            keep(n);
    }

    const Graph& graph_;
    const graph::Supports& supports_;
    std::vector<ElemType>& kept_;
    std::vector<std::vector<NodeId>> users_;
    std::vector<bool> wide_;  ///< for each value: sums that no scale has met
    std::vector<bool> here_;  ///< for each node: kept by this
    std::vector<NodeId> narrow_;
};

}  // namespace

std::vector<NodeId> keep_sums_wide(const Graph& graph, const graph::Supports& supports,
                                   std::vector<ElemType>& kept) {
    return WideSums(graph, supports, kept).run();
}

BoundQuant as_i8(BoundQuant quant, ElemType elem) {
    if (elem == ElemType::u8) {
        for (int64_t& zero_point : quant.zero_points) zero_point -= 128;
    }
    return quant;
}

Data as_i8(const Data& data, ElemType elem) {
    if (elem != ElemType::u8) return data;
    const graph::NewData made = graph::new_data(data.size);
    for (uint64_t i = 0; i < data.size; ++i) made.bytes[i] = static_cast<uint8_t>(data.bytes[i] ^ 0x80U);
    return made.data;
}

void make_signed(Graph& graph) {
    const std::vector<bool> stays = staying(graph);
    for (ValueId id = 0; id < stays.size(); ++id) {
        Value& value = graph.value(id);
        if (stays[id] || !is_convertible(value)) continue;
        if (value.constant()) value.data = as_i8(value.data, value.elem);
        value.quant = as_i8(std::move(value.quant), value.elem);
        value.elem = ElemType::i8;
    }
    Converter(graph).run();
}

void quantize_on_host(Graph& graph) {
    const auto users = graph::users(graph);
    const auto producers = graph::producers(graph);
    const auto own_elem = [&graph](Port& port) {
        if (port.elem == ElemType::none) port.elem = graph.value(port.value).elem;
    };
    for (Port& port : graph.outputs) {
        const int32_t maker = producers[port.value];
        if (maker < 0 || graph.nodes[static_cast<size_t>(maker)].spec().name != "dequantize") continue;
        own_elem(port);
        port.value = graph.nodes[static_cast<size_t>(maker)].inputs[0];
    }
    for (Port& port : graph.inputs) {
        const auto is_output = [&port](const Port& output) { return output.value == port.value; };
        if (users[port.value].size() != 1 ||
            std::any_of(graph.outputs.begin(), graph.outputs.end(), is_output))
            continue;
        Node& node = graph.nodes[users[port.value][0]];
        if (node.spec().name != "quantize" || port.host != graph::HostType::same) continue;
        own_elem(port);
        port.value = node.outputs[0];
        node.outputs.clear();  // remove_unused() drops it
    }
    graph::remove_unused(graph);
}

}  // namespace kpu::quantize
