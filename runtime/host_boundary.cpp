#include "runtime/host_boundary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/npy.hpp"
#include "values/compute.hpp"
#include "values/convert.hpp"
#include "values/scalar.hpp"

namespace kpu::runtime {
namespace {

/// A host type that no device has.
struct HostOnly {
    proto::HostElem host;
    std::string_view name, dtype;
    size_t bytes;
};
constexpr HostOnly host_only[] = {{proto::HOST_I64, "i64", "<i8", 8},
                                  {proto::HOST_BOOL, "bool", "|b1", 1},
                                  {proto::HOST_U64, "u64", "<u8", 8},
                                  {proto::HOST_F64, "f64", "<f8", 8}};

/// Returns the row of a type that only hosts have; null: devices have it too.
const HostOnly* only_of_host(const TensorSpec& spec) {
    for (const HostOnly& type : host_only) {
        if (type.host == spec.host) return &type;
    }
    return nullptr;
}

/// Returns the element type of the host's array; float64 comes and goes as f32.
ElemType host_elem(const TensorSpec& spec) {
    if (spec.host == proto::HOST_F64) return ElemType::f32;
    return spec.converts() ? static_cast<ElemType>(spec.host) : spec.elem;
}

size_t dense_item_bytes(ElemType type) {
    return shares_bytes(type) ? 1 : static_cast<size_t>(bit_width(type)) / 8;
}

Dims dims_of(const TensorSpec& spec) {
    Dims dims;
    dims.rank = static_cast<uint8_t>(spec.shape.size());
    std::copy(spec.shape.begin(), spec.shape.end(), dims.v.begin());
    return dims;
}

/// Applies one opcode to the whole tensor, which is quantized on its integer side.
std::string convert(const TensorSpec& spec, std::string_view opcode, ElemType from, ElemType to,
                    const std::string& source, values::Beyond* beyond = nullptr) {
    std::string result(source.size() / dense_item_bytes(from) * dense_item_bytes(to), '\0');
    std::vector<uint8_t> aligned(source.begin(), source.end());
    values::Tensor in{from, dims_of(spec), nullptr, aligned.data()};
    values::Tensor out{to, in.shape, nullptr, reinterpret_cast<uint8_t*>(result.data())};
    (is_integer(to) ? out : in).quant = &spec.quant;
    out.beyond = beyond;
    values::make_fast_backend()->execute(*find_opcode(opcode), {in}, {out}, {});
    return result;
}

uint64_t count_masks(ElemType elem, const std::string& host) {
    constexpr double least = -1e8;
    uint64_t count = 0;
    const auto* data = reinterpret_cast<const uint8_t*>(host.data());
    const auto elements = static_cast<int64_t>(host.size() / dense_item_bytes(elem));
    for (int64_t i = 0; i < elements; ++i) {
        const auto value = static_cast<double>(values::load_float(elem, data, i));
        count += std::isfinite(value) && value < least ? 1 : 0;
    }
    return count;
}

int64_t host_integer(const TensorSpec& spec, const uint8_t* data, int64_t index) {
    if (spec.host == proto::HOST_I64 || spec.host == proto::HOST_U64)
        return values::load<int64_t>(data, index);
    if (spec.host == proto::HOST_BOOL) return values::load<uint8_t>(data, index) != 0 ? 1 : 0;
    return values::load_integer(host_elem(spec), data, index);
}

void put_host_integer(const TensorSpec& spec, uint8_t* data, int64_t index, int64_t value) {
    if (spec.host == proto::HOST_I64 || spec.host == proto::HOST_U64)
        return values::store(data, index, value);
    if (spec.host == proto::HOST_BOOL) return values::store(data, index, static_cast<uint8_t>(value != 0));
    values::store_saturated(host_elem(spec), data, index, value);
}

values::IntegerRange host_range(const TensorSpec& spec) {
    if (spec.host == proto::HOST_U64) return {0, INT64_MAX};
    if (only_of_host(spec) != nullptr)
        return {INT64_MIN, INT64_MAX};  // of a boolean: any number that is not 0 is true
    return values::range_of(host_elem(spec));
}

template <class Integer>
[[noreturn]] void does_not_fit(const std::string& where, int64_t index, Integer value, std::string_view type,
                               std::string_view fix) {
    throw UserError(fmt::format("{}: element {} is {}, which {} does not hold. Fix: {}.", where, index, value,
                                type, fix));
}

/// Doubles as f32, which must be in its range.
std::string narrowed(const TensorSpec& spec, const std::string& host, const std::string& origin) {
    std::string result(host.size() / 2, '\0');
    for (size_t i = 0; i * sizeof(double) < host.size(); ++i) {
        double wide = 0;
        std::memcpy(&wide, host.data() + i * sizeof wide, sizeof wide);
        const float narrow = values::f32_of(wide);
        if (std::isfinite(wide) && !std::isfinite(narrow))
            throw UserError(
                fmt::format("{}: element {} is {}, which f32 does not hold. Fix: give numbers up "
                            "to 3.4e38 for input `{}`.",
                            origin, i, wide, spec.name));
        std::memcpy(result.data() + i * sizeof narrow, &narrow, sizeof narrow);
    }
    return result;
}

std::string widened(const std::string& narrow) {
    std::string result(narrow.size() * 2, '\0');
    for (size_t i = 0; i * sizeof(float) < narrow.size(); ++i) {
        float number = 0;
        std::memcpy(&number, narrow.data() + i * sizeof number, sizeof number);
        const double wide = number;
        std::memcpy(result.data() + i * sizeof wide, &wide, sizeof wide);
    }
    return result;
}

// ---- what is said of it

/// Returns "NHWC", or the order of dimensions in memory; empty for the order of the host.
std::string order_in_memory(const TensorSpec& spec) {
    std::vector<size_t> order, nhwc;  // dimensions of size 1 have no place
    for (size_t d = 0; d < spec.strides.size(); ++d) {
        if (spec.shape[d] > 1) order.push_back(d);
    }
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return spec.strides[a] > spec.strides[b]; });
    if (std::is_sorted(order.begin(), order.end())) return {};
    for (const size_t d : {0U, 2U, 3U, 1U}) {
        if (spec.shape.size() == 4 && spec.shape[d] > 1) nhwc.push_back(d);
    }
    if (order == nhwc) return " NHWC";
    return fmt::format(" in the order [{}]", fmt::join(order, ","));
}

