// Shape rules of several families.
#include "isa/opcodes/rows.hpp"

namespace kpu::opcodes {

std::vector<Dims> same_shape(const ShapeCase& c) {
    const Dims& result = c.declared() == nullptr ? c.in(0) : *c.declared();
    for (size_t i = 0; i < c.inputs(); ++i) {
        if (c.in(i) == result) continue;
        c.fail("shapes must be identical, {} and {} differ. Fix: give both the same shape.", c.input_text(i),
               c.declared() == nullptr ? c.input_text(0) : c.output_text());
    }
    return {result};
}

int64_t window_positions(int64_t size, int64_t before, int64_t behind, int64_t window, int64_t stride) {
    const int64_t room = size + before + behind - window;
    return room < 0 ? 0 : room / stride + 1;
}

void check_window_fits(const ShapeCase& c, const std::vector<int64_t>& positions) {
    for (const int64_t count : positions) {
        if (count < 1) c.fail("the window does not fit into {}. Fix: add pads.", c.input_text(0));
    }
}

void append(const ShapeCase& c, Dims& shape, int64_t size) {
    if (shape.rank == max_rank) c.fail("the result has more than {} dimensions. Fix: reshape X.", max_rank);
    shape[shape.rank++] = size;
}

int64_t block_count(const ShapeCase& c, int64_t extent) {
    const int64_t size = c.attrs.integer("block_size", 32);
    if (size < 1) c.fail("block_size is {}. Fix: use at least 1; the formats of OCP have 32.", size);
    return (extent + size - 1) / size;
}

}  // namespace kpu::opcodes
