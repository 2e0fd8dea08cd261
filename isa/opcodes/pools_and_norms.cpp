// Pooling, normalisations, softmax.
#include <fmt/ranges.h>

#include "isa/opcodes/rows.hpp"

namespace kpu::opcodes {
namespace {

std::vector<Dims> pool_shape(const ShapeCase& c) {
    const Dims& x_shape = c.in(0);
    const Dims* declared = c.declared();
    const bool fits = declared == nullptr ||
                      (declared->rank == 4 && (*declared)[0] == x_shape[0] && (*declared)[3] == x_shape[3]);
    if (x_shape.rank != 4 || !fits) {
        c.fail("{} and {} must be NHWC with equal batch and channels. Fix: change the shapes.",
               c.input_text(0), c.output_text());
    }
    const std::vector<int64_t>& kernel = c.ints("kernel_shape", 2, 1);
    const std::vector<int64_t>& pad = c.ints("pads", 4, 0);
    const std::vector<int64_t>& step = c.ints("strides", 2, 1);
    std::vector<int64_t> positions;
    Dims result = x_shape;
    for (size_t d = 0; d < 2; ++d) {
        if (pad[d] >= kernel[d] || pad[d + 2] >= kernel[d]) {
            c.fail(
                "pads must be smaller than kernel_shape, or a window holds no element. Fix: use less "
                "padding.");
        }
        positions.push_back(window_positions(x_shape[d + 1], pad[d], pad[d + 2], kernel[d], step[d]));
        result[d + 1] = positions.back();
    }
    check_window_fits(c, positions);
    if (declared != nullptr && !(*declared == result)) {
        c.fail("output {} must be {} by pads, strides and window. Fix: change its shape.", c.output_text(),
               fmt::join(positions, "x"));
    }
    return {result};
}

std::vector<Dims> norm_shape(const ShapeCase& c) {
    const Dims& x_shape = c.in(0);
    if (c.declared() != nullptr && !(*c.declared() == x_shape)) {
        c.fail("shapes must be identical, {} and {} differ. Fix: give both the same shape.", c.input_text(0),
               c.output_text());
    }
    const size_t along = c.axis();
    if (c.attribute("epsilon").real < 0) c.fail("epsilon is negative. Fix: use 0 or above.");
    for (size_t i = 1; i < c.inputs(); ++i) {
        if (c.in(i).rank == 1 && c.in(i)[0] == x_shape[along]) continue;
        c.fail("{} must be [{}], the size along axis {}. Fix: change its shape.", c.input_text(i),
               x_shape[along], along);
    }
    return {x_shape};
}

std::vector<Dims> softmax_shape(const ShapeCase& c) {
    std::vector<Dims> result = same_shape(c);
    c.axis();
    return result;
}

OpcodeSpec pool(std::string_view name, std::string_view formula) {
    OpcodeSpec row;
    row.name = name;
    row.inputs = {x};
    row.outputs = {y};
    row.attributes = {{"kernel_shape", AttrKind::ints, true, "", "[height, width]"}, pads, strides};
    row.formula = formula;
    row.op_class = OpcodeClass::pooling;
    row.family = "eltwise";
    row.types = same_numbers;
    row.shapes = pool_shape;
    row.work = WorkCount::windows;
    row.energy = per_element;
    return row;
}

/// A function of whole rows along `axis`, read `passes` times.
OpcodeSpec row_function(std::string_view name, OpcodeClass op_class, uint32_t passes,
                        std::string_view formula) {
    OpcodeSpec row;
    row.name = name;
    row.inputs = {x};
    row.outputs = {y};
    row.attributes = {axis};
    row.formula = formula;
    row.op_class = op_class;
    row.types = same_floats;
    row.in_place_allowed = true;
    row.passes = passes;
    row.energy = special_function;
    return row;
}

OpcodeSpec norm(std::string_view name, std::vector<OperandSpec> vectors, uint32_t passes,
                std::string_view formula) {
    OpcodeSpec row = row_function(name, OpcodeClass::norm, passes, formula);
    row.inputs.insert(row.inputs.end(), vectors.begin(), vectors.end());
    row.attributes.push_back({"epsilon", AttrKind::real, true, "", "added below the root"});
    row.family = "norm";
    row.shapes = norm_shape;
    return row;
}

OpcodeSpec softmax(std::string_view name, std::string_view formula) {
    OpcodeSpec row = row_function(name, OpcodeClass::softmax, 3, formula);
    row.family = "softmax";
    row.shapes = softmax_shape;
    row.cycles = 2;
    return row;
}

}  // namespace

void add_pools_and_norms(Table& t) {
    const OperandSpec scale{"scale", true}, bias{"bias", true};
    t.push_back(pool("maxpool", "Y[n,y,x,c] = max over the window of X, padding excluded; NHWC"));
    t.push_back(pool("avgpool", "Y[n,y,x,c] = mean over the window of X, padding excluded; NHWC"));
    t.push_back(norm("layernorm", {scale, bias}, 3,
                     "Y = (X - mean) / sqrt(mean((X - mean)^2) + epsilon) * scale + bias, along axis"));
    t.push_back(norm("rmsnorm", {scale}, 2, "Y = X / sqrt(mean(X^2 along axis) + epsilon) * scale"));
    t.push_back(softmax("softmax", "Y = exp(X - max) / sum exp(X - max), along axis"));
    t.push_back(softmax("log_softmax", "Y = (X - max) - ln(sum exp(X - max)), along axis"));
}

}  // namespace kpu::opcodes