std::string quant_text(const BoundQuant& quant) {
    if (!quant) return {};
    std::string text = quant.scales.size() == 1 ? fmt::format(", scale {:.4g}", quant.scales[0])
                                                : fmt::format(", {} scales", quant.scales.size());
    if (quant.zero_points.size() == 1 && quant.zero_points[0] != 0)
        text += fmt::format(", zero point {}", quant.zero_points[0]);
    return text;
}

std::string line_of(const TensorSpec& spec, bool input) {
    const std::string host =
        fmt::format("{} {}[{}]", spec.name, host_type_name(spec), fmt::join(spec.shape, ","));
    const std::string device = fmt::format("{}{}", name_of(spec.elem), order_in_memory(spec));
    return fmt::format("{} -> {}{} (outside the cycles)", input ? host : device, input ? device : host,
                       quant_text(spec.quant));
}

}  // namespace

std::string_view host_dtype(const TensorSpec& spec) {
    const HostOnly* only = only_of_host(spec);
    return only != nullptr ? only->dtype : npy_dtype(host_elem(spec));
}

std::string_view host_type_name(const TensorSpec& spec) {
    const HostOnly* only = only_of_host(spec);
    return only != nullptr ? only->name : name_of(host_elem(spec));
}

size_t host_item_bytes(const TensorSpec& spec) {
    const HostOnly* only = only_of_host(spec);
    return only != nullptr ? only->bytes : dense_item_bytes(host_elem(spec));
}

