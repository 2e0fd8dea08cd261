#pragma once
// Lines and regions of kernels, for breakpoints.
#include <string>
#include <vector>

#include "isa/kernel/code.hpp"

namespace kpu::runtime::debug {

using Kernels = std::vector<const kernel::Code*>;
using Statements = std::vector<bool>;  ///< statements of a kernel, by number

/// "softmax.py:12", "12": a line, of the file if one is named.
struct Line {
    std::string file;  ///< empty: of any
    uint64_t number = 0;
    std::string text() const;
};
/// Throws UserError for what has no number.
Line line_of(const std::string& text);

/// Returns the statements of a line, for each of the kernels: of the text that they were read from, or of the
/// front end's where they say so. Throws UserError where no kernel has any.
std::vector<Statements> statements_of(const Kernels& kernels, const Line& line);
/// Regions of that name, or path of names.
std::vector<Statements> regions_of(const Kernels& kernels, const std::string& name);

}  // namespace kpu::runtime::debug
