#include "compiler/quantize/integer_models.hpp"

#include <algorithm>
#include <map>

#include "compiler/graph/data.hpp"

namespace kpu::quantize {
namespace {

using graph::Data;
using graph::Graph;
using graph::Node;
using graph::Port;
using graph::Value;
using graph::ValueId;

bool is_conversion(const Node& node) {
    return node.spec().name == "quantize" || node.spec().name == "dequantize";
}

/// Whether each operand may have an integer type of its own.
bool mixes_types(const Node& node) {
    return node.spec().op_class == OpcodeClass::gemm || node.spec().op_class == OpcodeClass::conv ||
           is_conversion(node);
}

bool is_convertible(const Value& value) {
    return value.elem == ElemType::u8 &&
           (value.quant.kind == proto::Quant::PER_TENSOR || value.quant.kind == proto::Quant::PER_CHANNEL);
}

/// Values that stay u8: a node that takes one type only keeps all of its own, or none.
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
            bool any = node.spec().op_class == OpcodeClass::convert;
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

}  // namespace

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
