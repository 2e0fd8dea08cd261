#include "compiler/onnx/elements/activations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace kpu::onnx {

ValueId activate(Call& call, const Activation& f, ValueId x) {
    using graph::real;
    std::string name = f.name;
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    if (name == "sigmoid" || name == "tanh" || name == "relu" || name == "softplus")
        return call.unary(name, x);
    if (name == "affine") return call.binary("add", call.binary("mul", x, f.alpha), f.beta);
    if (name == "leakyrelu") return call.emit("leaky_relu", {x}, {real("alpha", f.alpha)});
    if (name == "thresholdedrelu") return call.emit("thresholded_relu", {x}, {real("alpha", f.alpha)});
    if (name == "elu") return call.emit("elu", {x}, {real("alpha", f.alpha)});
    if (name == "hardsigmoid")
        return call.emit("hard_sigmoid", {x}, {real("alpha", f.alpha), real("beta", f.beta)});
    if (name == "scaledtanh")
        return call.binary("mul", call.unary("tanh", call.binary("mul", x, f.beta)), f.alpha);
    if (name == "softsign") return call.binary("div", x, call.binary("add", call.unary("abs", x), 1.0));
    Call::refuse(fmt::format("its activation {} is not known", f.name));
}

}  // namespace kpu::onnx
