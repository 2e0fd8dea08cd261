// Elementwise operations and conversions, in chunks of binary64.
#include <algorithm>
#include <cmath>

#include "values/fast/real.hpp"
#include "values/reference.hpp"

namespace kpu::values::fast {
namespace {

/// `bounded` of results side by side; first: the first operands, whose place they took.
void bound(const Elementwise& row, const double* first, const Elements& e) {
    for (int64_t i = 0; i < e.count; ++i) {
        if (std::isinf(e.a[i])) e.a[i] = bounded(row, {first[i], e.b[i]}, e.a[i]);
    }
}

/// The row's vector form, or its function element by element.
void apply(const Kernels& kernels, const Elementwise& row, const Elements& e) {
    if (row.vector != nullptr) return row.vector(kernels, e);
    Element element;
    element.attributes = e.attributes;
    element.integers = e.integers;
    element.range = e.range;
    for (int64_t i = 0; i < e.count; ++i) {
        element.a = e.a[i];
        element.b = e.b[i];
        element.c = e.c[i];
        e.a[i] = row.function(element);
    }
}

/// visit(first, count) for every chunk of a tensor.
template <class Visit>
void for_each_chunk(const Tensor& tensor, Visit visit) {
    const auto total = static_cast<int64_t>(tensor.elements());
    for (int64_t first = 0; first < total; first += chunk) visit(first, std::min(chunk, total - first));
}

}  // namespace

bool elementwise(const Kernels& kernels, const Elementwise& row, const Call& call) {
    const size_t operands = call.inputs.size();
    const Real out(kernels, call.y());
    const Real a(kernels, call.inputs[0]), b(kernels, call.inputs[std::min<size_t>(1, operands - 1)]),
        c(kernels, call.inputs.back());
    if (!out.usable() || !a.usable() || !b.usable() || !c.usable()) return false;
    const std::vector<double> attributes = numbers_of(call);
    double lines[most_lines][chunk];
    for (size_t i = 0; i < std::min(most_lines, attributes.size()); ++i)
        std::fill(lines[i], lines[i] + chunk, attributes[i]);
    double first_operand[chunk], second[chunk] = {}, third[chunk];
    Elements e{first_operand, second, third, attributes.data(), lines, plain_integers(call.y()), {0, 0}, 0};
    if (is_integer(call.y().type)) e.range = range_of(call.y().type);
    for_each_chunk(call.y(), [&](int64_t first, int64_t count) {
        e.count = count;
        a.read(first, count, first_operand);
        if (operands > 1) b.read(first, count, second);
        if (operands > 2) c.read(first, count, third);
        double before[chunk];
        if (row.grows) std::copy(first_operand, first_operand + count, before);
        apply(kernels, row, e);
        if (row.grows) bound(row, before, e);
        out.write(first_operand, first, count);
    });
    return true;
}

bool cast(const Kernels& kernels, Scratch&, const Call& call) {
    const Tensor &x = call.x(), &y = call.y();
    const bool saturates = call.attrs.integer("saturate", 1) != 0;
    for_each_chunk(y, [&](int64_t first, int64_t count) {
        double value[chunk];
        to_real(kernels, x, first, count, value);
        if (is_small_float(y.type)) {
            for (int64_t i = 0; i < count; ++i)
                reference::put_cast_small_float(y, first + i, value[i], saturates);
            return;
        }
        if (is_float(y.type)) return from_real(kernels, value, y, first, count);
        kernels.truncate(value, count);
        from_steps(kernels, value, 0, y, first, count);
    });
    return true;
}

bool quantize(const Kernels& kernels, Scratch&, const Call& call) {
    require_quant(call, call.y(), "output");
    const Real out(kernels, call.y());
    if (!out.usable()) return false;
    for_each_chunk(call.y(), [&](int64_t first, int64_t count) {
        double value[chunk];
        to_real(kernels, call.x(), first, count, value);
        out.write(value, first, count);
    });
    return true;
}

namespace {

/// Steps of channels or groups to numbers.
class ChannelSteps {
  public:
    explicit ChannelSteps(const QuantMap& map) : inner_(map.inner()) {
        for (int64_t place = 0; inner_ > 0 && place < map.period(); ++place) {  // 0: there are no elements
            const size_t entry = map.entry(place * inner_);
            zero_.push_back(static_cast<double>(map.zero_point(entry)));
            scale_.push_back(map.scale(entry));
        }
    }

    /// `first`: which of the tensor's elements the first value is.
    void dequantize(const Kernels& kernels, double* value, int64_t first, int64_t count) const {
        const auto period = static_cast<int64_t>(scale_.size());
        int64_t place = first / inner_ % period, passed = first % inner_;
        for (int64_t i = 0, length = 0; i < count; i += length) {
            const auto at = static_cast<size_t>(place);
            length = std::min(count - i, inner_ == 1 ? period - place : inner_ - passed);
            if (inner_ == 1) {
                kernels.subtract(value + i, zero_.data() + at, length);
                kernels.multiply_each(value + i, scale_.data() + at, length);
                place = 0;
            } else {
                kernels.dequantize(value + i, zero_[at], scale_[at], length);
                place = place + 1 == period ? 0 : place + 1;
            }
            passed = 0;
        }
    }

  private:
    int64_t inner_;
    std::vector<double> zero_, scale_;
};

}  // namespace

bool dequantize(const Kernels& kernels, Scratch&, const Call& call) {
    require_quant(call, call.x(), "input");
    const QuantMap map(call.x());
    const ChannelSteps channels(map);
    for_each_chunk(call.y(), [&](int64_t first, int64_t count) {
        double value[chunk];
        to_real(kernels, call.x(), first, count, value);
        if (map.uniform()) {
            kernels.dequantize(value, static_cast<double>(map.zero_point(0)), map.scale(0), count);
        } else {
            channels.dequantize(kernels, value, first, count);
        }
        from_real(kernels, value, call.y(), first, count);
    });
    return true;
}

bool requant(const Kernels& kernels, Scratch&, const Call& call) {
    const Real in(kernels, call.x());
    const Real out(kernels, call.y());
    if (!in.usable() || !out.usable()) return false;
    for_each_chunk(call.y(), [&](int64_t first, int64_t count) {
        double value[chunk];
        to_real(kernels, call.x(), first, count, value);
        kernels.dequantize(value, static_cast<double>(in.map.zero_point(0)),
                           in.map.scale(0) / out.map.scale(0), count);
        from_steps(kernels, value, out.map.zero_point(0), call.y(), first, count);
    });
    return true;
}

}  // namespace kpu::values::fast
