#include "compiler/onnx/fold/fold.hpp"

#include "compiler/onnx/operators.hpp"

namespace kpu::onnx {
namespace {

// Numbers of weights are left to the graph, which its own engine folds: these here are shapes and masks.
constexpr int64_t most_integers = int64_t{1} << 22, most_reals = 4096;

bool small_enough(const Operand& operand) {
    if (operand.type == Type::undefined) return true;
    if (element_bytes(operand.type) == 0) return false;
    return elements_of(operand.shape) <= (is_real(operand.type) ? most_reals : most_integers);
}

}  // namespace

bool fold(Call& call) {
    Folder folder = find_elementwise_folder(call.node.type);
    if (folder == nullptr) folder = find_moving_folder(call.node.type);
    if (folder == nullptr || call.inputs() == 0) return false;
    for (size_t i = 0; i < call.inputs(); ++i) {
        if (i > 0 && call.node.type == "CastLike") break;  // of the second its type alone counts
        if (!call.has(i)) continue;
        if (!small_enough(call.in(i))) return false;
    }
    return folder(call);
}

Known picked(const Known& x, Sizes shape, const std::vector<int64_t>& positions) {
    Known result{x.type, std::move(shape), {}, {}};
    (x.real() ? result.reals.reserve(positions.size()) : result.ints.reserve(positions.size()));
    for (const int64_t at : positions) {
        if (x.real()) {
            result.reals.push_back(x.reals.at(static_cast<size_t>(at)));
        } else {
            result.ints.push_back(x.ints.at(static_cast<size_t>(at)));
        }
    }
    return result;
}

Sizes strides_of(const Sizes& shape) {
    Sizes strides(shape.size(), 1);
    for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
    return strides;
}

std::vector<int64_t> broadcast_positions(const Sizes& from, const Sizes& to) {
    Sizes strides = strides_of(from);
    for (size_t d = 0; d < from.size(); ++d) {
        if (from[d] == 1) strides[d] = 0;
    }
    strides.insert(strides.begin(), to.size() - from.size(), 0);
    double elements = 1;
    for (const int64_t size : to) {
        if (size < 0) Call::refuse(text_of(to) + " is not a shape");
        elements *= static_cast<double>(size);
    }
    if (elements > static_cast<double>(most_integers))
        Call::refuse("a constant " + text_of(to) + " is too large");
    const int64_t count = elements_of(to);
    std::vector<int64_t> positions;
    Sizes index(to.size(), 0);
    int64_t at = 0;
    for (int64_t i = 0; i < count; ++i) {
        positions.push_back(at);
        for (size_t d = to.size(); d-- > 0;) {
            at += strides[d];
            if (++index[d] < to[d]) break;
            at -= strides[d] * to[d];
            index[d] = 0;
        }
    }
    return positions;
}

}  // namespace kpu::onnx
