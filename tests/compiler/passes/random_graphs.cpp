#include "tests/compiler/passes/random_graphs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kpu::passes::testing {

using graph::attributes;
using graph::integer;
using graph::ints;
using graph::real;

int64_t pick(Random& random, int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

std::vector<float> random_floats(Random& random, uint64_t count, double low, double high) {
    std::vector<float> result;
    for (uint64_t i = 0; i < count; ++i)
        result.push_back(
            static_cast<float>(low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53));
    return result;
}

BoundAttrs accumulate() { return attributes({graph::type("accum_type", ElemType::f32)}); }

ValueId random_constant(Graph& graph, Random& random, const std::vector<int64_t>& shape, double low,
                        double high) {
    const auto elements = static_cast<uint64_t>(graph::dims(shape).product());
    return constant(graph, shape, random_floats(random, elements, low, high));
}

graph::NodeOptions Builder::next(const std::string& type) {
    return named(fmt::format("{}_{}", type, nodes++), type);
}

ValueId Builder::node(const std::string& opcode, std::vector<ValueId> operands, BoundAttrs attrs) {
    return graph.add_node(opcode, std::move(operands), std::move(attrs), next(opcode));
}

ValueId Builder::transpose(ValueId x, std::vector<int64_t> perm) {
    return node("transpose", {x}, attributes({ints("perm", std::move(perm))}));
}

ValueId Builder::reshape(ValueId x, std::vector<int64_t> shape) {
    return node("reshape", {x}, attributes({ints("target_shape", std::move(shape))}));
}

ValueId Builder::conv(ValueId nchw, int64_t channels, int64_t kernel, int64_t stride, bool depthwise) {
    const int64_t in = shape(nchw)[1];
    const int64_t out = depthwise ? in : channels;
    const double scale = 1.0 / std::sqrt(static_cast<double>((depthwise ? 1 : in) * kernel * kernel));
    const ValueId w =
        random_constant(graph, random, {kernel, kernel, depthwise ? 1 : in, out}, -scale, scale);
    std::vector<ValueId> operands{transpose(nchw, {0, 2, 3, 1}), w};
    if (pick(random, 0, 2) == 0) operands.push_back(random_constant(graph, random, {out}));
    const int64_t pad = kernel / 2;
    BoundAttrs attrs = attributes({ints("pads", {pad, pad, pad, pad}), ints("strides", {stride, stride}),
                                   ints("dilations", {1, 1}), graph::type("accum_type", ElemType::f32)});
    if (!depthwise) attrs.list.push_back(integer("groups", 1));
    return transpose(node(depthwise ? "depthwise_conv2d" : "conv2d", operands, attrs), {0, 3, 1, 2});
}

ValueId Builder::batch_norm(ValueId nchw) {
    const int64_t channels = shape(nchw)[1];
    const ValueId scaled = node("mul", {nchw, random_constant(graph, random, {channels, 1, 1}, 0.5, 1.5)});
    return node("add", {scaled, random_constant(graph, random, {1, channels, 1, 1})});
}

ValueId Builder::pool(ValueId nchw, const std::string& opcode) {
    const BoundAttrs window =
        attributes({ints("kernel_shape", {2, 2}), ints("pads", {0, 0, 0, 0}), ints("strides", {2, 2})});
    return transpose(node(opcode, {transpose(nchw, {0, 2, 3, 1})}, window), {0, 3, 1, 2});
}

ValueId Builder::mean_of_pixels(ValueId nchw, bool keep) {
    return node("reduce_mean", {nchw}, attributes({ints("axes", {2, 3}), integer("keepdims", keep ? 1 : 0)}));
}

ValueId Builder::linear(ValueId x, int64_t columns) {
    const Dims from = shape(x);
    const int64_t depth = from[from.rank - 1U];
    const double scale = 1.0 / std::sqrt(static_cast<double>(depth));
    const ValueId w = random_constant(graph, random, {depth, columns}, -scale, scale);
    const bool flat = from.rank == 2;
    const ValueId rows = flat ? x : reshape(x, {-1, depth});
    ValueId y = node("matmul", {rows, w}, attributes({graph::type("accum_type", ElemType::f32)}));
    if (!flat) {
        std::vector<int64_t> back(from.begin(), from.end());
        back.back() = columns;
        y = reshape(y, back);
    }
    return node("add", {y, random_constant(graph, random, {columns})});
}

ValueId Builder::layer_norm(ValueId x, bool spelled_out) {
    const int64_t last = shape(x).rank - 1, width = shape(x)[static_cast<size_t>(last)];
    const ValueId scale = random_constant(graph, random, {width}),
                  bias = random_constant(graph, random, {width});
    if (!spelled_out)
        return node("layernorm", {x, scale, bias}, attributes({integer("axis", -1), real("epsilon", 1e-5)}));
    const auto mean = [&](ValueId v) {
        return node("reduce_mean", {v}, attributes({ints("axes", {-1}), integer("keepdims", 1)}));
    };
    const ValueId d = node("sub", {x, mean(x)});
    const ValueId variance = mean(node("pow", {d, constant(graph, {}, {2})}));
    const ValueId root = node("sqrt", {node("add", {variance, constant(graph, {}, {1e-5F})})});
    return node("add", {node("mul", {node("div", {d, root}), scale}), bias});
}

Graph random_conv_net(uint64_t seed) {
    Builder b(seed);
    Random& random = b.random;
    const int64_t size = 4 * pick(random, 2, 3), batch = pick(random, 1, 2);
    ValueId x =
        b.graph.add_input("image", ElemType::f32, graph::dims({batch, pick(random, 1, 3), size, size + 4}));
    x = b.batch_norm(b.conv(x, pick(random, 2, 6), 3, 1));
    for (int block = 0; block < 3; ++block) {
        const ValueId before = x;
        switch (pick(random, 0, 4)) {
            case 0:  // residual
                x = b.node("relu", {b.batch_norm(b.conv(x, b.shape(x)[1], 3, 1))});
                x = b.node("add", {b.batch_norm(b.conv(x, b.shape(x)[1], 3, 1)), before});
                x = b.node("relu", {x});
                break;
            case 1:  // branches
                x = b.node("concat", {b.node("relu", {b.conv(x, 3, 1, 1)}), b.conv(x, 2, 3, 1), x},
                           attributes({integer("axis", 1)}));
                break;
            case 2:  // squeeze and excite
                x = b.node("relu", {b.batch_norm(b.conv(x, 0, 3, 1, true))});
                x = b.node("mul",
                           {x, b.node("sigmoid", {b.conv(b.mean_of_pixels(x, true), b.shape(x)[1], 1, 1)})});
                break;
            case 3:
                x = b.node("pad", {x},
                           attributes({ints("pads", {0, 0, 1, 0, 0, 0, 1, 2}),
                                       graph::word("mode", "constant"), real("constant_value", 0.5)}));
                x = b.node("clamp", {b.batch_norm(x)}, attributes({real("min_val", 0), real("max_val", 6)}));
                break;
            default:
                x = b.pool(b.node("silu", {x}), pick(random, 0, 1) == 0 ? "maxpool" : "avgpool");
        }
    }
    if (pick(random, 0, 2) == 0) output(b.graph, x);
    const bool flatten = pick(random, 0, 1) == 0;
    const Dims last = b.shape(x);
    x = flatten ? b.reshape(x, {last[0], -1}) : b.mean_of_pixels(x, false);
    output(b.graph, b.node("softmax", {b.linear(x, 5)}, attributes({integer("axis", 1)})));
    return std::move(b.graph);
}

namespace {
ValueId attention(Builder& b, ValueId x, int64_t heads) {
    const Dims shape = b.shape(x);
    const int64_t batch = shape[0], length = shape[1], width = shape[2], depth = width / heads;
    const auto head = [&](ValueId v, std::vector<int64_t> perm) {
        return b.transpose(b.reshape(b.linear(v, width), {batch, length, heads, depth}), std::move(perm));
    };
    ValueId scores = b.node("matmul", {head(x, {0, 2, 1, 3}), head(x, {0, 2, 3, 1})}, accumulate());
    scores = b.node("div", {scores, constant(b.graph, {}, {2})});
    scores = b.node("add", {scores, random_constant(b.graph, b.random, {length, length})});
    scores = b.node("softmax", {scores}, attributes({integer("axis", -1)}));
    const ValueId mixed = b.node("matmul", {scores, head(x, {0, 2, 1, 3})}, accumulate());
    return b.linear(b.reshape(b.transpose(mixed, {0, 2, 1, 3}), {batch, length, width}), width);
}
}  // namespace

Graph random_transformer(uint64_t seed) {
    Builder b(seed);
    Random& random = b.random;
    const int64_t heads = pick(random, 1, 3), width = heads * 4, length = pick(random, 2, 6),
                  batch = pick(random, 1, 2);
    ValueId x = b.graph.add_input("tokens", ElemType::f32, graph::dims({batch, length, width}));
    x = b.node("add", {x, random_constant(b.graph, random, {1, length, width})});
    for (int layer = 0; layer < 2; ++layer) {
        x = b.node("add", {x, attention(b, b.layer_norm(x, pick(random, 0, 1) == 0), heads)});
        const ValueId hidden = b.linear(b.layer_norm(x, pick(random, 0, 1) == 0), 2 * width);
        const ValueId gate = pick(random, 0, 1) == 0 ? b.node("gelu", {hidden})
                                                     : b.node("mul", {hidden, b.node("sigmoid", {hidden})});
        x = b.node("add", {b.linear(gate, width), x});
    }
    output(b.graph, b.linear(b.layer_norm(x, true), 7));
    return std::move(b.graph);
}

namespace {
/// Returns any permutation of four dimensions.
std::vector<int64_t> random_perm(Random& random) {
    std::vector<int64_t> perm{0, 1, 2, 3};
    std::shuffle(perm.begin(), perm.end(), random);
    return perm;
}

ValueId random_step(Builder& b, ValueId x, const std::vector<ValueId>& made) {
    Random& random = b.random;
    const Dims shape = b.shape(x);
    const auto axis = static_cast<size_t>(pick(random, 0, 3));
    const auto along = static_cast<int64_t>(axis) - (pick(random, 0, 1) == 0 ? 4 : 0);
    switch (pick(random, 0, 11)) {
        case 0:
        case 1:
        case 2:
            return b.transpose(x, random_perm(random));
        case 3:
            return b.node("tanh", {x});
        case 4: {
            std::vector<int64_t> sizes(shape.begin() + pick(random, 0, 3), shape.end());
            for (int64_t& size : sizes) size = pick(random, 0, 1) == 0 ? 1 : size;
            return b.node("add", {random_constant(b.graph, random, sizes), x});
        }
        case 5:
            return b.node("concat", {x, b.node("neg", {x})}, attributes({integer("axis", along)}));
        case 6:
            return b.node("softmax", {x}, attributes({integer("axis", along)}));
        case 7: {
            std::vector<int64_t> pads(8, 0);
            pads[axis] = 1;
            pads[axis + 4] = shape[axis] > 1 ? 1 : 0;
            return b.node("pad", {x}, attributes({ints("pads", pads), graph::word("mode", "edge")}));
        }
        case 8:
            return b.node("slice", {x},
                          attributes({ints("starts", {-1}), ints("ends", {-1000}), ints("axes", {along}),
                                      ints("steps", {pick(random, 0, 1) == 0 ? -1 : -2})}));
        case 9:
            return b.node("reduce_sum", {x}, attributes({ints("axes", {along}), integer("keepdims", 1)}));
        case 10: {
            const ValueId scale = random_constant(b.graph, random, {shape[axis]});
            return b.node("rmsnorm", {x, scale}, attributes({integer("axis", along), real("epsilon", 1e-3)}));
        }
        default:
            for (const ValueId other : made) {
                if (other != x && b.shape(other) == shape) return b.node("sub", {x, other});
            }
            return b.node("abs", {x});
    }
}
}  // namespace

Graph random_mixture(uint64_t seed) {
    Builder b(seed);
    Random& random = b.random;
    std::vector<ValueId> made;
    for (const char* name : {"a", "b"}) {
        Dims shape = graph::dims({2, pick(random, 1, 3), 3, pick(random, 1, 4)});
        made.push_back(b.graph.add_input(name, ElemType::f32, shape));
    }
    for (int step = 0; step < 14; ++step) {
        const auto last = static_cast<int64_t>(made.size()) - 1;
        const ValueId x = made[static_cast<size_t>(pick(random, std::max<int64_t>(0, last - 3), last))];
        if (b.graph.value(x).elements() > 5000) continue;
        made.push_back(random_step(b, x, made));
        if (pick(random, 0, 9) == 0) output(b.graph, made.back());
    }
    output(b.graph, made.back());
    return std::move(b.graph);
}

// ---- executing

values::ComputeBackend& engine() {
    static const std::unique_ptr<values::ComputeBackend> backend = values::make_fast_backend();
    return *backend;
}

Options options() { return Options{engine()}; }

Options options_of_array(uint64_t side) {
    Options how = options();
    how.supports = [](auto&&...) { return true; };
    how.product_cycles = [side](const ProductShape& of) {
        const auto parts = [side](uint64_t size) { return (size + side - 1) / side; };
        return double(of.groups * parts(of.m) * parts(of.n) * std::max(of.k, side));
    };
    how.ddr_bytes_per_cycle = 1e9;
    return how;
}

std::vector<Data> random_inputs(const Graph& graph, Random& random) {
    std::vector<Data> result;
    for (const graph::Port& port : graph.inputs)
        result.push_back(graph::testing::data_of(random_floats(random, host_bytes(graph, port) / 4)));
    return result;
}

std::vector<std::vector<float>> outputs_of(const Graph& graph, const std::vector<Data>& host_inputs) {
    graph::check(graph);
    std::vector<std::vector<float>> result;
    for (const Data& data : run_on_host(graph, engine(), host_inputs))
        result.push_back(graph::testing::elements_of<float>(data));
    return result;
}

double difference(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
    if (a.size() != b.size()) return HUGE_VAL;
    double worst = 0;
    for (size_t o = 0; o < a.size(); ++o) {
        if (a[o].size() != b[o].size()) return HUGE_VAL;
        double range = 1e-30, most = 0;
        for (size_t i = 0; i < a[o].size(); ++i) {
            range = std::max(range, std::fabs(static_cast<double>(a[o][i])));
            const double gap = std::fabs(static_cast<double>(a[o][i]) - static_cast<double>(b[o][i]));
            most = std::isnan(gap) ? HUGE_VAL : std::max(most, gap);
        }
        worst = std::max(worst, most / range);
    }
    return worst;
}

std::string opcodes_of(const Graph& graph) {
    std::string text;
    for (const Node& node : graph.nodes)
        text += fmt::format("{}{}", text.empty() ? "" : " ", node.spec().name);
    return text;
}

size_t count(const Graph& graph, const std::string& opcode) {
    const auto same = [&](const Node& node) { return node.spec().name == opcode; };
    return static_cast<size_t>(std::count_if(graph.nodes.begin(), graph.nodes.end(), same));
}

uint64_t moved(const Graph& graph) {
    uint64_t elements = 0;
    for (const Node& node : graph.nodes) {
        if (node.spec().name == "transpose") elements += graph.value(node.inputs[0]).elements();
    }
    return elements;
}

const Node& find(const Graph& graph, const std::string& opcode) {
    for (const Node& node : graph.nodes) {
        if (node.spec().name == opcode) return node;
    }
    throw InternalError("no node " + opcode);
}

std::vector<std::string> absorbed(const Node& node) {
    std::vector<std::string> names;
    for (const graph::Source& source : node.absorbed) names.push_back(source.name);
    return names;
}

}  // namespace kpu::passes::testing
