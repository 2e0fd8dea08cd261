#pragma once

#include <string_view>

#include "isa/module.hpp"

namespace kpu::fuzz {

/// Checks what must hold for every module that a reader accepted: the verifier and the binder end in findings
/// or UserError, never otherwise; its text reads back as the same program; its container reads back as the
/// same bytes. Aborts when one does not.
void check_module(const Module& module);

/// Reads NEM text that may include the shipped files and itself (`include "self"`); resolves every device
/// that it declares; checks the program. Aborts when a property does not hold.
void check_text(std::string_view text);

/// Reads a container and checks the program.
void check_container(std::string_view bytes);

}  // namespace kpu::fuzz
