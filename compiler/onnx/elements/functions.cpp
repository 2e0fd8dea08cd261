// Operators that ONNX itself defines by others: losses, gated units, crops.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/onnx/operators.hpp"

namespace kpu::onnx {
namespace {

/// Computes -x[n, target[n, ...], ...] times the weight of the target, over the mean or sum.
ValueId likelihood_loss(Call& call, ValueId x) {
    const Sizes shape = call.sizes(x);
    if (shape.size() < 2) Call::refuse("its operand has no classes");
    Sizes places(shape.size(), 1), of_target = shape;
    places[1] = shape[1];
    of_target[1] = 1;
    const ElemType elem = call.elem(x);
    const ValueId target = call.reshape(call.cast(call.value(1), ElemType::i32), of_target);
    const Known classes{Type::i64, places, identity_perm(static_cast<size_t>(shape[1])), {}};
    const ValueId hit = call.emit("equal", {target, call.constant(classes, ElemType::i32)}, {}, truth);
    const ValueId zero = call.number(0, elem);
    const auto chosen = [&](ValueId values) {
        return call.reduce("reduce_sum", call.emit("where", {hit, values, zero}, {}, elem), {1}, false);
    };
    ValueId loss = call.unary("neg", chosen(x));
    ValueId weights = chosen(call.has(2) ? call.reshape(call.value(2), places) : call.number(1, elem));
    if (call.has_attribute("ignore_index")) {
        const auto ignored = static_cast<double>(call.integer("ignore_index", 0));
        const ValueId flat = call.reshape(target, call.sizes(loss));
        const ValueId gone = call.emit("equal", {flat, call.number(ignored, ElemType::i32)}, {}, truth);
        weights = call.emit("where", {gone, zero, weights}, {}, elem);
        loss = call.emit("where", {gone, zero, loss}, {}, elem);
    }
    loss = call.binary("mul", loss, weights);
    const std::string kind = call.text("reduction", "mean");
    if (kind == "none") return loss;
    const Sizes all = identity_perm(call.sizes(loss).size());
    const ValueId sum = call.reduce("reduce_sum", loss, all, false);
    return kind == "sum" ? sum : call.binary("div", sum, call.reduce("reduce_sum", weights, all, false));
}

void negative_log_likelihood(Call& call) { call.result(likelihood_loss(call, call.value(0))); }

void cross_entropy(Call& call) {
    const ValueId logs = call.emit("log_softmax", {call.value(0)}, {graph::integer("axis", 1)});
    call.result(likelihood_loss(call, logs));
    if (call.wants(1)) call.result(1, logs, call.type(0));
}

/// Takes the middle of each axis: cut where it is too long, zeros where it is too short.
void center_crop_pad(Call& call) {
    const Sizes wanted = call.ints_of(1, "target sizes");
    const Sizes axes = call.ints("axes", identity_perm(call.shape(0).size()));
    if (axes.size() != wanted.size()) Call::refuse("it needs a size for each axis");
    ValueId x = call.value(0);
    for (size_t i = 0; i < axes.size(); ++i) {
        const size_t d = call.axis(axes[i], call.rank(0));
        if (wanted[i] < 1 || wanted[i] > INT32_MAX)
            Call::refuse(fmt::format("a size of {} is not taken", wanted[i]));
        const int64_t size = call.sizes(x)[d], more = wanted[i] - size;
        if (more < 0) {
            const int64_t start = -more / 2;
            x = call.slice(x, static_cast<int64_t>(d), start, start + wanted[i]);
        } else {
            Sizes pads(2 * call.shape(0).size(), 0);
            pads[d] = more / 2;
            pads[d + call.shape(0).size()] = more - more / 2;
            x = call.pad(x, pads, 0);
        }
    }
    call.result(x);
}

/// Sequences of a batch, each reversed up to its length.
void reverse_sequence(Call& call) {
    const Sizes shape = call.shape(0);
    if (shape.size() < 2) Call::refuse("it needs two dimensions");
    const size_t batch = call.axis("batch_axis", 1, call.rank(0)),
                 time = call.axis("time_axis", 0, call.rank(0));
    if (batch > 1 || time > 1 || batch == time) Call::refuse("its axes are not the first two");
    const Sizes lengths = call.ints_of(1, "sequence lengths");
    if (static_cast<int64_t>(lengths.size()) != shape[batch])
        Call::refuse("it needs a length for each sequence");
    Call::check_made({shape[0], shape[1]});
    Known rows{Type::i64, {shape[0] * shape[1]}, {}, {}};
    for (int64_t i = 0; i < shape[0]; ++i) {
        for (int64_t j = 0; j < shape[1]; ++j) {
            const int64_t sequence = batch == 0 ? i : j, at = batch == 0 ? j : i,
                          length = lengths[static_cast<size_t>(sequence)];
            if (length < 0 || length > shape[time])
                Call::refuse(fmt::format("a length of {} is not taken", length));
            const int64_t from = at < length ? length - 1 - at : at;
            rows.ints.push_back(batch == 0 ? sequence * shape[1] + from : from * shape[1] + sequence);
        }
    }
    const ValueId matrix =
        call.reshape(call.value(0), {shape[0] * shape[1], elements_of(shape) / shape[0] / shape[1]});
    const ValueId moved =
        call.emit("gather", {matrix, call.constant(rows, ElemType::i32)}, {graph::integer("axis", 0)});
    call.result(call.reshape(moved, shape));
}

}  // namespace

void add_functions(Operators& t) {
    t.push_back({"NegativeLogLikelihoodLoss", negative_log_likelihood, 12});
    t.push_back({"SoftmaxCrossEntropyLoss", cross_entropy, 12});
    t.push_back({"CenterCropPad", center_crop_pad, 18});
    t.push_back({"ReverseSequence", reverse_sequence, 10});
}

}  // namespace kpu::onnx
