#pragma once

#include <cstdint>
#include <vector>

#include "isa/bound_program.hpp"

namespace kpu {

/// A name of letters, digits, _ - and ., that ends in .kern.
bool is_kernel_file_name(std::string_view name);

/// A name of a file as messages show it: printable, and not too long.
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

/// The part of check_structure() that concerns the kernels that the program carries.
void check_kernel_files(const KPUProgram& program, const std::string& origin);

/// The part of check_structure() that concerns places and the files that they name.
void check_places(const KPUProgram& program, const std::string& origin);

/// The part of check_structure() that concerns parameters, places, tensors, ops and data: what the metadata lines of
/// a text give.
void check_host_side(const KPUProgram& program, const std::string& origin);

}  // namespace kpu
