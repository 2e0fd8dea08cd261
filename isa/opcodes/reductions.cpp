// Reductions and searches along axes. The functions stand in values/reductions.cpp.
#include "isa/opcodes/rows.hpp"

namespace kpu::opcodes {
namespace {

/// Returns X without the dimensions that `along` names, or with size 1 there.
std::vector<Dims> without(const ShapeCase& c, const std::vector<bool>& along) {
    const bool keep = c.attribute("keepdims").integer != 0;
    Dims result;
    for (size_t d = 0; d < c.in(0).rank; ++d) {
        if (!along[d] || keep) append(c, result, along[d] ? 1 : c.in(0)[d]);
    }
    if (result.rank == 0) append(c, result, 1);  // the language has no scalars
    return {result};
}

std::vector<Dims> reduced(const ShapeCase& c) { return without(c, reduced_axes(c.in(0), c.attrs)); }

std::vector<Dims> searched(const ShapeCase& c) {
    std::vector<bool> along(c.in(0).rank, false);
    along[axis_of(c.in(0), c.attrs)] = true;
    return without(c, along);
}

/// Returns a function of the elements along `axes`.
OpcodeSpec reduction(std::string_view name, std::string_view formula) {
    OpcodeSpec row;
    row.name = name;
    row.inputs = {x};
    row.outputs = {y};
    row.attributes = {
        {"axes", AttrKind::ints, true, "", "the reduced dimensions; negative count from the last"},
        {"keepdims", AttrKind::boolean, true, "", "true: reduced dimensions stay with size 1"}};
    row.formula = formula;
    row.op_class = OpcodeClass::reduction;
    row.family = "reduce";
    row.types = same_numbers;
    row.shapes = reduced;
    row.future = true;
    row.unit = UnitKind::vpu;
    row.work = WorkCount::operands;
    row.energy = per_element;
    row.traits.needs = Needs::reduced;
    row.traits.grouping = Grouping::anchor;
    row.traits.any_order = row.traits.strips = row.traits.requantizes = true;
    return row;
}

/// A sum, whatever it is divided by.
OpcodeSpec sum(std::string_view name, std::string_view formula) {
    OpcodeSpec row = reduction(name, formula);
    row.traits.in_steps = InSteps::smooth;
    row.traits.homogeneous = Homogeneous::together;
    return row;
}

/// One of the elements.
OpcodeSpec choice(std::string_view name, std::string_view formula) {
    OpcodeSpec row = reduction(name, formula);
    row.traits.in_steps = InSteps::moved;
    row.traits.homogeneous = Homogeneous::together;
    return row;
}

/// Returns the position of an element along `axis`.
OpcodeSpec search(std::string_view name, std::string_view formula) {
    OpcodeSpec row = reduction(name, formula);
    row.outputs[0].role = OperandRole::integer;
    row.attributes[0] = axis;
    row.attributes.push_back({"select_last_index", AttrKind::boolean, false, "false",
                              "true: the last of equal elements, the last NaN"});
    row.family = "arg_reduce";
    row.shapes = searched;
    row.traits.in_steps = InSteps::smooth;
    return row;
}

std::vector<Dims> as_input(const ShapeCase& c) {
    c.axis();
    return same_shape(c);
}

OpcodeSpec cumsum() {
    OpcodeSpec row = reduction("cumsum", "Y[i] = sum of X[j], j <= i along axis");
    row.attributes = {axis,
                      {"exclusive", AttrKind::boolean, false, "false", "true: without X[i] itself"},
                      {"reverse", AttrKind::boolean, false, "false", "true: sums run from the last element"}};
    row.family = "scan";
    row.shapes = as_input;
    row.in_place_allowed = true;
    row.traits.needs = Needs::before;
    row.traits.any_order = false;
    return row;
}

}  // namespace

void add_reductions(Table& t) {
    t.push_back(sum("reduce_sum", "Y = sum of X over axes"));
    t.push_back(choice("reduce_max", "Y = maximum of X over axes"));
    t.back().traits.of_low = OfLow::low;
    t.push_back(choice("reduce_min", "Y = minimum of X over axes"));
    t.push_back(sum("reduce_mean", "Y = sum of X over axes / number of elements"));
    t.push_back(reduction("reduce_prod", "Y = product of X over axes"));
    t.push_back(reduction("reduce_l2", "Y = sqrt(sum of X^2 over axes)"));
    t.push_back(search("argmax",
                       "Y = index of the first greatest element along axis; the first NaN if there is one"));
    t.push_back(
        search("argmin", "Y = index of the first least element along axis; the first NaN if there is one"));
    t.push_back(cumsum());
}

}  // namespace kpu::opcodes
