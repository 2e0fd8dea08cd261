#include "compiler/onnx/products/windows.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kpu::onnx {
namespace {

constexpr int64_t most = int64_t{1} << 30;  ///< products of two fit

/// Pads so that there are as many windows as strides fit, the pads shared; an odd one goes after (SAME_UPPER)
/// or before.
void pad_same(Window& window, const Sizes& spatial, bool upper) {
    for (size_t d = 0; d < window.rank(); ++d) {
        const int64_t count = (spatial[d] + window.strides[d] - 1) / window.strides[d];
        const int64_t total =
            std::max<int64_t>(0, (count - 1) * window.strides[d] + window.extent(d) - spatial[d]);
        const int64_t less = total / 2, more = total - less;
        window.pads[d] = upper ? less : more;
        window.pads[d + window.rank()] = upper ? more : less;
    }
}

}  // namespace

Sizes spatial_of(const Sizes& shape) {
    if (shape.size() < 3)
        Call::refuse(fmt::format("its operand {} has no dimensions to move along", text_of(shape)));
    return {shape.begin() + 2, shape.end()};
}

Window window_of(const Call& call, const Sizes& kernel, const Sizes& spatial) {
    const size_t rank = spatial.size();
    Window window{kernel, call.ints("strides", Sizes(rank, 1)), call.ints("dilations", Sizes(rank, 1)),
                  call.ints("pads", Sizes(2 * rank, 0))};
    const bool complete = kernel.size() == rank && window.strides.size() == rank &&
                          window.dilations.size() == rank && window.pads.size() == 2 * rank;
    if (!complete)
        Call::refuse(fmt::format("kernel_shape, strides, dilations or pads are not for {} dimensions", rank));
    for (size_t d = 0; d < rank; ++d) {
        if (kernel[d] < 1 || window.strides[d] < 1 || window.dilations[d] < 1 || kernel[d] > most ||
            window.strides[d] > most || window.dilations[d] > most)
            Call::refuse("kernel_shape, strides or dilations are not positive");
    }
    for (const int64_t pad : window.pads) {
        if (pad < 0 || pad > most) Call::refuse(fmt::format("pads of {} are not taken", pad));
    }
    const std::string mode = call.text("auto_pad", "NOTSET");
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
        pad_same(window, spatial, mode == "SAME_UPPER");
    } else if (mode == "VALID") {
        window.pads.assign(2 * rank, 0);
    } else if (mode != "NOTSET" && !mode.empty()) {
        Call::refuse(fmt::format("auto_pad {} is not known", mode));
    }
    return window;
}

ValueId channels_last(Call& call, ValueId x) {
    Sizes perm = identity_perm(call.sizes(x).size());
    std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
    return call.transpose(x, perm);
}

ValueId channels_first(Call& call, ValueId x) {
    Sizes perm = identity_perm(call.sizes(x).size());
    std::rotate(perm.begin() + 1, perm.end() - 1, perm.end());
    return call.transpose(x, perm);
}

}  // namespace kpu::onnx
