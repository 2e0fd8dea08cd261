#pragma once
// Bodies that came as bytes: what only they can do wrong, beside their form (check_form in text.hpp), and their text.
#include <string>

#include "isa/kernel/text.hpp"

namespace kpu::kernel {

/// Checks that the body holds nothing which its text cannot: it is printed and read back. Throws UserError.
void check_text(const proto::KernelBody& body, const std::string& origin);

/// Prints a kernel that was read from no text, and places its statements in the print(), which begins at
/// `line` of the file; `line` is then the line after it.
Source printed(std::shared_ptr<const proto::KernelBody> body, const std::string& path, uint32_t& line);

}  // namespace kpu::kernel
