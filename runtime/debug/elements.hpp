#pragma once
// Texts of what variables and buffers of kernels hold, for a debugger.
#include <functional>
#include <string>

#include "values/kernel/tiles/tile.hpp"

namespace kpu::runtime::debug {

/// Returns "12", "-0.5", "true": of the type's bits.
std::string element_text(kernel::Type type, uint64_t bits);

/// Elements in a shape, row-major.
struct Elements {
    std::string what;     ///< "f32[8, 128]"
    kernel::Shape shape;  ///< empty: one
    std::function<std::string(size_t)> element;
};
/// Views memory that outlives the result; `bits` of an element.
Elements elements_of(kernel::Type type, kernel::Shape shape, const uint8_t* data, unsigned bits);
Elements elements_of(const values::kernel::Tile& tile);

/// Writes one element as a line; of more what they are, and the first and last rows and columns.
std::string whole_text(const std::string& name, const Elements& elements);
/// Returns the element at "1, 5"; with ranges, "1, 0..8", all of these. Throws UserError for what is no place
/// of them.
std::string part_text(const std::string& name, const Elements& elements, const std::string& places);

}  // namespace kpu::runtime::debug
