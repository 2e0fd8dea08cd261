#include "compiler/passes/match.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/graph/data.hpp"
#include "compiler/graph/supports.hpp"
#include "values/scalar.hpp"

namespace kpu::passes {

bool is_any(const Node& node, std::initializer_list<std::string_view> opcodes) {
    return std::find(opcodes.begin(), opcodes.end(), node.spec().name) != opcodes.end();
}

bool is_elementwise(const Node& node) { return node.spec().traits.elementwise; }

bool is_matrix_product(const Node& node) {
    return graph::is_product(node.spec()) && node.spec().traits.needs == Needs::matrix;
}

bool is_convolution(const Node& node) {
    const OpcodeSpec& spec = node.spec();
    return spec.traits.needs == Needs::window && !spec.transposed && !spec.group_scales;
}

bool is_plain_float(const graph::Value& value) {
    return is_float(value.elem) && !is_small_float(value.elem) && !value.quant;
}

bool has_quant(const graph::Value& value) { return static_cast<bool>(value.quant); }

bool same_quant(const BoundQuant& a, const BoundQuant& b) {
    return a.kind == b.kind && a.axis == b.axis && a.group_size == b.group_size && a.scales == b.scales &&
           a.zero_points == b.zero_points;
}

std::optional<double> uniform_number(const graph::Value& value) {
    if (!value.constant() || value.quant || value.elements() == 0) return {};
    const auto at = [&](uint64_t i) {
        return values::load_real(value.elem, value.data.bytes, static_cast<int64_t>(i));
    };
    const double first = at(0);
    for (uint64_t i = 1; i < value.elements(); ++i) {
        if (at(i) != first || std::signbit(at(i)) != std::signbit(first)) return {};
    }
    return first;
}

std::optional<std::vector<double>> along_axis(const graph::Value& value, const Dims& shape, size_t axis) {
    if (!value.constant() || !is_plain_float(value) || axis >= shape.rank || value.shape.rank > shape.rank)
        return {};
    const int64_t size = shape[axis];
    const size_t missing = shape.rank - value.shape.rank;
    const bool vector = axis >= missing && value.shape[axis - missing] == size &&
                        value.elements() == static_cast<uint64_t>(size);
    if (!vector && value.elements() != 1) return {};
    std::vector<double> result = graph::numbers(value);
    result.resize(static_cast<size_t>(size), result[0]);
    return result;
}

std::optional<std::vector<double>> along_last(const graph::Value& value, const Dims& shape) {
    return along_axis(value, shape, shape.rank - 1U);
}

namespace {
BoundAttr& attribute(BoundAttrs& attrs, std::string_view name) {
    for (BoundAttr& attr : attrs.list) {
        if (attr.name == name) return attr;
    }
    attrs.list.emplace_back();
    attrs.list.back().name = name;
    return attrs.list.back();
}
}  // namespace

void set_ints(BoundAttrs& attrs, std::string_view name, std::vector<int64_t> values) {
    attribute(attrs, name).ints = std::move(values);
}

void set_integer(BoundAttrs& attrs, std::string_view name, int64_t value) {
    attribute(attrs, name).integer = value;
}

std::vector<int64_t> ints_of(const Node& node, std::string_view name) {
    const BoundAttr* attr = node.attrs.find(name);
    return attr == nullptr ? std::vector<int64_t>{} : attr->ints;
}

std::vector<int64_t> shape_list(const Dims& shape) { return {shape.begin(), shape.end()}; }

size_t from_front(int64_t axis, size_t rank) {
    return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

std::vector<Run> runs_of(const Dims& from, const Dims& to) {
    std::vector<Run> runs;
    size_t i = 0, j = 0;
    while (i < from.rank && j < to.rank) {
        Run run{i, i + 1, j, j + 1};
        int64_t a = from[i++], b = to[j++];
        while (a != b && (a < b ? i < from.rank : j < to.rank)) {
            if (a < b)
                a *= from[i++];
            else
                b *= to[j++];
        }
        run.from_end = i;
        run.to_end = j;
        runs.push_back(run);
    }
    if (runs.empty()) return runs;
    runs.back().from_end = from.rank;
    runs.back().to_end = to.rank;
    return runs;
}

std::vector<int> perm_of(const Node& node) {
    const std::vector<int64_t> perm = ints_of(node, "perm");
    return {perm.begin(), perm.end()};
}

bool moves_nothing(const Dims& shape, const std::vector<int>& perm) {
    int last = -1;
    for (const int d : perm) {
        if (shape[static_cast<size_t>(d)] == 1) continue;
        if (d < last) return false;
        last = d;
    }
    return true;
}

}  // namespace kpu::passes
