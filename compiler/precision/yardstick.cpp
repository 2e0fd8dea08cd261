#include "compiler/precision/yardstick.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/diagnostics.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/precision/parts.hpp"
#include "values/scalar.hpp"

namespace kpu::precision {
namespace {

bool is_float_port(const graph::Port& port) { return is_float(port.elem); }

/// Sums over elements: of the errors' squares, of their mean's squares.
struct Sums {
    double errors = 0, shared = 0, signal = 0;
};

/// Sums up each part.
std::vector<Sums> sums_of(const std::vector<const std::vector<float>*>& got,
                          const std::vector<const std::vector<float>*>& want,
                          const std::vector<size_t>& parts) {
    std::vector<Sums> all;
    const auto count = static_cast<double>(got.size());
    for (size_t i = 0; i < want[0]->size(); ++i) {
        if (parts[i] >= all.size()) all.resize(parts[i] + 1);
        Sums& sums = all[parts[i]];
        double mean = 0;
        for (size_t s = 0; s < got.size(); ++s) {
            const double wanted = (*want[s])[i], error = double((*got[s])[i]) - wanted;
            sums.errors += error * error;
            sums.signal += wanted * wanted;
            mean += error / count;
        }
        sums.shared += mean * mean * count;
    }
    return all;
}

}  // namespace

Yardstick::Yardstick(const graph::Graph& exact, const quantize::Samples& samples, size_t most) {
    if (std::none_of(exact.outputs.begin(), exact.outputs.end(), is_float_port)) {
        throw UserError(fmt::format(
            "`{}` has no output of floats whose error could be measured. Fix: compile without --accuracy and "
            "--report-accuracy.",
            exact.name));
    }
    for (const graph::Port& port : exact.outputs) {
        if (is_float_port(port)) parts_.push_back(parts_of_output(exact, port, *engine_));
    }
    for (size_t s = 0; s < std::min(samples.count(), most); ++s) {
        arrays_.push_back(samples.load(s));
        exact_.push_back(outputs_of(exact, s));
    }
}

std::vector<Yardstick::Numbers> Yardstick::outputs_of(const graph::Graph& graph, size_t sample) const {
    const std::vector<graph::Data> made = graph::run_on_host(graph, *engine_, arrays_[sample]);
    std::vector<Numbers> outputs;
    for (size_t o = 0; o < made.size(); ++o) {
        const graph::Port& port = graph.outputs[o];
        if (!is_float_port(port)) continue;
        Numbers numbers(graph.value(port.value).elements());
        const bool wide = port.host == graph::HostType::float64;
        for (size_t i = 0; i < numbers.size(); ++i) {
            const auto at = static_cast<int64_t>(i);
            numbers[i] = wide ? static_cast<float>(values::load<double>(made[o].bytes, at))
                              : values::load_float(port.elem, made[o].bytes, at);
        }
        outputs.push_back(std::move(numbers));
    }
    return outputs;
}

double Yardstick::noise(const graph::Graph& graph, size_t samples, bool scatter) const {
    const size_t count = std::min(samples, arrays_.size());
    std::vector<std::vector<Numbers>> got;
    for (size_t s = 0; s < count; ++s) got.push_back(outputs_of(graph, s));
    double worst = 0;
    for (size_t o = 0; o < exact_[0].size(); ++o) {
        std::vector<const Numbers*> made, wanted;
        for (size_t s = 0; s < count; ++s) {
            made.push_back(&got[s][o]);
            wanted.push_back(&exact_[s][o]);
        }
        // the mean of n samples takes away its share of what is scatter, too
        const auto n = static_cast<double>(count);
        const std::vector<Sums> sums = sums_of(made, wanted, parts_[o]);
        double whole = 0;
        for (const Sums& part : sums) whole += part.signal;
        for (const Sums& part : sums) {
            const double noise =
                scatter && count > 1 ? (part.errors - part.shared) * n / (n - 1) : part.errors;
            if (!std::isfinite(noise)) return HUGE_VAL;
            const double signal =
                part.signal > 0 ? part.signal : whole;  // a part of zeros has no power of its own
            if (noise > 0) worst = std::max(worst, signal > 0 ? noise / signal : HUGE_VAL);
        }
    }
    return worst;
}

double decibel(double noise) { return -10 * std::log10(noise); }

}  // namespace kpu::precision
