// Fourier transforms and the windows before them: products with constant matrices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/convolutions.hpp"
#include "compiler/onnx/products/products.hpp"

namespace kpu::onnx {
namespace {

const double tau = 2 * std::acos(-1.0);

/// A transform along one dimension.
struct Transform {
    int64_t size = 0;    ///< size of the operand that it takes
    int64_t length = 0;  ///< length of the transform: what the operand lacks is 0
    int64_t parts = 1;   ///< parts of an element: 2 are real and imaginary
    int64_t results = 0;
    int64_t parts_of_result = 2;
    bool inverse = false;
};

/// Returns the real part of a real spectrum's inverse: the other half of the spectrum mirrors this one.
double mirrored(const Transform& t, int64_t k) { return k == 0 || 2 * k == t.length ? 1 : 2; }

/// Returns what part p of element n adds to part q of result k.
double factor(const Transform& t, int64_t n, int64_t p, int64_t k, int64_t q) {
    const double turns = static_cast<double>(n % t.length * (k % t.length) % t.length);
    const double angle = (t.inverse ? tau : -tau) * turns / static_cast<double>(t.length);
    const double value = p == q ? std::cos(angle) : p == 0 ? std::sin(angle) : -std::sin(angle);
    if (!t.inverse) return value;
    const double weight = t.parts_of_result == 1 ? mirrored(t, n) : 1;
    return value * weight / static_cast<double>(t.length);
}

/// Returns the matrix [size * parts, results * parts of each].
Known matrix_of(const Transform& t) {
    const int64_t rows = t.size * t.parts, columns = t.results * t.parts_of_result;
    Call::check_made({rows, columns});
    Known matrix{Type::f32, {rows, columns}, {}, {}};
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column)
            matrix.reals.push_back(factor(t, row / t.parts, row % t.parts, column / t.parts_of_result,
                                          column % t.parts_of_result));
    }
    return matrix;
}

Transform transform_of(Call& call, const Sizes& shape, size_t axis) {
    Transform t;
    t.parts = shape.back();
    t.inverse = call.integer("inverse", 0) != 0;
    const bool onesided = call.integer("onesided", 0) != 0;
    if (t.parts != 1 && t.parts != 2) Call::refuse("its operand is neither real nor complex");
    const bool to_real = onesided && t.inverse;
    if (to_real && t.parts != 2) Call::refuse("the inverse of one side takes complex numbers");
    if (onesided && !t.inverse && t.parts != 1)
        Call::refuse("one side of the spectrum is that of real numbers");
    t.length = call.has(1) ? call.integer_of(1, "dft_length") : to_real ? 2 * (shape[axis] - 1) : shape[axis];
    if (t.length < 1 || t.length > INT32_MAX)
        Call::refuse(fmt::format("a length of {} is not taken", t.length));
    t.size = std::min(shape[axis], to_real ? t.length / 2 + 1 : t.length);
    t.results = onesided && !t.inverse ? t.length / 2 + 1 : t.length;
    t.parts_of_result = to_real ? 1 : 2;
    return t;
}

void dft(Call& call) {
    const Sizes shape = call.shape(0);
    if (shape.size() < 2) Call::refuse("its operand has less than two dimensions");
    const int64_t given = call.opset < 20 ? call.integer("axis", 1)
                          : call.has(2)   ? call.integer_of(2, "axis")
                                          : -2;
    const size_t axis = call.axis(given, static_cast<int64_t>(shape.size())), last = shape.size() - 1;
    if (axis == last) Call::refuse("its axis is that of real and imaginary parts");
    const Transform t = transform_of(call, shape, axis);
    ValueId x = call.value(0);
    if (!is_float(call.elem(x))) Call::refuse("its operand is not a float");
    x = call.slice(x, static_cast<int64_t>(axis), 0, t.size);
    const Sizes perm = swapped_perm(shape.size(), axis, last - 1);
    Sizes moved = call.sizes(x = call.transpose(x, perm));
    const int64_t rows = elements_of(moved) / (t.size * t.parts);
    const ValueId y =
        matmul(call, call.reshape(x, {rows, t.size * t.parts}), call.constant(matrix_of(t), call.elem(x)));
    moved[last - 1] = t.results;
    moved[last] = t.parts_of_result;
    call.result(call.transpose(call.reshape(y, moved), perm));
}

