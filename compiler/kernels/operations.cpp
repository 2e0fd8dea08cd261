#include "compiler/kernels/operations.hpp"

#include <algorithm>
#include <cmath>

#include "base/diagnostics.hpp"
#include "isa/shapes.hpp"

namespace kpu::kernels {
namespace {

/// Invocations of a workgroup: in kernels whose invocations talk to each other, and in those that have none
/// of the others'.
constexpr int64_t invocations = 32, many = 128;

int64_t groups_of(int64_t lanes, int64_t each = invocations) { return (lanes + each - 1) / each; }

int64_t power_of_two(int64_t n) {
    int64_t result = 1;
    while (result < n) result *= 2;
    return result;
}

// ---- types

/// True for types that kernels have, and posits, whose order is that of integers with their bits.
bool moves(ElemType type) {
    return type != ElemType::i4 && !is_small_float(type) && (is_float(type) || is_integer(type));
}
bool computes(ElemType type) { return type == ElemType::f32 || type == ElemType::i32; }
bool is_f32(ElemType type) { return type == ElemType::f32; }

/// True for data of one type that `takes` accepts; positions are i32, masks u8.
template <bool (*takes)(ElemType)>
bool one_type(const OpcodeSpec& spec, const std::vector<ElemType>& in, const std::vector<ElemType>& out) {
    ElemType data = ElemType::none;
    const auto fits = [&](const OperandSpec& operand, ElemType type) {
        if (operand.role == OperandRole::integer) return type == ElemType::i32;
        if (operand.role == OperandRole::condition) return type == ElemType::u8;
        if (data == ElemType::none) data = type;
        return type == data && takes(type);
    };
    for (size_t i = 0; i < in.size(); ++i) {
        if (!fits(operand_spec(spec.inputs, i), in[i])) return false;
    }
    for (size_t o = 0; o < out.size(); ++o) {
        if (!fits(operand_spec(spec.outputs, o), out[o])) return false;
    }
    return true;
}

// ---- shapes and launches

Dims dims(std::initializer_list<int64_t> sizes) {
    Dims result;
    for (const int64_t size : sizes) result[result.rank++] = size;
    return result;
}

void check_ranks(const ShapeCase& c, std::initializer_list<int> ranks) {
    size_t i = 0;
    for (const int rank : ranks) {
        if (c.in(i++).rank != rank)
            c.fail("{} has other dimensions than the operation takes. Fix: reshape it.", c.input_text(i - 1));
    }
}

std::vector<Dims> top_k_shapes(const ShapeCase& c) {
    check_ranks(c, {2});
    const int64_t rows = c.in(0)[0], n = c.in(0)[1], k = c.attribute("k").integer;
    if (k < 1 || k > n)
        c.fail("k is {}, but {} has rows of {}. Fix: take at most all.", k, c.input_text(0), n);
    return {dims({rows, k}), dims({rows, k}), dims({rows, power_of_two(n)})};
}

Launch launch_top_k(const Shapes& in, const Shapes& out, const BoundAttrs& attrs) {
    const int64_t rows = in[0][0], n = in[0][1], m = out[2][1], k = out[0][1];
    const int64_t run = power_of_two(k);
    const double stages = std::log2(double(run));
    const auto lanes = [](int64_t count) {
        return double(std::max<int64_t>(groups_of(count), 1) * invocations);
    };
    double pairs = stages * (stages + 1) / 2 * lanes(m / 2);
    for (int64_t count = m / 2; count >= run; count /= 2) pairs += lanes(count) + stages * lanes(count / 2);
    return {rows,
            {n, m, k, run, attrs.integer("largest", 1)},
            {invocations, double(rows) * (72 * pairs + 12.0 * double(m + k))}};
}

/// x [rows, n, width], indices of `depth` at the end, dims [depth].
void check_tuples(const ShapeCase& c, const Dims& index) {
    if (index[index.rank - 1U] != c.in(2)[0])
        c.fail("{} has tuples of another length than {}. Fix: give a size for each position.",
               c.input_text(1), c.input_text(2));
    if (c.in(0)[0] != index[0])
        c.fail("{} has other rows than {}. Fix: make them equal.", c.input_text(1), c.input_text(0));
}

std::vector<Dims> gather_shapes(const ShapeCase& c) {
    check_ranks(c, {3, 3, 1});
    check_tuples(c, c.in(1));
    return {dims({c.in(0)[0], c.in(1)[1], c.in(0)[2]})};
}

Launch launch_gather(const Shapes& in, const Shapes& out, const BoundAttrs& /*attrs*/) {
    const int64_t groups = groups_of(out[0].product(), many);
    return {groups,
            {in[0][1], in[1][1], in[0][2]},
            {many, double(groups * many) * (20.0 + 22.0 * double(in[2][0]))}};
}

std::vector<Dims> scatter_shapes(const ShapeCase& c) {
    check_ranks(c, {3, 4, 1, 3});
    check_tuples(c, c.in(1));
    const Dims &x = c.in(0), &index = c.in(1), &update = c.in(3);
    if (update[0] != x[0] || update[1] != index[1] || update[2] != x[2] ||
        (index[2] != 1 && index[2] != x[2]))
        c.fail("{} do not fit together. Fix: give an update for each index.", c.operands_text());
    return {x};
}

Launch launch_scatter(const Shapes& in, const Shapes& /*out*/, const BoundAttrs& attrs) {
    const int64_t n = in[0][1], m = in[1][1], width = in[0][2], each = in[1][2];
    const int64_t groups = groups_of(in[0][0] * width, many);
    std::vector<int64_t> scalars{n, m, width, each};
    if (const BoundAttr* how = attrs.find("how"); how != nullptr) scalars.push_back(how->integer);
    const double lanes = double(groups * many);
    return {groups,
            std::move(scalars),
            {many, lanes * (9.0 * double(n) + double(m) * (22.0 + 22.0 * double(in[2][0])))}};
}

std::vector<Dims> suppression_shapes(const ShapeCase& c) {
    check_ranks(c, {3, 3, 1, 1});
    const Dims &boxes = c.in(0), &scores = c.in(1);
    if (boxes[0] != scores[0] || boxes[1] != scores[2] || boxes[2] != 4)
        c.fail("{} do not fit together. Fix: give boxes [batch, n, 4] and scores [batch, classes, n].",
               c.operands_text());
    const int64_t limit = c.attribute("limit").integer;
    if (limit < 1 || limit > boxes[1]) c.fail("limit is {}. Fix: give 1 to {}.", limit, boxes[1]);
    return {dims({scores[0], scores[1], limit}), scores};
}

/// A cut along the images takes their boxes with it; classes share them.
Launch launch_suppression(const Shapes& in, const Shapes& out, const BoundAttrs& attrs) {
    const int64_t n = in[0][1], classes = in[1][1], rows = in[1][0] * classes, limit = out[0][2];
    // measured with scores above the limit; boxes that are gone cost less
    const double each =
        14.0 * double(n) + double(limit) * (100.0 * double(groups_of(n) * invocations) + 2000);
    return {rows, {n, classes, limit, attrs.integer("center", 0)}, {invocations, double(rows) * each}};
}

std::vector<Dims> compact_shapes(const ShapeCase& c) {
    check_ranks(c, {1, 1});
    return {c.in(0), dims({c.in(0)[0], c.in(1)[0]}), dims({1})};
}

Launch launch_compact(const Shapes& in, const Shapes& /*out*/, const BoundAttrs& /*attrs*/) {
    return {
        1, {}, {invocations, double(groups_of(in[0][0]) * invocations) * (22.0 + 9.0 * double(in[1][0]))}};
}

std::vector<Dims> rows_shapes(const ShapeCase& c) {
    check_ranks(c, {2, 1});
    return {dims({c.in(1)[0], c.in(0)[1]})};
}

Launch launch_rows(const Shapes& in, const Shapes& out, const BoundAttrs& /*attrs*/) {
    const int64_t n = in[0][0], width = in[0][1], m = out[0][0];
    Launch result;
    result.work = {1, 6.0 * double(m), double(m), double(width)};
    result.sizes = {{"ROWS", n}, {"WIDTH", width}, {"COUNT", m}};
    result.lengths = {{"X_LENGTH", n * width}, {"Y_LENGTH", m * width}};
    return result;
}

std::vector<Dims> grid_shapes(const ShapeCase& c) {
    check_ranks(c, {3, 3});
    const Dims &x = c.in(0), &grid = c.in(1);
    if (grid[0] != x[0] || grid[2] != 2 ||
        x[2] != c.attribute("height").integer * c.attribute("width").integer)
        c.fail(
            "{} do not fit together. Fix: give x [images, channels, height * width] and grid [images, "
            "points, 2].",
            c.operands_text());
    return {dims({x[0], x[1], grid[1]})};
}

Launch launch_grid(const Shapes& in, const Shapes& out, const BoundAttrs& attrs) {
    const int64_t taps = attrs.integer("taps", 2), groups = groups_of(out[0].product(), many);
    const double each = 110 + double(taps) * (40 + 40.0 * double(taps));
    return {groups,
            {attrs.integer("height", 1), attrs.integer("width", 1), in[0][1], in[1][1], taps,
             attrs.integer("outside", 0), attrs.integer("corners", 0)},
            {many, double(groups * many) * each}};
}

std::vector<Dims> regions_shapes(const ShapeCase& c) {
    check_ranks(c, {3, 2, 1, 1});
    const Dims &x = c.in(0), &rois = c.in(1);
    if (rois[1] != 4 || rois[0] != c.in(2)[0] || c.in(3)[0] != 2 ||
        x[2] != c.attribute("height").integer * c.attribute("width").integer)
        c.fail(
            "{} do not fit together. Fix: give x [images, channels, height * width], rois [regions, 4] and "
            "an image for each.",
            c.operands_text());
    return {dims({rois[0], x[1], c.attribute("rows").integer * c.attribute("columns").integer})};
}

Launch launch_regions(const Shapes& in, const Shapes& out, const BoundAttrs& attrs) {
    const int64_t samples = attrs.integer("samples", 0), groups = groups_of(out[0].product(), many);
    const double points = samples > 0 ? double(samples * samples) : 4;  // their number depends on the regions
    return {groups,
            {attrs.integer("height", 1), attrs.integer("width", 1), in[0][1], attrs.integer("rows", 1),
             attrs.integer("columns", 1), samples, attrs.integer("largest", 0), attrs.integer("half", 0)},
            {many, double(groups * many) * (70 + 75 * points)}};
}

// ---- rows

const OperandSpec index{"index", false, OperandRole::integer}, sizes{"dims", false, OperandRole::integer};

OpcodeSpec row(std::string_view name, std::vector<OperandSpec> inputs, std::vector<OperandSpec> outputs,
               ShapeRule shapes, TypeRule types) {
    OpcodeSpec spec;
    spec.name = name;
    spec.inputs = std::move(inputs);
    spec.outputs = std::move(outputs);
    spec.op_class = OpcodeClass::view;  // what it makes are elements of its operands
    spec.shapes = shapes;
    spec.types = types;
    spec.unit = UnitKind::vpu;
    spec.traits.copies = true;
    spec.traits.of_low = OfLow::low;
    spec.traits.in_steps = InSteps::moved;
    return spec;
}

const AttrSpec how{"how", AttrKind::integer, true, "", "1 add, 2 multiply, 3 maximum, 4 minimum"};

Operation top_k() {
    Operation result;
    result.spec =
        row("top_k", {{"X"}},
            {{"values"}, {"indices", false, OperandRole::integer}, {"places", false, OperandRole::integer}},
            top_k_shapes, one_type<moves>);
    result.spec.attributes = {{"k", AttrKind::integer, true, "", "how many of each row"},
                              {"largest", AttrKind::integer, true, "", "1: the largest, 0: the smallest"}};
    result.spec.formula = "values = the k largest of each row of X, in order; indices = where they were";
    result.cuts = {{"rows", {0}, {0, 0, 0}}};
    result.launch = launch_top_k;
    return result;
}

Operation gather_nd() {
    Operation result;
    result.spec = row("gather_nd", {{"X"}, index, sizes}, {{"Y"}}, gather_shapes, one_type<moves>);
    result.spec.formula = "Y[r,j,c] = X[r,index[r,j],c]";
    result.cuts = {{"rows", {0, 0, -1}, {0}}, {"width", {2, -1, -1}, {2}}, {"indices", {-1, 1, -1}, {1}}};
    result.launch = launch_gather;
    return result;
}

Operation gather_rows() {
    Operation result;
    result.spec = row("gather_rows", {{"X"}, index}, {{"Y"}}, rows_shapes, one_type<moves>);
    result.spec.formula = "Y[j,:] = X[index[j],:], row by row from where X is";
    result.cuts = {{"indices", {-1, 0}, {0}}};
    result.launch = launch_rows;
    result.in_place = 0;
    return result;
}

Operation scatter(std::string_view name, TypeRule types) {
    Operation result;
    result.spec = row(name, {{"X"}, index, sizes, {"updates"}}, {{"Y"}}, scatter_shapes, types);
    result.spec.formula = "Y = X; then Y[r,index[r,j],c] = updates[r,j,c], one j after the other";
    result.cuts = {{"rows", {0, 0, -1, 0}, {0}}, {"width", {2, 2, -1, 2}, {2}}};
    result.launch = launch_scatter;
    return result;
}

Operation scatter_reduce() {
    Operation result = scatter("scatter_reduce", one_type<computes>);
    result.spec.attributes = {how};
    result.spec.formula =
        "Y = X; then Y[r,index[r,j],c] is combined with updates[r,j,c], one j behind the other";
    result.spec.traits.in_steps = InSteps::smooth;
    return result;
}

Operation non_max_suppression() {
    Operation result;
    result.spec = row("non_max_suppression", {{"boxes"}, {"scores"}, {"overlap"}, {"least"}},
                      {{"selected", false, OperandRole::integer}, {"alive", false, OperandRole::integer}},
                      suppression_shapes, one_type<is_f32>);
    result.spec.attributes = {{"limit", AttrKind::integer, true, "", "boxes of each class, at most"},
                              {"center", AttrKind::integer, true, "", "1: boxes are centre and size"}};
    result.spec.formula = "selected = best boxes of each row of scores that do not overlap; the rest is -1";
    result.cuts = {{"images", {0, 0, -1, -1}, {0, 0}}, {"classes", {-1, 1, -1, -1}, {1, 1}}};
    result.launch = launch_suppression;
    result.spec.traits.in_steps = InSteps::smooth;
    return result;
}

Operation compact() {
    Operation result;
    result.spec = row("compact", {{"mask", false, OperandRole::condition}, sizes},
                      {{"positions", false, OperandRole::integer},
                       {"coordinates", false, OperandRole::integer},
                       {"count", false, OperandRole::integer}},
                      compact_shapes, one_type<moves>);
    result.spec.formula = "positions, coordinates = where mask is not 0, in order; the rest is -1";
    result.launch = launch_compact;
    return result;
}

const AttrSpec high{"height", AttrKind::integer, true, "", "rows of a picture"},
    wide{"width", AttrKind::integer, true, "", "columns of a picture"};

Operation grid_sample() {
    Operation result;
    result.spec = row("grid_sample", {{"X"}, {"grid"}}, {{"Y"}}, grid_shapes, one_type<is_f32>);
    result.spec.attributes = {high,
                              wide,
                              {"taps", AttrKind::integer, true, "", "1 nearest, 2 linear, 4 cubic"},
                              {"outside", AttrKind::integer, true, "", "0 zeros, 1 border, 2 mirrored"},
                              {"corners", AttrKind::integer, true, "", "1: -1 is the middle of an element"}};
    result.spec.formula = "Y[n,c,p] = X[n,c,:] at the place grid[n,p], from the elements around it";
    result.cuts = {{"images", {0, 0}, {0}}, {"channels", {1, -1}, {1}}, {"points", {-1, 1}, {2}}};
    result.launch = launch_grid;
    result.spec.traits.in_steps = InSteps::smooth;
    result.spec.traits.places = 1;
    return result;
}

Operation roi_align() {
    Operation result;
    result.spec =
        row("roi_align", {{"X"}, {"rois"}, index, {"scale"}}, {{"Y"}}, regions_shapes, one_type<is_f32>);
    result.spec.attributes = {
        high,
        wide,
        {"rows", AttrKind::integer, true, "", "of cells in a region"},
        {"columns", AttrKind::integer, true, "", "of cells in a region"},
        {"samples", AttrKind::integer, true, "", "of a cell along each side; 0: by its size"},
        {"largest", AttrKind::integer, true, "", "1: the largest, not the mean"},
        {"half", AttrKind::integer, true, "", "0: regions have at least one element"}};
    result.spec.formula = "Y[r,c,cell] = mean of X[index[r],c,:] at points of the cell";
    result.cuts = {{"channels", {1, -1, -1, -1}, {1}}, {"regions", {-1, 0, 0, -1}, {0}}};
    result.launch = launch_regions;
    result.spec.traits.in_steps = InSteps::smooth;
    result.spec.traits.places = 1;
    return result;
}

}  // namespace

const std::vector<Operation>& operations() {
    static const std::vector<Operation> rows{
        top_k(),          gather_nd(),           scatter("scatter_nd", one_type<moves>),
        scatter_reduce(), non_max_suppression(), compact(),
        gather_rows(),    grid_sample(),         roi_align()};
    return rows;
}

const Operation* find(OpcodeId id) {
    const size_t first = opcode_table().size();
    return id < first ? nullptr : &operations().at(id - first);
}

const OpcodeSpec& spec_of(OpcodeId id) {
    const Operation* operation = find(id);
    return operation == nullptr ? opcode(id) : operation->spec;
}

std::optional<OpcodeId> find_spec(std::string_view name) {
    if (const auto id = find_opcode(name)) return id;
    for (size_t i = 0; i < operations().size(); ++i) {
        if (operations()[i].spec.name == name) return static_cast<OpcodeId>(opcode_table().size() + i);
    }
    return std::nullopt;
}

ElemType data_type(const Operation& operation, const std::vector<ElemType>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
        if (operand_spec(operation.spec.inputs, i).role != OperandRole::data) continue;
        if (!is_posit(inputs[i])) return inputs[i];
        return bit_width(inputs[i]) == 8 ? ElemType::i8 : ElemType::i16;
    }
    return ElemType::u8;
}

}  // namespace kpu::kernels