std::string to_device(const TensorSpec& spec, const std::string& host, const std::string& origin,
                      values::Beyond* beyond) {
    if (host_has_floats(spec)) {
        const std::string floats = spec.host == proto::HOST_F64 ? narrowed(spec, host, origin) : host;
        if (host_elem(spec) == spec.elem) return floats;
        std::string dense = convert(spec, is_integer(spec.elem) ? "quantize" : "cast", host_elem(spec),
                                    spec.elem, floats, beyond);
        if (beyond != nullptr && beyond->below > 0)
            beyond->below -= std::min(beyond->below, count_masks(host_elem(spec), floats));
        return dense;
    }
    const auto count = static_cast<int64_t>(host.size() / host_item_bytes(spec));
    std::string dense(static_cast<size_t>(count) * dense_item_bytes(spec.elem), '\0');
    const auto* from = reinterpret_cast<const uint8_t*>(host.data());
    values::IntegerRange range = values::range_of(spec.elem);
    if (spec.host == proto::HOST_U64) range.low = 0;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t value = host_integer(spec, from, i);
        if (value < range.low || value > range.high) {
            const std::string fix =
                fmt::format("give values of [{}..{}] for input `{}`", range.low, range.high, spec.name);
            if (spec.host == proto::HOST_U64)
                does_not_fit(origin, i, static_cast<uint64_t>(value), name_of(spec.elem), fix);
            does_not_fit(origin, i, value, name_of(spec.elem), fix);
        }
        values::store_saturated(spec.elem, reinterpret_cast<uint8_t*>(dense.data()), i, value);
    }
    return dense;
}

std::string to_host(const TensorSpec& spec, const std::string& dense) {
    if (host_has_floats(spec)) {
        const std::string_view opcode = is_integer(spec.elem) ? "dequantize" : "cast";
        const std::string floats =
            host_elem(spec) == spec.elem ? dense : convert(spec, opcode, spec.elem, host_elem(spec), dense);
        return spec.host == proto::HOST_F64 ? widened(floats) : floats;
    }
    const auto count = static_cast<int64_t>(dense.size() / dense_item_bytes(spec.elem));
    std::string host(static_cast<size_t>(count) * host_item_bytes(spec), '\0');
    const auto* from = reinterpret_cast<const uint8_t*>(dense.data());
    const values::IntegerRange range = host_range(spec);
    for (int64_t i = 0; i < count; ++i) {
        const int64_t value = values::load_integer(spec.elem, from, i);
        if (value < range.low || value > range.high)
            does_not_fit(fmt::format("output `{}`", spec.name), i, value, host_type_name(spec),
                         "compile with a wider type of the output");
        put_host_integer(spec, reinterpret_cast<uint8_t*>(host.data()), i, value);
    }
    return host;
}

bool host_has_floats(const TensorSpec& spec) {
    const bool integers = spec.host != proto::HOST_F64 && only_of_host(spec) != nullptr;
    return !integers && is_float(host_elem(spec));
}

double host_number(const TensorSpec& spec, const uint8_t* host, int64_t index) {
    if (spec.host == proto::HOST_F64) return values::load<double>(host, index);
    return values::load_float(host_elem(spec), host, index);
}

uint64_t not_finite(const TensorSpec& spec, const std::string& host) {
    if (!host_has_floats(spec)) return 0;
    const auto* data = reinterpret_cast<const uint8_t*>(host.data());
    const auto count = static_cast<int64_t>(host.size() / host_item_bytes(spec));
    uint64_t found = 0;
    for (int64_t i = 0; i < count; ++i) found += std::isfinite(host_number(spec, data, i)) ? 0U : 1U;
    return found;
}

uint64_t at_the_ends(const TensorSpec& spec, const std::string& dense) {
    const bool wide = spec.host == proto::HOST_I64 || spec.host == proto::HOST_U64;
    if (!wide || spec.elem != ElemType::i32) return 0;
    const auto* data = reinterpret_cast<const uint8_t*>(dense.data());
    const auto count = static_cast<int64_t>(dense.size() / dense_item_bytes(spec.elem));
    const values::IntegerRange range = values::range_of(spec.elem);
    uint64_t found = 0;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t value = values::load_integer(spec.elem, data, i);
        found += value == range.high || value == range.low ? 1U : 0U;
    }
    return found;
}

std::vector<std::string> boundary_lines(const BoundProgram& program) {
    std::vector<std::string> lines;
    for (const auto* list : {&program.inputs, &program.outputs}) {
        for (const TensorSpec& spec : *list) {
            if (spec.converts() || !order_in_memory(spec).empty())
                lines.push_back(line_of(spec, list == &program.inputs));
        }
    }
    return lines;
}

}  // namespace kpu::runtime
