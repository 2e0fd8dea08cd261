#pragma once

#include <string_view>

#include "isa/kpu_program.pb.h"

namespace kpu::nem {

/// True if the text of a program is sure to read back as that program: what front ends make is so. Of others,
/// with names twice, inline regions, kernels, ..., it takes reading to know. The program has passed
/// check_structure().
bool is_plain(const proto::KPUProgram& program);
/// True for the text of a plain program: nothing in it but what stands on a keyboard. Its operations may have
/// any names.
bool is_plain(std::string_view text);

}  // namespace kpu::nem
