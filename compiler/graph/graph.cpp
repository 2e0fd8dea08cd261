#include "compiler/graph/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace kpu::graph {

Data make_data(std::vector<uint8_t> bytes) {
    auto owner = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
    // an empty vector has no address, but a constant always has data
    static const uint8_t none = 0;
    return {owner, owner->empty() ? &none : owner->data(), owner->size()};
}

uint64_t data_bytes(ElemType elem, uint64_t elements) {
    return shares_bytes(elem) ? elements : elements * static_cast<uint64_t>(bit_width(elem)) / 8;
}

Dims dims(const std::vector<int64_t>& sizes) {
    if (sizes.size() > max_rank) {
        throw UserError(fmt::format("a tensor has {} dimensions, at most {} are possible. Fix: reshape it.",
                                    sizes.size(), max_rank));
    }
    Dims result;
    for (const int64_t size : sizes) result[result.rank++] = size;
    return result;
}

bool broadcast(const Dims& a, const Dims& b, Dims& result) {
    result = Dims{};
    result.rank = std::max(a.rank, b.rank);
    for (size_t d = 1; d <= result.rank; ++d) {
        const int64_t of_a = d <= a.rank ? a[a.rank - d] : 1, of_b = d <= b.rank ? b[b.rank - d] : 1;
        if (of_a != of_b && of_a != 1 && of_b != 1) return false;
        result[result.rank - d] = of_a == 1 ? of_b : of_a;
    }
    return true;
}

Dims repeated_factor(const Dims& a, Dims b) {
    for (size_t d = 0; a.rank == b.rank && d + 2 < b.rank; ++d) {
        if (b[d] == 1) b[d] = a[d];
    }
    return b;
}

std::vector<Dims> infer(const OpcodeSpec& spec, const std::vector<TypedShape>& operands,
                        const BoundAttrs& attrs) {
    if (spec.traits.needs == Needs::matrix && operands.size() >= 2) {
        std::vector<TypedShape> whole = operands;
        whole[1].shape = repeated_factor(whole[0].shape, whole[1].shape);
        return infer_shapes(spec, whole, attrs);
    }
    if (!spec.traits.elementwise || operands.size() < 2) return infer_shapes(spec, operands, attrs);
    std::vector<TypedShape> whole = operands;
    Dims shape;
    for (const TypedShape& operand : operands) {
        if (Dims sum; broadcast(shape, operand.shape, sum)) {
            shape = sum;
        } else {
            throw UserError(fmt::format("{}: shapes {} and {} do not broadcast. Fix: make them equal, or 1.",
                                        spec.name, shape_text(operands[0].shape), shape_text(operand.shape)));
        }
    }
    for (TypedShape& operand : whole) operand.shape = shape;
    return infer_shapes(spec, whole, attrs);
}

// ---- values and nodes

bool Graph::taken(const std::string& value_name) const { return names_.count(value_name) != 0; }

std::vector<std::string> Graph::gone_names() const {
    std::unordered_set<std::string_view> present;
    for (const Value& value : values) present.insert(value.name);
    std::vector<std::string> gone;
    for (const auto& [known, next] : names_) {
        if (present.count(known) == 0) gone.push_back(known);
    }
    std::sort(gone.begin(), gone.end());
    return gone;
}

void Graph::take_name(std::string gone_name) { names_.emplace(std::move(gone_name), 2); }

void Graph::rename(ValueId id, std::string value_name) {
    if (!names_.emplace(value_name, 2).second)
        throw InternalError(fmt::format("graph: the name {} is taken", value_name));
    values.at(id).name = std::move(value_name);
}

std::string Graph::unique(std::string wanted) {
    if (names_.emplace(wanted, 2).second) return wanted;
    int& number = names_.at(wanted);
    std::string result;
    do {
        result = fmt::format("{}.{}", wanted, number++);
    } while (!names_.emplace(result, 2).second);
    return result;
}

