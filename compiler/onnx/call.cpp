#include "compiler/onnx/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/diagnostics.hpp"
#include "compiler/quantize/parameters.hpp"

namespace kpu::onnx {

using graph::attributes;
using graph::integer;
using graph::ints;

namespace {

// A constant made during import; what is larger was not meant.
constexpr int64_t most_made_elements = int64_t{1} << 24;
constexpr int64_t most_listed = int64_t{1} << 38;

void check_elements(const Sizes& shape) {
    double count = 1;
    for (const int64_t size : shape) {
        if (size < 0) throw Unsupported(fmt::format("{} is not a shape", text_of(shape)));
        count *= static_cast<double>(size);
    }
    if (count > static_cast<double>(most_listed))
        throw Unsupported(fmt::format("a tensor {} is too large", text_of(shape)));
}

[[noreturn]] void refuse_types(std::string_view opcode, const std::vector<ElemType>& types, ElemType out) {
    std::string text;
    for (const ElemType type : types)
        text += fmt::format("{}{}", text.empty() ? "" : ", ", kpu::name_of(type));
    Call::refuse(fmt::format("opcode {} does not take {} to {}", opcode, text, kpu::name_of(out)));
}

/// True for numbers on which what is computed depends, not only its results: shapes, indices, how often
/// something runs.
bool decides(const NodeModel& node, Type type) {
    if (type == Type::i32 || type == Type::i64 || type == Type::boolean) return true;
    constexpr std::string_view all[] = {"Resize", "Upsample", "Range", "OneHot"};
    return std::find(std::begin(all), std::end(all), node.type) != std::end(all);
}

/// Returns zero points of what is quantised around zero, as weights are.
Known middles(const Tensor& tensor) {
    const int64_t middle = tensor.nibbles             ? 8
                           : tensor.type == Type::u8  ? 128
                           : tensor.type == Type::u16 ? 32768
                                                      : 0;
    return {tensor.type, tensor.shape, std::vector<int64_t>(tensor.elements(), middle), {}};
}

bool is_stand_in(const Operand& operand) {
    return operand.tensor != nullptr && !operand.tensor->absent.empty();
}

}  // namespace

// ---- operands

const Operand& Call::in(size_t i) const {
    if (given(i).items != nullptr) refuse(fmt::format("operand {} is a sequence", i));
    return operands_[i];
}

const Operand& Call::given(size_t i) const {
    if (!has(i)) refuse(fmt::format("operand {} is missing", i));
    return operands_[i];
}

const std::vector<Operand>& Call::sequence(size_t i) const {
    if (given(i).items == nullptr) refuse(fmt::format("operand {} is not a sequence", i));
    return *operands_[i].items;
}

ValueId Call::value(size_t i) {
    in(i);
    return value(operands_[i], node.inputs[i]);
}

ValueId Call::value(Operand& operand, const std::string& name) {
    if (operand.value) return *operand.value;
    if (operand.items != nullptr) refuse("it is a sequence");
    const ElemType to = elem_of(operand.type);
    if (to == ElemType::none) refuse(fmt::format("tensors of {} are not taken", name_of(operand.type)));
    check_elements(operand.shape);
    if (!empty_operands && elements_of(operand.shape) == 0)
        refuse(fmt::format("a tensor {} without elements is not taken", text_of(operand.shape)));
    note_absent(operand, name);
    const bool as_it_is =
        operand.tensor != nullptr && element_bytes(operand.type) == graph::data_bytes(to, 1);
    if (!as_it_is && operand.known == nullptr)
        operand.known = std::make_shared<const Known>(known_of(*operand.tensor));
    graph::Data data = as_it_is ? operand.tensor->data : data_of(*operand.known, to);
    operand.value = graph.add_constant(name, to, graph::dims(operand.shape), std::move(data));
    return *operand.value;
}

bool Call::all_constant() const {
    return std::all_of(operands_.begin(), operands_.end(),
                       [](const Operand& o) { return o.type == Type::undefined || o.constant(); });
}

bool Call::any_stand_in() const {
    return std::any_of(operands_.begin(), operands_.end(),
                       [](const Operand& o) { return is_stand_in(o) && o.type != Type::i64; });
}

void Call::note_absent(const Operand& operand, const std::string& name) {
    if (is_stand_in(operand)) graph.absent.emplace(name, operand.tensor->absent);
}

const Known& Call::known(size_t i, std::string_view role) {
    const Operand& operand = in(i);
    if (!operand.constant()) throw NotConstant(fmt::format("its {} are not constant", role), operand.value);
    if (is_stand_in(operand)) {
        const bool zeros = role == "zero points";
        if (!zeros && decides(node, operand.type))
            throw LacksBytes(
                fmt::format("its {} are the constant `{}`, which decides what is computed, and {}", role,
                            node.inputs[i], operand.tensor->absent));
        note_absent(operand, node.inputs[i]);
        if (zeros) operands_[i].known = std::make_shared<const Known>(middles(*operand.tensor));
    }
    if (operand.known == nullptr)
        operands_[i].known = std::make_shared<const Known>(known_of(*operand.tensor));
    return *operands_[i].known;
}

const Sizes& Call::ints_of(size_t i, std::string_view role) {
    const Known& constant = known(i, role);
    if (constant.real()) refuse(fmt::format("its {} are not integers", role));
    return constant.ints;
}

int64_t Call::integer_of(size_t i, std::string_view role) {
    const Sizes& values = ints_of(i, role);
    if (values.size() != 1)
        refuse(fmt::format("its {} are {} numbers where one is needed", role, values.size()));
    return values[0];
}

double Call::number_of(size_t i, std::string_view role) {
    const Known& constant = known(i, role);
    if (constant.size() != 1)
        refuse(fmt::format("its {} are {} numbers where one is needed", role, constant.size()));
    return constant.number(0);
}

// ---- attributes

int64_t Call::integer(std::string_view name, int64_t fallback) const {
    const Attribute* attribute = node.find(name);
    return attribute == nullptr ? fallback : attribute->integer;
}

double Call::real(std::string_view name, double fallback) const {
    const Attribute* attribute = node.find(name);
    return attribute == nullptr ? fallback : attribute->real;
}

std::string Call::text(std::string_view name, std::string_view fallback) const {
    const Attribute* attribute = node.find(name);
    return attribute == nullptr ? std::string(fallback) : attribute->text;
}

Sizes Call::ints(std::string_view name, const Sizes& fallback) const {
    const Attribute* attribute = node.find(name);
    return attribute == nullptr ? fallback : attribute->ints;
}

Sizes Call::ints(std::string_view name, size_t operand, int64_t since, const Sizes& fallback) {
    if (opset < since) return ints(name, fallback);
    return has(operand) ? ints_of(operand, name) : fallback;
}

size_t Call::axis(int64_t value, int64_t rank) const {
    const int64_t at = value < 0 ? value + rank : value;
    if (at < 0 || at >= rank) refuse(fmt::format("axis {} is outside the {} dimensions", value, rank));
    return static_cast<size_t>(at);
}

// ---- results

void Call::result(size_t output, ValueId value, Type type) { result(output, operand(value, type)); }

Operand Call::operand(ValueId value, Type type) const {
    Operand made;
    made.type = type;
    made.shape = sizes(value);
    made.value = value;
    return made;
}

void Call::result(size_t output, Operand operand) {
    if (operand.known != nullptr) add_made(operand.known->size() * sizeof(double));
    if (output < results_.size()) results_[output] = std::move(operand);
}

// ---- nodes of the graph

namespace {

/// True if its results are elements of the first operand, or lie between them: steps of a quantised tensor
/// stay such steps.
bool keeps_steps(std::string_view opcode) {
    constexpr std::string_view all[] = {"gather",     "gather_elements", "gather_nd", "pad",
                                        "reduce_max", "reduce_min",      "resize"};
    return std::find(std::begin(all), std::end(all), opcode) != std::end(all);
}

}  // namespace

namespace {

bool is_empty(const Dims& shape) { return shape.product() == 0; }

}  // namespace

ValueId Call::emit(std::string_view opcode, std::vector<ValueId> operands, std::vector<BoundAttr> attrs,
                   ElemType to, BoundQuant quant) {
    const std::optional<OpcodeId> id = kernels::find_spec(opcode);
    if (!id) refuse(fmt::format("needs opcode {}, which does not exist yet", opcode));
    const OpcodeSpec& spec = kernels::spec_of(*id);
    std::vector<ElemType> types;
    bool real = is_float(to), quantised = static_cast<bool>(quant);
    for (const ValueId operand : operands) {
        types.push_back(elem(operand));
        real = real || is_float(types.back());
        quantised = quantised || graph.value(operand).quant;
    }
    const BoundQuant& first = graph.value(operands.at(0)).quant;
    if (!quant && first.kind == proto::Quant::PER_TENSOR && keeps_steps(opcode)) quant = first;
    graph::NodeOptions options{source, fmt::format("{}/{}", source.name, opcode), to, std::move(quant)};
    const std::vector<ElemType> out{to == ElemType::none ? types.at(0) : to};
    const bool meaningless = spec.integers_need_quant && !real && !quantised;
    if (meaningless || (spec.types != nullptr && !spec.types(spec, types, out)))
        refuse_types(opcode, types, out[0]);
    std::vector<TypedShape> shapes;
    for (const ValueId operand : operands) shapes.push_back({elem(operand), graph.value(operand).shape});
    BoundAttrs list = attributes(std::move(attrs));
    const std::vector<Dims> made = graph::infer(spec, shapes, list);
    bool empty = false;
    for (const Dims& shape : made) {
        check_elements(sizes_of(shape));
        empty = empty || is_empty(shape);
    }
    for (const TypedShape& operand : shapes) empty = empty || is_empty(operand.shape);
    if (empty) return without_elements(opcode, made, out[0], list);
    return graph.add_node(opcode, std::move(operands), std::move(list), std::move(options));
}

Sizes Call::sizes(ValueId id) const { return sizes_of(graph.value(id).shape); }

ValueId Call::constant(const Known& known, ElemType to) {
    check_elements(known.shape);
    add_made(known.size() * sizeof(double));
    return graph.add_constant(source.name + "/constant", to, graph::dims(known.shape), data_of(known, to));
}

ValueId Call::number(double value, ElemType to) {
    return constant(scalar_known(is_float(to) ? Type::f64 : Type::i64, value), to);
}

ValueId Call::zeros(const Sizes& shape, ElemType to) {
    check_made(shape);
    const auto count = static_cast<size_t>(elements_of(shape));
    return constant(Known{Type::f64, shape, {}, std::vector<double>(count, 0)}, to);
}

void Call::check_made(const Sizes& shape) {
    double count = 1;
    for (const int64_t size : shape) count *= static_cast<double>(size);
    if (count > static_cast<double>(most_made_elements))
        refuse(fmt::format("a constant {} that it needs is too large", text_of(shape)));
}

ValueId Call::cast(ValueId x, ElemType type) {
    if (elem(x) == type && !graph.value(x).quant) return x;
    return emit("cast", {x}, {}, type);
}

ValueId Call::to_small_float(ValueId x, ElemType type) {
    return emit("cast", {x}, {graph::integer("saturate", integer("saturate", 1) != 0 ? 1 : 0)}, type);
}

ValueId Call::reshape(ValueId x, const Sizes& shape) {
    if (sizes(x) == shape) return x;
    check_elements(shape);
    const graph::Value& from = graph.value(x);
    if (static_cast<int64_t>(from.elements()) != elements_of(shape))
        refuse(fmt::format("{} cannot be reshaped to {}", text_of(sizes(x)), text_of(shape)));
    const std::optional<BoundQuant> quant = quantize::reshaped(from.quant, from.shape, graph::dims(shape));
    if (!quant) refuse("a tensor quantised along a dimension cannot be reshaped so that it has none such");
    if (from.constant()) {
        return graph.add_constant(from.name, from.elem, graph::dims(shape), from.data, *quant);
    }
    return emit("reshape", {x}, {graph::ints("target_shape", shape)}, ElemType::none, *quant);
}

namespace {

std::shared_ptr<const graph::Blocks> transposed_blocks(const graph::Value& from, const Sizes& perm) {
    if (from.blocks == nullptr) return nullptr;
    graph::Blocks blocks = *from.blocks;
    const uint64_t each = graph::data_bytes(blocks.elem, 1);
    blocks.steps = transposed(blocks.steps, 1, from.shape, perm);
    blocks.scales = transposed(blocks.scales, each, blocks.shape, perm);
    if (blocks.zero_points) blocks.zero_points = transposed(blocks.zero_points, each, blocks.shape, perm);
    blocks.axis = static_cast<size_t>(std::find(perm.begin(), perm.end(), static_cast<int64_t>(blocks.axis)) -
                                      perm.begin());
    for (size_t d = 0; d < perm.size(); ++d)
        blocks.shape[d] = from.blocks->shape[static_cast<size_t>(perm[d])];
    return std::make_shared<const graph::Blocks>(std::move(blocks));
}

}  // namespace

ValueId Call::transpose(ValueId x, const Sizes& perm) {
    if (perm == identity_perm(perm.size())) return x;
    const graph::Value& from = graph.value(x);
    BoundQuant quant = from.quant;
    if (quant && quant.kind != proto::Quant::PER_TENSOR)
        quant.axis = static_cast<int>(std::find(perm.begin(), perm.end(), quant.axis) - perm.begin());
    if (!from.constant()) return emit("transpose", {x}, {graph::ints("perm", perm)}, ElemType::none, quant);
    Dims shape;
    for (const int64_t d : perm) shape[shape.rank++] = from.shape[static_cast<size_t>(d)];
    if (is_empty(shape)) return graph.add_constant(from.name, from.elem, shape, from.data, quant);
    const uint64_t each = graph::data_bytes(from.elem, 1);
    const std::shared_ptr<const graph::Blocks> blocks = transposed_blocks(from, perm);
    const ValueId made =
        graph.add_constant(from.name, from.elem, shape, transposed(from.data, each, from.shape, perm), quant);
    graph.value(made).blocks = blocks;
    return made;
}

/// Elementwise operands broadcast: adding nothing expands. -0 is what changes no float, -0 included.
ValueId Call::expand(ValueId x, const Sizes& shape) {
    const Sizes from = sizes(x), to = broadcast_of(from, shape);
    check_elements(to);
    if (from == to) return x;
    if (elements_of(from) == elements_of(to)) return reshape(x, to);
    Sizes missing = to;
    for (size_t d = 1; d <= from.size(); ++d) {
        if (from[from.size() - d] == to[to.size() - d]) missing[to.size() - d] = 1;
    }
    check_elements(missing);
    check_made(missing);
    const auto count = static_cast<size_t>(elements_of(missing));
    if (const BoundQuant quant = graph.value(x).quant; quant.kind == proto::Quant::PER_TENSOR) {
        const ValueId nothing =
            constant({Type::i64, missing, Sizes(count, quant.zero_points[0]), {}}, elem(x));
        graph.value(nothing).quant = quant;
        return emit("add", {x, nothing}, {}, ElemType::none, quant);
    }
    const Known nothing{Type::f64, missing, {}, std::vector<double>(count, -0.0)};
    return emit("add", {x, constant(nothing, elem(x))});
}

ValueId Call::slice(ValueId x, int64_t axis, int64_t start, int64_t end, int64_t step) {
    return emit("slice", {x},
                {graph::ints("starts", {start}), graph::ints("ends", {end}), graph::ints("axes", {axis}),
                 graph::ints("steps", {step})},
                ElemType::none, graph.value(x).quant);
}

ValueId Call::concat(const std::vector<ValueId>& parts, int64_t axis) {
    std::vector<ValueId> filled;  // what has no elements adds none
    std::copy_if(parts.begin(), parts.end(), std::back_inserter(filled),
                 [&](ValueId part) { return !is_empty(graph.value(part).shape); });
    if (filled.size() == 1) return filled[0];
    if (filled.size() > 1 && filled.size() < parts.size()) return concat(filled, axis);
    return emit("concat", parts, {graph::integer("axis", axis)}, ElemType::none,
                graph.value(parts.at(0)).quant);
}

ValueId Call::join(std::vector<Operand>& parts, const std::string& name, size_t axis, bool is_new) {
    std::vector<ValueId> values;
    for (Operand& part : parts) {
        Sizes shape = part.shape;
        if (is_new) shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
        values.push_back(reshape(value(part, name), shape));
    }
    return concat(values, static_cast<int64_t>(axis));
}

ValueId Call::pad(ValueId x, const Sizes& pads, double value) {
    if (std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; })) return x;
    return emit(
        "pad", {x},
        {graph::ints("pads", pads), graph::word("mode", "constant"), graph::real("constant_value", value)},
        ElemType::none, graph.value(x).quant);
}

