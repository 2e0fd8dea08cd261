#pragma once

#include <cstdint>
#include <vector>

#include "isa/bound_program.hpp"

namespace kpu {

/// True for a name of letters, digits, _ - and ., that ends in .kern.
bool is_kernel_file_name(std::string_view name);

/// Returns a name of a file as messages show it: printable, and not too long.
std::string escaped(const std::string& name);

/// The nesting of a program whose structure has been checked; parallel to KPUProgram.statement.
struct Nesting {
    std::vector<int32_t> parent;  ///< statement index of the enclosing loop; -1 = top level
    std::vector<uint16_t> depth;  ///< loops around the statement
};
Nesting nesting_of(const KPUProgram& program);

/// Refuses fields and enum values that this version does not know, naming message and field. By reflection:
/// slow.
void check_known_fields(const google::protobuf::Message& message, const std::string& origin);

/// Checks the kernels that the program carries, as a part of check_structure().
void check_kernel_files(const KPUProgram& program, const std::string& origin);

/// Checks places and the files that they name, as a part of check_structure().
void check_places(const KPUProgram& program, const std::string& origin);

/// Checks parameters, places, tensors, ops and data, as a part of check_structure(): what the metadata lines
/// of a text give.
void check_host_side(const KPUProgram& program, const std::string& origin);

}  // namespace kpu