ValueId Graph::add_value(std::string value_name, ElemType elem, const Dims& shape, BoundQuant quant) {
    Value value;
    value.name = unique(std::move(value_name));
    value.elem = elem;
    value.shape = shape;
    value.quant = std::move(quant);
    values.push_back(std::move(value));
    return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_constant(std::string value_name, ElemType elem, const Dims& shape, Data data,
                            BoundQuant quant) {
    const ValueId id = add_value(std::move(value_name), elem, shape, std::move(quant));
    values[id].data = std::move(data);
    return id;
}

ValueId Graph::add_input(std::string value_name, ElemType elem, const Dims& shape) {
    const ValueId id = add_value(value_name, elem, shape);
    inputs.push_back({std::move(value_name), id, elem, HostType::same, {}});
    return id;
}

Node Graph::make_node(std::string_view opcode_name, std::vector<ValueId> operands, BoundAttrs attrs,
                      NodeOptions options) {
    const std::optional<OpcodeId> id = kernels::find_spec(opcode_name);
    if (!id) throw InternalError(fmt::format("graph: there is no opcode {}", opcode_name));
    std::vector<TypedShape> shapes;
    for (const ValueId operand : operands) shapes.push_back({values.at(operand).elem, values[operand].shape});
    const std::vector<Dims> results = infer(kernels::spec_of(*id), shapes, attrs);
    if (options.elem == ElemType::none) options.elem = shapes.at(0).elem;
    if (options.output.empty())
        options.output = options.source.name.empty() ? opcode_name : options.source.name;
    Node node;
    node.opcode = *id;
    node.attrs = std::move(attrs);
    node.inputs = std::move(operands);
    const kernels::Operation* kernel = kernels::find(*id);
    for (const Dims& shape : results) {
        const OperandRole role = kernel == nullptr
                                     ? OperandRole::data
                                     : operand_spec(kernel->spec.outputs, node.outputs.size()).role;
        if (role == OperandRole::data) {
            node.outputs.push_back(add_value(options.output, options.elem, shape, options.quant));
        } else {
            const ElemType elem = role == OperandRole::integer ? ElemType::i32 : ElemType::u8;
            node.outputs.push_back(add_value(options.output, elem, shape));
        }
    }
    node.source = std::move(options.source);
    return node;
}

ValueId Graph::add_node(std::string_view opcode_name, std::vector<ValueId> operands, BoundAttrs attrs,
                        NodeOptions options) {
    nodes.push_back(make_node(opcode_name, std::move(operands), std::move(attrs), std::move(options)));
    return nodes.back().outputs[0];
}

// ---- attributes

namespace {
BoundAttr named(std::string name) {
    BoundAttr attr;
    attr.name = std::move(name);
    return attr;
}
}  // namespace

BoundAttr integer(std::string name, int64_t value) {
    BoundAttr attr = named(std::move(name));
    attr.integer = value;
    return attr;
}

BoundAttr real(std::string name, double value) {
    BoundAttr attr = named(std::move(name));
    attr.real = value;
    return attr;
}

BoundAttr ints(std::string name, std::vector<int64_t> values) {
    BoundAttr attr = named(std::move(name));
    attr.ints = std::move(values);
    return attr;
}

BoundAttr reals(std::string name, std::vector<double> values) {
    BoundAttr attr = named(std::move(name));
    attr.reals = std::move(values);
    return attr;
}

BoundAttr word(std::string name, std::string value) {
    BoundAttr attr = named(std::move(name));
    attr.text = std::move(value);
    return attr;
}

BoundAttr type(std::string name, ElemType value) {
    BoundAttr attr = named(std::move(name));
    attr.type = value;
    return attr;
}

BoundAttrs attributes(std::vector<BoundAttr> list) {
    BoundAttrs result;
    result.list = std::move(list);
    return result;
}

// ---- what passes need

std::vector<int32_t> producers(const Graph& graph) {
    std::vector<int32_t> result(graph.values.size(), -1);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
        for (const ValueId output : graph.nodes[i].outputs) result[output] = static_cast<int32_t>(i);
    }
    return result;
}

std::vector<std::vector<NodeId>> users(const Graph& graph) {
    std::vector<std::vector<NodeId>> result(graph.values.size());
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
        for (const ValueId operand : graph.nodes[i].inputs) result[operand].push_back(static_cast<NodeId>(i));
    }
    return result;
}

void remove_unused(Graph& graph) {
    std::vector<bool> needed(graph.values.size(), false);
    for (const Port& port : graph.outputs) needed[port.value] = true;
    std::vector<Node> kept;
    for (size_t i = graph.nodes.size(); i-- > 0;) {
        Node& node = graph.nodes[i];
        const bool useful =
            std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return needed[id]; });
        if (!useful) continue;
        for (const ValueId operand : node.inputs) needed[operand] = true;
        for (const ValueId output : node.outputs) needed[output] = true;
        kept.push_back(std::move(node));
    }
    std::reverse(kept.begin(), kept.end());
    graph.nodes = std::move(kept);
    for (const Port& port : graph.inputs) needed[port.value] = true;  // the host gives it all the same
    std::vector<ValueId> moved(graph.values.size(), 0);
    std::vector<Value> values;
    for (size_t i = 0; i < graph.values.size(); ++i) {
        if (!needed[i]) continue;
        moved[i] = static_cast<ValueId>(values.size());
        values.push_back(std::move(graph.values[i]));
    }
    graph.values = std::move(values);
    for (Node& node : graph.nodes) {
        for (ValueId& id : node.inputs) id = moved[id];
        for (ValueId& id : node.outputs) id = moved[id];
    }
    for (Port& port : graph.inputs) port.value = moved[port.value];
    for (Port& port : graph.outputs) port.value = moved[port.value];
}

void check(const Graph& graph) {
    std::vector<bool> known(graph.values.size(), false);
    const auto fail = [](const std::string& what) { throw InternalError("graph: " + what); };
    for (size_t i = 0; i < graph.values.size(); ++i) {
        const Value& value = graph.values[i];
        if (value.elem == ElemType::none) fail(value.name + " has no type");
        if (value.constant() && value.data.size != data_bytes(value.elem, value.elements()))
            fail(value.name + " has data of another size");
        known[i] = value.constant();
    }
    for (const Port& port : graph.inputs) known.at(port.value) = true;
    for (const Node& node : graph.nodes) {
        std::vector<TypedShape> shapes;
        for (const ValueId operand : node.inputs) {
            if (operand >= known.size() || !known[operand])
                fail(node.source.name + " reads what is not there yet");
            shapes.push_back({graph.values[operand].elem, graph.values[operand].shape});
        }
        const std::vector<Dims> results = infer(node.spec(), shapes, node.attrs);
        if (results.size() != node.outputs.size()) fail(node.source.name + " has another number of outputs");
        for (size_t o = 0; o < results.size(); ++o) {
            const ValueId output = node.outputs[o];
            if (output >= known.size() || known[output])
                fail(node.source.name + " makes what is there already");
            if (!(graph.values[output].shape == results[o]))
                fail(graph.values[output].name + " has another shape");
            known[output] = true;
        }
    }
    for (const Port& port : graph.outputs) {
        if (port.value >= known.size() || !known[port.value]) fail("output " + port.name + " is never made");
    }
}

}  // namespace kpu::graph