ValueId Call::reduce(std::string_view opcode, ValueId x, const Sizes& axes, bool keep) {
    if (axes.empty()) return x;
    Sizes to;
    const Sizes from = sizes(x);
    for (size_t d = 0; d < from.size(); ++d) {
        const bool gone = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
        if (!gone || keep) to.push_back(gone ? 1 : from[d]);
    }
    return reshape(emit(opcode, {x}, {graph::ints("axes", axes), graph::integer("keepdims", keep ? 1 : 0)}),
                   to);
}

ValueId Call::unsqueezed(ValueId x, size_t rank) {
    Sizes shape = sizes(x);
    if (shape.size() < rank) shape.insert(shape.begin(), rank - shape.size(), 1);
    return reshape(x, shape);
}

// ---- shapes

namespace {

/// Transposes [rows, columns] to [columns, rows], in squares that stay in the cache.
template <class T>
void transpose_matrix(const T* from, T* to, int64_t rows, int64_t columns) {
    constexpr int64_t side = 32;
    for (int64_t r = 0; r < rows; r += side) {
        for (int64_t c = 0; c < columns; c += side) {
            for (int64_t y = r; y < std::min(r + side, rows); ++y) {
                for (int64_t x = c; x < std::min(c + side, columns); ++x)
                    to[x * rows + y] = from[y * columns + x];
            }
        }
    }
}

/// Runs of `run` elements, which stay together, in the order of the other dimensions.
template <class T>
void transpose_runs(const T* from, T* to, const Dims& shape, const Sizes& perm, int64_t run) {
    const Dims strides = row_major(shape);
    std::vector<int64_t> index(perm.size(), 0);
    int64_t at = 0;
    for (int64_t left = shape.product(); left > 0; left -= run, to += run) {
        std::copy(from + at * run, from + at * run + run, to);
        for (size_t d = perm.size(); d-- > 0;) {
            const auto source = static_cast<size_t>(perm[d]);
            if (run > 1 && source == perm.size() - 1) continue;  // it is the run
            at += strides[source] / run;
            if (++index[d] < shape[source]) break;
            at -= strides[source] / run * shape[source];
            index[d] = 0;
        }
    }
}

template <class T>
std::vector<uint8_t> transposed(const uint8_t* bytes, const Dims& shape, const Sizes& perm) {
    const auto* from = reinterpret_cast<const T*>(bytes);
    const auto elements = static_cast<size_t>(shape.product());
    std::vector<uint8_t> result(elements * sizeof(T));
    auto* to = reinterpret_cast<T*>(result.data());
    const size_t rank = perm.size();
    if (perm.back() == static_cast<int64_t>(rank) - 1) {
        transpose_runs(from, to, shape, perm, shape[rank - 1]);
    } else if (perm.back() ==
               0) {  // weights: the first dimension goes after all others, which are ordered then
        std::vector<uint8_t> turned(result.size());
        const int64_t rest = shape.product() / shape[0];
        transpose_matrix(from, reinterpret_cast<T*>(turned.data()), shape[0], rest);
        Dims moved = shape;
        std::rotate(moved.v.begin(), moved.v.begin() + 1, moved.v.begin() + moved.rank);
        Sizes order;
        for (const int64_t d : perm) order.push_back(d == 0 ? static_cast<int64_t>(rank) - 1 : d - 1);
        transpose_runs(reinterpret_cast<const T*>(turned.data()), to, moved, order, shape[0]);
    } else {
        transpose_runs(from, to, shape, perm, 1);
    }
    return result;
}

}  // namespace

