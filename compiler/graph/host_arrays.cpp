// Conversions between the host's arrays and the values of a graph.
#include <fmt/format.h>

#include <cmath>

#include "base/diagnostics.hpp"
#include "compiler/graph/data.hpp"
#include "compiler/graph/execute.hpp"
#include "values/convert.hpp"
#include "values/problem.hpp"

namespace kpu::graph {
namespace {

uint64_t host_element_bytes(const Port& port) {
    switch (port.host) {
        case HostType::int64:
        case HostType::uint64:
        case HostType::float64:
            return 8;
        case HostType::boolean:
            return 1;
        case HostType::same:
            break;
    }
    return element_bytes(port.elem);
}

/// Reads and writes one element of one side as a number in binary64: exact for all types but int64, which
/// is narrowed where it is read.
struct Side {
    const Port& port;
    const Value* value;  ///< null: the host's side
    values::QuantMap quant;

    double read(const uint8_t* data, int64_t i) const {
        if (value != nullptr) {
            const double number = values::load_real(value->elem, data, i);
            if (!value->quant) return number;
            const size_t entry = quant.entry(i);
            return (number - static_cast<double>(quant.zero_point(entry))) * quant.scale(entry);
        }
        if (port.host == HostType::same) return values::load_real(port.elem, data, i);
        if (port.host == HostType::boolean) return values::load<uint8_t>(data, i) != 0 ? 1 : 0;
        if (port.host == HostType::float64) return read_double(data, i);
        if (port.host == HostType::uint64)
            return narrowed(i, values::load<uint64_t>(data, i), uint64_t{0}, uint64_t{INT32_MAX});
        return narrowed(i, values::load<int64_t>(data, i), int64_t{INT32_MIN}, int64_t{INT32_MAX});
    }

    template <class Wide>
    double narrowed(int64_t i, Wide wide, Wide least, Wide most) const {
        if (wide >= least && wide <= most) return static_cast<double>(wide);
        throw UserError(
            fmt::format("`{}`: element {} is {}, the device has integers of 32 bits. Fix: use {} to {}.",
                        port.name, i, wide, least, most));
    }

    /// Reads a number as f32, which is what becomes of it in any case.
    double read_double(const uint8_t* data, int64_t i) const {
        const auto wide = values::load<double>(data, i);
        const auto narrow = static_cast<double>(values::f32_of(wide));
        if (std::isfinite(narrow) || !std::isfinite(wide)) return narrow;
        throw UserError(
            fmt::format("`{}`: element {} is {}, the device has floats of 32 bits. Fix: use "
                        "numbers up to 3.4e38.",
                        port.name, i, wide));
    }

    void write(uint8_t* data, int64_t i, double number) const {
        const ElemType elem = value != nullptr ? value->elem : port.elem;
        if (value == nullptr && port.host == HostType::int64)
            return values::store(data, i, static_cast<int64_t>(number));
        if (value == nullptr && port.host == HostType::uint64) {
            if (number >= 0) return values::store(data, i, static_cast<uint64_t>(number));
            throw UserError(
                fmt::format("`{}`: element {} is {}, which uint64 does not hold. Fix: compute it "
                            "as int64.",
                            port.name, i, number));
        }
        if (value == nullptr && port.host == HostType::float64) return values::store(data, i, number);
        if (value == nullptr && port.host == HostType::boolean)
            return values::store(data, i, static_cast<uint8_t>(number != 0 ? 1 : 0));
        if (is_float(elem)) return values::store_float(elem, data, i, number);
        const values::IntegerRange range = values::range_of(elem);
        if (value != nullptr && value->quant) {
            const size_t entry = quant.entry(i);
            const double steps = values::in_steps(number, quant.scale(entry));
            const int64_t q = values::quantized(steps, quant.zero_point(entry), range);
            return values::store_saturated(elem, data, i, q);
        }
        values::store_saturated(elem, data, i, static_cast<int64_t>(number));
    }
};

Side host_side(const Port& port) { return {port, nullptr, values::QuantMap(values::Tensor{})}; }

Side value_side(const Port& port, const Value& value) {
    return {port, &value, values::QuantMap({value.elem, value.shape, &value.quant, nullptr})};
}

/// True if the elements mean the same numbers bit for bit.
bool same_bits(const Port& port, const Value& value) {
    return port.host == HostType::same && port.elem == value.elem;
}

void check_types(const Port& port, const Value& value) {
    const bool numbers =
        (is_float(port.elem) || is_integer(port.elem)) && (is_float(value.elem) || is_integer(value.elem));
    const bool floats_as_integers = is_float(port.elem) && is_integer(value.elem) && !value.quant;
    if (!numbers || floats_as_integers) {
        throw InternalError(fmt::format("port {}: {} on the host, {} on the device", port.name,
                                        name_of(port.elem), name_of(value.elem)));
    }
}

Data convert(const Side& from, const Side& to, const Data& data, uint64_t count, uint64_t size) {
    const values::FloatEnvironment environment;
    const NewData result = new_data(count * size);
    for (uint64_t i = 0; i < count; ++i) {
        const auto at = static_cast<int64_t>(i);
        to.write(result.bytes, at, from.read(data.bytes, at));
    }
    return result.data;
}

}  // namespace

Dims host_shape(const Graph& graph, const Port& port) {
    const Dims& shape = graph.value(port.value).shape;
    return port.perm.empty() ? shape : permuted(shape, port.perm);
}

uint64_t host_bytes(const Graph& graph, const Port& port) {
    return graph.value(port.value).elements() * host_element_bytes(port);
}

Data from_host(const Graph& graph, const Port& port, const Data& array) {
    const Value& value = graph.value(port.value);
    const Dims shape = host_shape(graph, port);
    if (array.size != host_bytes(graph, port)) {
        throw UserError(fmt::format("input `{}` has {} bytes, its {} elements need {}. Fix: give all of {}.",
                                    port.name, array.size, value.elements(), host_bytes(graph, port),
                                    shape_text(shape)));
    }
    const Data ordered =
        port.perm.empty() ? array : permuted(array, host_element_bytes(port), shape, inverse(port.perm));
    if (same_bits(port, value)) return ordered;
    check_types(port, value);
    return convert(host_side(port), value_side(port, value), ordered, value.elements(),
                   element_bytes(value.elem));
}

Data to_host(const Graph& graph, const Port& port, const Data& data) {
    const Value& value = graph.value(port.value);
    Data array = data;
    const uint64_t size = host_element_bytes(port);
    if (!same_bits(port, value)) {
        check_types(port, value);
        array = convert(value_side(port, value), host_side(port), data, value.elements(), size);
    }
    return port.perm.empty() ? array : permuted(array, size, value.shape, port.perm);
}

std::vector<Data> run_on_host(const Graph& graph, values::ComputeBackend& backend,
                              const std::vector<Data>& arrays) {
    std::vector<Data> inputs;
    for (size_t i = 0; i < arrays.size() && i < graph.inputs.size(); ++i)
        inputs.push_back(from_host(graph, graph.inputs[i], arrays[i]));
    inputs.resize(arrays.size());
    std::vector<Data> results = GraphExecutor(graph, backend).run(inputs);
    for (size_t i = 0; i < results.size(); ++i) results[i] = to_host(graph, graph.outputs[i], results[i]);
    return results;
}

}  // namespace kpu::graph
