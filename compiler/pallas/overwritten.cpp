#include "compiler/pallas/overwritten.hpp"

#include <algorithm>

namespace kpu::compiler::pallas {
namespace {

/// True if a ref is written as a whole where an equation stores through it.
bool is_whole(const Ref& ref, const Shape& shape) {
    if (ref.at.empty()) return true;
    const Transform& only = ref.at[0];
    if (ref.at.size() > 1 || only.kind != Transform::Kind::index || only.dims.size() != shape.size())
        return false;
    for (size_t d = 0; d < shape.size(); ++d) {
        const IndexDim& dim = only.dims[d];
        const int64_t size = dim.slice ? dim.size : 1;
        if (!dim.start.is_literal() || dim.start.bits != 0 || dim.stride != 1 || size != shape[d])
            return false;
    }
    return true;
}

bool touches(const Equation& equation, int ref) {
    const auto touched = [ref](const Ref& one) { return one.variable == ref; };
    if (std::any_of(equation.refs.begin(), equation.refs.end(), touched)) return true;
    return std::any_of(equation.blocks.begin(), equation.blocks.end(), [ref](const Block& block) {
        return std::any_of(block.equations.begin(), block.equations.end(),
                           [ref](const Equation& inner) { return touches(inner, ref); });
    });
}

}  // namespace

bool is_overwritten(const Block& body, int ref, const Shape& shape) {
    for (const Equation& equation : body.equations) {
        if (!touches(equation, ref)) continue;
        return equation.op == "swap" && equation.out.empty() && is_whole(equation.refs[0], shape);
    }
    return false;
}

}  // namespace kpu::compiler::pallas
