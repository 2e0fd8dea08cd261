// Views: elements are copied as they are.
#include <fmt/ranges.h>

#include <algorithm>

#include "isa/opcodes/rows.hpp"

namespace kpu::opcodes {
namespace {

std::vector<Dims> transposed(const ShapeCase& c) {
    const Dims& from = c.in(0);
    const std::vector<int64_t>& perm = c.ints("perm");
    std::vector<int64_t> sorted = perm;
    std::sort(sorted.begin(), sorted.end());
    bool permutation = sorted.size() == from.rank;
    for (size_t d = 0; permutation && d < sorted.size(); ++d)
        permutation = sorted[d] == static_cast<int64_t>(d);
    if (!permutation) {
        c.fail("perm=[{}] is not a permutation of the dimensions of X {}. Fix: name each of 0 to {} once.",
               fmt::join(perm, ","), shape_text(from), from.rank - 1);
    }
    Dims result;
    for (const int64_t d : perm) append(c, result, from[static_cast<size_t>(d)]);
    return {result};
}

std::vector<Dims> reshaped(const ShapeCase& c) {
    const int64_t elements = c.in(0).product();
    const std::vector<int64_t>& target = c.ints("target_shape");
    Dims result;
    int64_t known = 1;
    int free = -1;
    for (const int64_t size : target) {
        if (size == -1 && free < 0) {
            free = result.rank;
        } else if (size < 1 || size > elements) {
            c.fail(
                "target_shape=[{}] does not hold the {} elements of X. Fix: use sizes of 1 or more, and at "
                "most one -1.",
                fmt::join(target, ","), elements);
        } else {
            known = std::min(known * size, elements + 1);
        }
        append(c, result, size);
    }
    if (free >= 0) {
        result[static_cast<size_t>(free)] = elements / known;
        known *= elements / known;
    }
    if (known != elements) {  // graphs have tensors without dimensions, of one element
        c.fail("target_shape=[{}] does not hold the {} elements of X. Fix: preserve the number of elements.",
               fmt::join(target, ","), elements);
    }
    return {result};
}

std::vector<Dims> sliced(const ShapeCase& c) {
    Dims result = c.in(0);
    const std::vector<SliceRange> ranges = slice_ranges(c.in(0), c.attrs);
    for (size_t d = 0; d < result.rank; ++d) result[d] = ranges[d].count;
    return {result};
}

std::vector<Dims> concatenated(const ShapeCase& c) {
    const size_t along = axis_of(c.in(0), c.attrs);
    Dims result = c.in(0);
    for (size_t i = 1; i < c.inputs(); ++i) {
        Dims other = c.in(i);
        const bool same_rank = other.rank == result.rank;
        if (same_rank) {
            result[along] += other[along];
            other[along] = c.in(0)[along];
        }
        if (!same_rank || !(other == c.in(0))) {
            c.fail("shapes must be equal but for axis {}: {} and {} differ. Fix: make them equal.", along,
                   shape_text(c.in(0)), shape_text(c.in(i)));
        }
    }
    return {result};
}

std::vector<Dims> parts(const ShapeCase& c) {
    const Dims& whole = c.in(0);
    const size_t along = axis_of(whole, c.attrs);
    const std::vector<int64_t>& sizes = c.ints("split_sizes");
    std::vector<Dims> result;
    int64_t sum = 0;
    for (const int64_t size : sizes) {
        if (size < 1 || size > whole[along]) {
            c.fail("split_sizes=[{}] holds {}. Fix: use sizes of 1 or more that sum to {}.",
                   fmt::join(sizes, ","), size, whole[along]);
        }
        sum += size;
        result.push_back(whole);
        result.back()[along] = size;
    }
    if (sum != whole[along]) {
        c.fail("split_sizes=[{}] sum to {}, X has {} along axis {}. Fix: split all of it.",
               fmt::join(sizes, ","), sum, whole[along], along);
    }
    return result;
}

std::vector<Dims> padded(const ShapeCase& c) {
    const std::vector<int64_t>& around = c.ints("pads");
    Dims result = c.in(0);
    if (around.size() != 2u * result.rank) {
        c.fail(
            "pads needs {} integers for X {}, has {}. Fix: give those before each dimension, then those "
            "after.",
            2 * result.rank, shape_text(result), around.size());
    }
    const std::string& mode = c.attribute("mode").text;
    if (mode != "constant" && mode != "edge" && mode != "reflect")
        c.fail("mode={} is unknown. Fix: write constant, edge or reflect.", mode);
    for (size_t d = 0; d < result.rank; ++d) {
        const int64_t size = c.in(0)[d];
        for (const int64_t pad : {around[d], around[d + result.rank]}) {
            if (pad < 0 || pad > INT32_MAX) c.fail("pads has {}. Fix: use 0 or more.", pad);
            if (mode == "reflect" && pad >= size) {
                c.fail("pads has {}, mode reflect takes at most {} along dimension {}. Fix: use less.", pad,
                       size - 1, d);
            }
            result[d] += pad;
        }
    }
    return {result};
}

std::vector<Dims> gathered(const ShapeCase& c) {
    const Dims& from = c.in(0);
    const size_t along = axis_of(from, c.attrs);
    Dims result;
    for (size_t d = 0; d < along; ++d) append(c, result, from[d]);
    for (const int64_t size : c.in(1)) append(c, result, size);
    for (size_t d = along + 1; d < from.rank; ++d) append(c, result, from[d]);
    return {result};
}

/// Returns the block size; channels are the last dimension.
int64_t block_of(const ShapeCase& c) {
    if (c.in(0).rank != 4) c.fail("{} must be NHWC. Fix: reshape it.", c.input_text(0));
    const int64_t block = c.attribute("block").integer;
    if (block < 1 || block > UINT16_MAX) c.fail("block is {}. Fix: use 1 to {}.", block, UINT16_MAX);
    c.word("mode", {"DCR", "CRD"});
    return block;
}

std::vector<Dims> blocks_spread(const ShapeCase& c) {
    const int64_t block = block_of(c);
    Dims result = c.in(0);
    if (result[3] % (block * block) != 0) {
        c.fail("the channels of {} are not a multiple of {} x {}. Fix: use another block.", c.input_text(0),
               block, block);
    }
    result[1] *= block;
    result[2] *= block;
    result[3] /= block * block;
    return {result};
}

std::vector<Dims> blocks_stacked(const ShapeCase& c) {
    const int64_t block = block_of(c);
    Dims result = c.in(0);
    if (result[1] % block != 0 || result[2] % block != 0) {
        c.fail("height and width of {} are not multiples of {}. Fix: pad it, or use another block.",
               c.input_text(0), block);
    }
    result[1] /= block;
    result[2] /= block;
    result[3] *= block * block;
    return {result};
}

std::vector<Dims> elements_gathered(const ShapeCase& c) {
    const Dims &from = c.in(0), &indices = c.in(1);
    const size_t along = axis_of(from, c.attrs);
    bool fits = indices.rank == from.rank;
    for (size_t d = 0; fits && d < from.rank; ++d) fits = d == along || indices[d] <= from[d];
    if (!fits) {
        c.fail(
            "indices {} reach beyond X {} in a dimension other than axis {}. Fix: use the rank of X, and "
            "at most its sizes there.",
            shape_text(indices), shape_text(from), along);
    }
    return {indices};
}

std::vector<Dims> chosen(const ShapeCase& c) {
    for (size_t i = 1; i < c.inputs(); ++i) {
        if (!(c.in(i) == c.in(0)))
            c.fail("shapes must be equal: {} and {} differ. Fix: make them equal.", shape_text(c.in(0)),
                   shape_text(c.in(i)));
    }
    const int64_t index = c.attribute("index").integer;
    if (index < 0 || index >= static_cast<int64_t>(c.inputs()))
        c.fail("index is {}, there are {} inputs. Fix: use 0 to {}.", index, c.inputs(), c.inputs() - 1);
    return {c.in(0)};
}

std::vector<Dims> rows_written(const ShapeCase& c) {
    const Dims &whole = c.in(0), &rows = c.in(1);
    const size_t along = axis_of(whole, c.attrs);
    bool fits = rows.rank == whole.rank;
    for (size_t d = 0; fits && d < whole.rank; ++d)
        fits = d == along ? rows[d] <= whole[d] : rows[d] == whole[d];
    if (!fits)
        c.fail("rows {} do not fit into X {}. Fix: give them its sizes in dimensions other than axis {}.",
               shape_text(rows), shape_text(whole), along);
    const int64_t start = c.attribute("start").integer, last = whole[along] - rows[along];
    if (start < 0 || start > last)
        c.fail("start is {}: rows {} leave X {}. Fix: use 0 to {}.", start, shape_text(rows),
               shape_text(whole), last);
    return {whole};
}

OpcodeSpec view(std::string_view name, ShapeRule shapes, std::vector<AttrSpec> attributes,
                std::string_view formula) {
    OpcodeSpec row;
    row.name = name;
    row.inputs = {x};
    row.outputs = {y};
    row.attributes = std::move(attributes);
    row.formula = formula;
    row.op_class = OpcodeClass::view;
    row.family = "view";
    row.types = same_numbers;
    row.shapes = shapes;
    row.work = WorkCount::result_bytes;
    row.energy = data_moved;
    row.traits.copies = true;
    row.traits.of_low = OfLow::low;
    row.traits.in_steps = InSteps::moved;
    return row;
}

}  // namespace

void add_views(Table& t) {
    constexpr AttrKind ints = AttrKind::ints;
    t.push_back(with_traits(
        view("transpose", transposed, {{"perm", ints, true, "", "dimension of X for each dimension of Y"}},
             "Y[i0,i1,...] = X with dimension perm[d] of X as dimension d of Y"),
        Needs::permuted, Shares::input, Homogeneous::first, Finite::of_finite));
    t.back().traits.strips = t.back().traits.reorders = true;
    t.push_back(with_traits(
        view("reshape", reshaped,
             {{"target_shape", ints, true, "", "the shape of Y; one entry may be -1: what is left"}},
             "Y = the elements of X in row-major order"),
        Shares::input, Homogeneous::first, Finite::of_finite));
    t.back().traits.reorders = true;
    t.push_back(with_traits(
        view("slice", sliced,
             {{"starts", ints, true, "", "first index per axis; negative counts from the end"},
              {"ends", ints, true, "", "index after the last, per axis; negative counts from the end"},
              {"axes", ints, true, "", "the sliced dimensions"},
              {"steps", ints, true, "", "per axis, not 0; negative walks backwards"}},
             "Y = X[starts:ends:steps] along axes, bounds clamped to the dimension"),
        Needs::sliced, Shares::input, Homogeneous::first, Finite::of_finite));
    t.back().traits.any_order = true;
    t.back().reads = OperandRead::slice;
    t.push_back(
        with_traits(view("concat", concatenated, {axis}, "Y = the inputs one after the other along axis"),
                    Shares::output, Finite::of_finite));
    t.back().traits.any_order = true;
    t.back().variadic_inputs = true;
    t.push_back(
        with_traits(view("choose", chosen, {{"index", AttrKind::integer, true, "", "of the input that Y is"}},
                         "Y = input number index"),
                    Shares::output));
    t.back().traits.any_order = true;
    t.back().variadic_inputs = true;
    t.push_back(with_traits(view("insert_rows", rows_written,
                                 {axis, {"start", AttrKind::integer, true, "", "where the first row goes"}},
                                 "Y = X with rows from start on along axis"),
                            Shares::output));
    t.back().traits.any_order = true;
    t.back().inputs.push_back({"rows"});
    t.push_back(with_traits(
        view("split", parts, {axis, {"split_sizes", ints, true, "", "size of each output along axis"}},
             "outputs = consecutive parts of X along axis"),
        Shares::input));
    t.back().traits.any_order = true;
    t.back().variadic_outputs = true;
    t.push_back(with_traits(view("pad", padded,
                                 {{"pads", ints, true, "", "elements before each dimension, then after each"},
                                  {"mode", AttrKind::word, true, "", "constant, edge or reflect"},
                                  {"constant_value", AttrKind::real, false, "0", "of mode constant"}},
                                 "Y = X with pads elements around it"),
                            Needs::padded, Homogeneous::first));
    t.back().traits.any_order = true;
    t.push_back(with_traits(
        view("gather", gathered, {axis},
             "Y[..., i..., ...] = X[..., indices[i...], ...] along axis; a negative index counts from "
             "the end"),
        Needs::gathered));
    t.back().inputs.push_back({"indices", false, OperandRole::integer});
    t.back().reads = OperandRead::rows;
    t.push_back(with_traits(
        view("gather_elements", elements_gathered, {axis},
             "Y[..., i, ...] = X[..., indices[..., i, ...], ...] along axis; a negative index counts "
             "from the end"),
        Needs::picked));
    t.back().inputs.push_back({"indices", false, OperandRole::integer});
    const std::vector<AttrSpec> block_attributes = {
        {"block", AttrKind::integer, true, "", "height and width of a block"},
        {"mode", AttrKind::word, false, "DCR",
         "DCR: channels are [row of the block, column, channel]; CRD: [channel, row, column]"}};
    t.push_back(with_traits(
        view("depth_to_space", blocks_spread, block_attributes,
             "Y[n,y*block+i,x*block+j,c] = X[n,y,x,(i,j,c)]: channels become blocks of pixels; NHWC"),
        Needs::out_of_pixels));
    t.push_back(with_traits(
        view("space_to_depth", blocks_stacked, block_attributes,
             "Y[n,y,x,(i,j,c)] = X[n,y*block+i,x*block+j,c]: blocks of pixels become channels; NHWC"),
        Needs::into_pixels));
}

}  // namespace kpu::opcodes
