#pragma once
// What only a body that came as bytes can do wrong, beside its form (check_form in text.hpp).
#include <string>

#include "isa/kernel/text.hpp"

namespace kpu::kernel {

/// That the body holds nothing which its text cannot: it is printed and read back. Throws UserError.
void check_text(const proto::KernelBody& body, const std::string& origin);

}  // namespace kpu::kernel