graph::Data transposed(const graph::Data& data, uint64_t each, const Dims& shape, const Sizes& perm) {
    switch (each) {
        case 1:
            return graph::make_data(transposed<uint8_t>(data.bytes, shape, perm));
        case 2:
            return graph::make_data(transposed<uint16_t>(data.bytes, shape, perm));
        default:
            return graph::make_data(transposed<uint32_t>(data.bytes, shape, perm));
    }
}

Sizes sizes_of(const Dims& shape) { return {shape.begin(), shape.end()}; }

Sizes broadcast_of(const Sizes& a, const Sizes& b) {
    Sizes result(std::max(a.size(), b.size()));
    for (size_t d = 1; d <= result.size(); ++d) {
        const int64_t of_a = d <= a.size() ? a[a.size() - d] : 1, of_b = d <= b.size() ? b[b.size() - d] : 1;
        if (of_a != of_b && of_a != 1 && of_b != 1)
            throw Unsupported(fmt::format("shapes {} and {} do not broadcast", text_of(a), text_of(b)));
        result[result.size() - d] = of_a == 1 ? of_b : of_a;
    }
    return result;
}

Sizes identity_perm(size_t count) {
    Call::check_made({static_cast<int64_t>(count)});
    Sizes perm(count);
    std::iota(perm.begin(), perm.end(), 0);
    return perm;
}

Sizes swapped_perm(size_t count, size_t a, size_t b) {
    Sizes perm = identity_perm(count);
    std::swap(perm.at(a), perm.at(b));
    return perm;
}

}  // namespace kpu::onnx
