#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace kpu {

/// Returns the NumPy dtype of an element type: i4 travels as int8 (one element a byte), bf16, posits and the
/// small floats as unsigned bit patterns. "<" is little-endian, "|" a single byte.
std::string_view npy_dtype(ElemType type);

/// A C-order array as read from a .npy file. `data` holds the elements little-endian, row-major.
struct NpyArray {
    std::string dtype;           ///< |i1 |u1 <i2 <u2 <i4 <u4 <i8 <u8 <f2 <f4 <f8 |b1
    std::vector<int64_t> shape;  ///< empty: a scalar
    std::string data;
    uint64_t elements() const;  ///< product of the shape
};

/// Reads .npy bytes, format versions 1.0, 2.0 and 3.0. Throws UserError naming `origin` and what is wrong:
/// not a .npy file, truncated, Fortran order, big-endian, structured or unknown dtype, shape that overflows.
NpyArray parse_npy(std::string_view bytes, const std::string& origin);
NpyArray read_npy(const std::string& path);
/// Returns the bytes of a .npy file, not checked beyond what parse_npy() needs of them. `accept` sees dtype
/// and shape before any data is read, and throws for what is not wanted.
std::string read_npy_bytes(const std::string& path, const std::function<void(const NpyArray&)>& accept);

/// Checks that the array holds `type` (for i4 also that every value is in [-8..7]). Throws UserError that
/// names `origin` and the dtype to use.
void check_npy_type(const NpyArray& array, ElemType type, const std::string& origin);

/// Does the same for a dtype; `type` says in the message what it is for: "i64".
void check_npy_dtype(const NpyArray& array, std::string_view dtype, std::string_view type,
                     const std::string& origin);

/// Returns a .npy file, format version 1.0. `data` holds the elements as npy_dtype says. Throws InternalError
/// when its size does not fit the shape.
std::string format_npy(ElemType type, const std::vector<int64_t>& shape, std::string_view data);
std::string format_npy(const NpyArray& array);
/// Writes the same to a file (written under a temporary name, then renamed). Throws UserError.
void write_npy(const std::string& path, ElemType type, const std::vector<int64_t>& shape,
               std::string_view data);
/// Writes an array of a dtype that NpyArray can have.
void write_npy(const std::string& path, std::string_view dtype, const std::vector<int64_t>& shape,
               std::string_view data);

}  // namespace kpu
