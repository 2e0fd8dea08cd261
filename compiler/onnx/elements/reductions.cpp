// Reductions along axes, searches.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/onnx/operators.hpp"

namespace kpu::onnx {
namespace {

/// Axes moved from an attribute to an operand: with opset 13 of ReduceSum, with 18 of the others.
struct Axes {
    Sizes axes;  ///< from the front, sorted; empty: nothing is reduced
    bool keep = true;
};

Axes axes_of(Call& call) {
    const int64_t since = call.node.type == "ReduceSum" ? 13 : 18;
    const Sizes given = call.ints("axes", 1, since);
    Axes result{{}, call.integer("keepdims", 1) != 0};
    for (const int64_t axis : given)
        result.axes.push_back(static_cast<int64_t>(call.axis(axis, call.rank(0))));
    std::sort(result.axes.begin(), result.axes.end());
    result.axes.erase(std::unique(result.axes.begin(), result.axes.end()), result.axes.end());
    const bool nothing = call.opset >= since && call.integer("noop_with_empty_axes", 0) != 0;
    if (given.empty() && !nothing) result.axes = identity_perm(call.shape(0).size());
    return result;
}

/// Computes log(sum(exp(x))) by the greatest element, so that nothing overflows.
ValueId log_sum_exp(Call& call, ValueId x, const Axes& axes) {
    const ValueId greatest = call.reduce("reduce_max", x, axes.axes, true);
    const ValueId powers = call.unary("exp", call.binary("sub", x, greatest));
    const ValueId sum = call.unary("log", call.reduce("reduce_sum", powers, axes.axes, axes.keep));
    return call.binary("add", sum, call.reshape(greatest, call.sizes(sum)));
}

void reduce(Call& call) {
    const std::string& type = call.node.type;
    const Axes axes = axes_of(call);
    ValueId x = call.value(0);
    const auto apply = [&](std::string_view opcode, ValueId operand) {
        return call.reduce(opcode, operand, axes.axes, axes.keep);
    };
    if (type == "ReduceSum") return call.result(apply("reduce_sum", x));
    if (type == "ReduceMax") return call.result(apply("reduce_max", x));
    if (type == "ReduceMin") return call.result(apply("reduce_min", x));
    if (type == "ReduceProd") return call.result(apply("reduce_prod", x));
    if (type == "ReduceMean") return call.result(apply("reduce_mean", x));
    if (type == "ReduceL1") return call.result(apply("reduce_sum", call.unary("abs", x)));
    if (type == "ReduceSumSquare") return call.result(apply("reduce_sum", call.binary("mul", x, x)));
    if (type == "ReduceLogSum") return call.result(call.unary("log", apply("reduce_sum", x)));
    if (type == "ReduceLogSumExp") return call.result(axes.axes.empty() ? x : log_sum_exp(call, x, axes));
    if (axes.axes.empty()) return call.result(call.unary("abs", x));
    call.result(apply("reduce_l2", x));
}

void search(Call& call) {
    const size_t axis = call.axis("axis", 0, call.rank(0));
    const bool keep = call.integer("keepdims", 1) != 0;
    const auto along = static_cast<int64_t>(axis);
    std::vector<BoundAttr> attrs{graph::integer("axis", along), graph::integer("keepdims", keep ? 1 : 0)};
    if (call.opset >= 12 && call.integer("select_last_index", 0) != 0)
        attrs.push_back(graph::integer("select_last_index", 1));
    const ValueId found = call.emit(call.node.type == "ArgMax" ? "argmax" : "argmin", {call.value(0)},
                                    std::move(attrs), ElemType::i32);
    Sizes shape = call.shape(0);
    if (keep) {
        shape[axis] = 1;
    } else {
        shape.erase(shape.begin() + along);
    }
    call.result(0, call.reshape(found, shape), Type::i64);
}

void cumulative_sum(Call& call) {
    const size_t axis = call.axis(call.integer_of(1, "axes"), call.rank(0));
    call.result(call.emit("cumsum", {call.value(0)},
                          {graph::integer("axis", static_cast<int64_t>(axis)),
                           graph::integer("exclusive", call.integer("exclusive", 0)),
                           graph::integer("reverse", call.integer("reverse", 0))}));
}

/// Multiplies each element by the one `step` before it (reverse: after it), then with twice the step, until
/// all are in it.
void cumulative_product(Call& call) {
    const size_t axis = call.axis(call.integer_of(1, "axes"), call.rank(0));
    const bool reverse = call.integer("reverse", 0) != 0;
    const size_t rank = call.shape(0).size();
    const int64_t count = call.shape(0)[axis];
    const auto moved = [&](ValueId x, int64_t step) {
        if (step == count) return call.expand(call.number(1, call.elem(x)), call.sizes(x));
        Sizes pads(2 * rank, 0);
        pads[axis + (reverse ? rank : 0)] = step;
        const int64_t first = reverse ? step : 0;
        return call.pad(call.slice(x, static_cast<int64_t>(axis), first, first + count - step), pads, 1);
    };
    ValueId x = call.value(0);
    if (count > 0 && call.integer("exclusive", 0) != 0) x = moved(x, 1);
    for (int64_t step = 1; step < count; step *= 2) x = call.binary("mul", x, moved(x, step));
    call.result(x);
}

}  // namespace

void add_reductions(Operators& t) {
    for (const std::string_view type :
         {"ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean", "ReduceL1", "ReduceL2",
          "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"})
        t.push_back({type, reduce});
    t.push_back({"ArgMax", search});
    t.push_back({"ArgMin", search});
    t.push_back({"CumSum", cumulative_sum, 11});
    t.push_back({"CumProd", cumulative_product, 26});
}

}  // namespace kpu::onnx
