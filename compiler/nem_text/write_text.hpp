#pragma once

#include <string>

#include "isa/module.hpp"

namespace kpu::compiler {

/// Writes the NEM text of a program to `path`, and each data section that the program carries to
/// `path`.<index>.data beside it, where the front end of NEM text finds them. Throws UserError.
void write_text(const Module& module, const std::string& path);
/// Maps the data sections of a program read from text: files beside it, or what it names.
void load_data(Module& module);

}  // namespace kpu::compiler
