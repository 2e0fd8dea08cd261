// Loop and Scan: their bodies, once for each iteration. How often they run must be known.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/onnx/importer.hpp"

namespace kpu::onnx {
namespace {

constexpr int64_t most_iterations = 4096;

Operand absent_or(const Call& call, size_t i) { return call.has(i) ? call.given(i) : Operand(); }

/// Returns the part `number` along an axis, without that axis.
Operand part_of(Call& call, size_t input, size_t axis, int64_t number) {
    Sizes shape = call.shape(input);
    const Type type = call.type(input);
    const ValueId whole = call.value(input);
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    const ValueId part = call.slice(whole, static_cast<int64_t>(axis), number, number + 1);
    return call.operand(call.reshape(part, shape), type);
}

/// Returns the same of integers that are known: what the body computes of them is known too.
Operand known_part_of(Call& call, size_t input, size_t axis, int64_t number) {
    const Known& whole = call.known(input, "operand");
    Known part{whole.type, whole.shape, {}, {}};
    part.shape.erase(part.shape.begin() + static_cast<std::ptrdiff_t>(axis));
    int64_t inside = 1;
    for (size_t d = axis + 1; d < whole.shape.size(); ++d) inside *= whole.shape[d];
    const int64_t step = inside * whole.shape[axis], all = elements_of(whole.shape);
    for (int64_t first = number * inside; first < all; first += step)
        part.ints.insert(part.ints.end(), whole.ints.begin() + first, whole.ints.begin() + first + inside);
    return operand_of(std::move(part));
}

/// Stacks what the iterations make along a new axis.
void stack(Call& call, size_t output, std::vector<Operand> parts, int64_t axis, bool backwards) {
    if (parts.empty()) Call::refuse("it runs no iteration whose results could be joined");
    if (backwards) std::reverse(parts.begin(), parts.end());
    const auto rank = static_cast<int64_t>(parts[0].shape.size()) + 1;
    const size_t along = call.axis(axis, rank);
    for (const Operand& part : parts) {
        if (part.items != nullptr) Call::refuse("its iterations make sequences to be joined");
        if (part.shape != parts[0].shape) Call::refuse("its iterations make results of different shapes");
    }
    call.result(output, call.join(parts, call.node.outputs[output], along, true), parts[0].type);
}

/// True if its shape and type are declared and have no dynamic part.
bool is_static(const ValueInfo& info) {
    return info.shaped && elem_of(info.type) != ElemType::none &&
           std::all_of(info.shape.begin(), info.shape.end(),
                       [](const Dimension& dimension) { return dimension.size >= 0; });
}

}  // namespace

Importer::Body Importer::body_of(const NodeModel& node, Scope& scope, const graph::Source& source) {
    const Attribute* attribute = node.find("body");
    if (attribute == nullptr || attribute->graph == nullptr) throw Unsupported("it lacks a body");
    Body body{*attribute->graph, scope.inside(source.name + "/"), {}, source.name};
    add_tensors(body.common, body.graph);
    std::set<std::string> varying;
    for (const ValueInfo& input : body.graph.inputs) varying.insert(input.name);
    std::vector<NodeModel> same;
    for (const NodeModel* inner : ordered(body.graph.nodes, body.common)) {
        std::vector<std::string> names;
        add_reads(*inner, names);
        const bool varies = std::any_of(names.begin(), names.end(),
                                        [&](const std::string& name) { return varying.count(name) > 0; });
        if (varies) varying.insert(inner->outputs.begin(), inner->outputs.end());
        (varies ? body.nodes : same).push_back(*inner);
    }
    import_nodes(same, body.common);
    return body;
}

std::vector<Operand> Importer::iteration(Body& body, int64_t number, const std::vector<Operand>& inputs) {
    if (number >= most_iterations)
        throw Unsupported(fmt::format("more than {} iterations are not taken", most_iterations));
    count_node();  // also of bodies without nodes
    if (body.graph.inputs.size() != inputs.size())
        throw Unsupported(
            fmt::format("its body has {} inputs instead of {}", body.graph.inputs.size(), inputs.size()));
    Scope inner = body.common.inside(fmt::format("{}/{}/", body.name, number));
    for (size_t i = 0; i < inputs.size(); ++i) {
        Operand input = inputs[i];
        input.sole = false;  // the body may read it more often
        define(inner, body.graph.inputs[i].name, std::move(input));
    }
    import_nodes(body.nodes, inner);
    std::vector<Operand> results;
    for (const ValueInfo& output : body.graph.outputs) {
        const Operand* result = inner.find(output.name);
        if (result == nullptr) throw Unsupported(fmt::format("its body lacks `{}`", output.name));
        if (!result->lost.empty()) throw Unsupported("its body has nodes that cannot be imported");
        results.push_back(*result);
    }
    return results;
}

void Importer::import_loop(Call& call, Body body, Scope& scope) {
    const size_t states = call.node.inputs.size() - std::min<size_t>(2, call.node.inputs.size());
    if (body.graph.outputs.size() < states + 1 || call.outputs() + 1 > body.graph.outputs.size())
        throw Unsupported("its body makes fewer results than it has");
    const int64_t most = call.has(0) ? call.integer_of(0, "trip counts") : INT64_MAX;
    bool goes_on = !call.has(1) || call.number_of(1, "condition") != 0;
    std::vector<Operand> carried;
    for (size_t i = 0; i < states; ++i) carried.push_back(absent_or(call, i + 2));
    std::vector<std::vector<Operand>> made(body.graph.outputs.size() - 1 - states);
    for (int64_t number = 0; goes_on && number < most; ++number) {
        std::vector<Operand> inputs{operand_of(scalar_known(Type::i64, static_cast<double>(number))),
                                    operand_of(scalar_known(Type::boolean, 1))};
        inputs.insert(inputs.end(), carried.begin(), carried.end());
        std::vector<Operand> results = iteration(body, number, inputs);
        if (!results[0].constant())
            throw NotConstant("how often it runs depends on data: its body's condition is not constant",
                              results[0].value);
        const Known condition = results[0].known ? *results[0].known : known_of(*results[0].tensor);
        if (condition.size() != 1) throw Unsupported("its body's condition is not one truth value");
        goes_on = condition.number(0) != 0;
        for (size_t i = 0; i < states; ++i) carried[i] = results[1 + i];
        for (size_t i = 0; i < made.size(); ++i) made[i].push_back(results[1 + states + i]);
    }
    for (size_t i = 0; i < states && i < call.outputs(); ++i) define(scope, call.node.outputs[i], carried[i]);
    for (size_t i = 0; i < made.size(); ++i) {
        if (!call.wants(states + i)) continue;
        const ValueInfo& declared = body.graph.outputs[1 + states + i];
        if (made[i].empty() && is_static(declared)) {
            Known none{declared.type, {0}, {}, {}};
            for (const Dimension& dimension : declared.shape) none.shape.push_back(dimension.size);
            call.result(states + i, std::move(none));
        } else {
            stack(call, states + i, made[i], 0, false);
        }
    }
}

void Importer::import_scan(Call& call, Body body, Scope& scope) {
    if (call.opset < 9) throw Unsupported("opset 8 has another Scan: 9 is the first that is known");
    const int64_t scanned = call.integer("num_scan_inputs", 0);
    if (scanned < 1 || scanned > static_cast<int64_t>(call.inputs()) || !call.has(call.inputs() - 1))
        throw Unsupported("num_scan_inputs does not fit its operands");
    const size_t count = static_cast<size_t>(scanned), states = call.inputs() - count;
    if (body.graph.outputs.size() < states || call.outputs() > body.graph.outputs.size())
        throw Unsupported("its body makes fewer results than it has");
    const size_t outputs = body.graph.outputs.size() - states;
    const Sizes axes = call.ints("scan_input_axes", Sizes(count, 0)),
                joined = call.ints("scan_output_axes", Sizes(outputs, 0)),
                directions = call.ints("scan_input_directions", Sizes(count, 0)),
                back = call.ints("scan_output_directions", Sizes(outputs, 0));
    if (axes.size() != count || directions.size() != count || joined.size() != outputs ||
        back.size() != outputs)
        throw Unsupported("it needs an axis and a direction for each operand and result");
    int64_t length = -1;
    for (size_t i = 0; i < count; ++i) {
        const int64_t own = call.shape(states + i)[call.axis(axes[i], call.rank(states + i))];
        if (length >= 0 && own != length) throw Unsupported("its operands have different lengths");
        length = own;
    }
    std::vector<Operand> carried;
    for (size_t i = 0; i < states; ++i) carried.push_back(call.given(i));
    std::vector<std::vector<Operand>> made(outputs);
    for (int64_t number = 0; number < length; ++number) {
        std::vector<Operand> inputs = carried;
        for (size_t i = 0; i < count; ++i) {
            const size_t input = states + i, axis = call.axis(axes[i], call.rank(input));
            const int64_t at = directions[i] != 0 ? length - 1 - number : number;
            const bool known = call.in(input).constant() && !is_real(call.type(input));
            inputs.push_back(known ? known_part_of(call, input, axis, at) : part_of(call, input, axis, at));
        }
        std::vector<Operand> results = iteration(body, number, inputs);
        for (size_t i = 0; i < states; ++i) carried[i] = results[i];
        for (size_t i = 0; i < outputs; ++i) made[i].push_back(results[states + i]);
    }
    for (size_t i = 0; i < states && i < call.outputs(); ++i) define(scope, call.node.outputs[i], carried[i]);
    for (size_t i = 0; i < outputs; ++i) {
        if (call.wants(states + i)) stack(call, states + i, made[i], joined[i], back[i] != 0);
    }
}

void Importer::import_iterations(const NodeModel& node, Scope& scope, const graph::Source& source) {
    std::string lost;
    Call call(graph_, node, scope.opsets->at(""), source, operands(node, scope, lost));
    if (!lost.empty())
        throw Unsupported(fmt::format("not looked at: `{}` before it cannot be imported", lost));
    const size_t first = graph_.values.size();
    Body body = body_of(node, scope, source);
    node.type == "Loop" ? import_loop(call, std::move(body), scope)
                        : import_scan(call, std::move(body), scope);
    give_results(call, scope, first);
}

}  // namespace kpu::onnx
