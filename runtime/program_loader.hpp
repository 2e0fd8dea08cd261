#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isa/module.hpp"
#include "platforms/platform.hpp"

namespace kpu::runtime {

/// Reads a program: a container (.kpu) or NEM text, told apart by content; "-" is standard input.
/// Warnings of the parser go to `diagnostics`. Throws UserError when it cannot be read or has errors.
std::shared_ptr<const Module> load_program(const std::string& path,
                                           const std::vector<std::string>& search_paths,
                                           Diagnostics& diagnostics);

/// The same from memory. `origin` names the program in messages; what it includes and the files of its data
/// sections are found beside it.
std::shared_ptr<const Module> parse_program(const std::string& bytes, const std::string& origin,
                                            const std::vector<std::string>& search_paths,
                                            Diagnostics& diagnostics);

/// As load_program, but null for a text of device declarations, whose devices are then checked.
std::shared_ptr<const Module> load_program_or_devices(const std::string& path,
                                                      const std::vector<std::string>& search_paths,
                                                      Diagnostics& diagnostics);

/// As load_program_or_devices, of bytes that are read already; `origin` is their file name.
std::shared_ptr<const Module> parse_program_or_devices(const std::string& bytes, const std::string& origin,
                                                       const std::vector<std::string>& search_paths,
                                                       Diagnostics& diagnostics);

/// Throws the UserError for a file of devices where a program is needed.
[[noreturn]] void refuse_devices(const std::string& path);

/// The platform of a run: `choice` (--platform) if given, else the program's device directive, looked up
/// beside the program, then in the search paths, then among the shipped names. Nothing when neither names
/// one, or when the directive cannot be found (a warning: the program is then device-agnostic).
std::optional<platforms::Platform> resolve_platform(const Module& module, const std::string& choice,
                                                    const platforms::Overrides& overrides,
                                                    const std::vector<std::string>& search_paths,
                                                    Diagnostics& diagnostics);

/// NEM text of a program; load_program gives the same program back.
std::string program_text(const Module& module);
/// The text to `path`, and each data section that the program carries to `path`.<index>.data beside it, where
/// load_program finds them. Throws UserError.
void write_text(const Module& module, const std::string& path);

}  // namespace kpu::runtime