/// Transforms of overlapping frames: a convolution along the signal.
void stft(Call& call) {
    const Sizes shape = call.shape(0);
    if (shape.size() != 3) Call::refuse("its signal has not three dimensions");
    Transform t;
    t.parts = shape[2];
    if (t.parts != 1 && t.parts != 2) Call::refuse("its operand is neither real nor complex");
    const int64_t step = call.integer_of(1, "frame_step");
    std::vector<double> window;
    if (call.has(2)) {
        const Known& given = call.known(2, "window");
        for (size_t i = 0; i < given.size(); ++i) window.push_back(given.number(i));
    }
    t.length = t.size =
        call.has(3) ? call.integer_of(3, "frame_length") : static_cast<int64_t>(window.size());
    if (window.empty()) window.assign(static_cast<size_t>(std::clamp<int64_t>(t.length, 0, shape[1])), 1);
    if (step < 1 || step > INT32_MAX || t.length < 1 || t.length > shape[1] ||
        window.size() != static_cast<size_t>(t.length))
        Call::refuse("its frames do not fit to the signal or the window");
    t.results = call.integer("onesided", 1) != 0 && t.parts == 1 ? t.length / 2 + 1 : t.length;
    const Known matrix = matrix_of(t);  // of rows n * parts + p
    const int64_t outputs = 2 * t.results;
    Known weights{Type::f32, {outputs, t.parts, t.length}, {}, {}};
    for (int64_t o = 0; o < outputs; ++o) {
        for (int64_t p = 0; p < t.parts; ++p) {
            for (int64_t n = 0; n < t.length; ++n)
                weights.reals.push_back(matrix.reals[static_cast<size_t>((n * t.parts + p) * outputs + o)] *
                                        window[static_cast<size_t>(n)]);
        }
    }
    const ValueId x = call.value(0);
    if (!is_float(call.elem(x))) Call::refuse("its operand is not a float");
    const ValueId y = convolution(call, call.transpose(x, {0, 2, 1}), call.constant(weights, call.elem(x)),
                                  std::nullopt, {{t.length}, {step}, {1}, {0, 0}}, 1, call.elem(x));
    const int64_t frames = call.sizes(y)[2];
    call.result(call.transpose(call.reshape(y, {shape[0], t.results, 2, frames}), {0, 3, 1, 2}));
}

/// Makes a constant of cosines: a - b cos + c cos of twice the angle.
void window(Call& call, double a, double b, double c) {
    const int64_t size = call.integer_of(0, "size");
    if (size < 1) Call::refuse(fmt::format("a size of {} is not taken", size));
    Call::check_made({size});
    const int64_t type = call.integer("output_datatype", static_cast<int64_t>(Type::f32));
    if (type != static_cast<int64_t>(Type::f32)) Call::refuse("its result is not a float");
    const auto period = static_cast<double>(call.integer("periodic", 1) != 0 ? size : size - 1);
    Known result{Type::f32, {size}, {}, {}};
    for (int64_t i = 0; i < size; ++i) {
        const double angle = period > 0 ? tau * static_cast<double>(i) / period : 0;
        result.reals.push_back(a - b * std::cos(angle) + c * std::cos(2 * angle));
    }
    call.result(0, std::move(result));
}
void hann(Call& call) { window(call, 0.5, 0.5, 0); }
void hamming(Call& call) { window(call, 25.0 / 46, 1 - 25.0 / 46, 0); }
void blackman(Call& call) { window(call, 0.42, 0.5, 0.08); }

}  // namespace

void add_spectra(Operators& t) {
    t.push_back({"DFT", dft, 17});
    t.push_back({"STFT", stft, 17});
    t.push_back({"HannWindow", hann, 17});
    t.push_back({"HammingWindow", hamming, 17});
    t.push_back({"BlackmanWindow", blackman, 17});
}

}  // namespace kpu::onnx
