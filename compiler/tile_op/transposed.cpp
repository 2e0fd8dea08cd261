#include "compiler/tile_op/transposed.hpp"

#include <algorithm>

namespace kpu::compiler {
namespace {

int64_t at(const BoundAttrs& attrs, std::string_view name, size_t i, int64_t fallback) {
    const BoundAttr* found = attrs.find(name);
    return found == nullptr || i >= found->ints.size() ? fallback : found->ints[i];
}

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

}  // namespace

// Element i of X reaches [i * step - pad, i * step - pad + reach) of Y, `reach` the size of a dilated window.
std::optional<Window> transposed_window(const BoundAttrs& attrs, size_t d, int64_t x, int64_t w, int64_t y) {
    const int64_t step = at(attrs, "strides", d, 1), reach = at(attrs, "dilations", d, 1) * (w - 1) + 1,
                  pad = at(attrs, "pads", d, 0);
    if (y != x * step) return std::nullopt;
    const int64_t before = std::max<int64_t>(0, floor_div(reach - 1 - pad, step)),
                  behind = std::max<int64_t>(0, floor_div(pad - 1, step) + 1);
    return Window{-1, 1, before + 1 + behind, before};
}

void crop_transposed(BoundAttrs& attrs, size_t d, int64_t w, const Window& window, const Part& x,
                     int64_t wanted) {
    const int64_t step = at(attrs, "strides", d, 1), reach = at(attrs, "dilations", d, 1) * (w - 1) + 1,
                  first = at(attrs, "pads", d, 0) + step * (window.before - x.before),
                  rest = (x.size - 1) * step + reach - first - wanted;
    if (rest < 0 && attrs.find("output_padding") == nullptr)
        attrs.list.push_back(graph::ints("output_padding", {0, 0}));
    for (BoundAttr& attribute : attrs.list) {
        if (attribute.name == "pads") {
            attribute.ints[d] = first;
            attribute.ints[d + attribute.ints.size() / 2] = std::max<int64_t>(0, rest);
        } else if (attribute.name == "output_padding") {
            attribute.ints[d] = std::max<int64_t>(0, -rest);
        }
    }
}

}  // namespace kpu::compiler
