#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.hpp"
#include "base/npy.hpp"
#include "isa/bound_program.hpp"
#include "isa/reach.hpp"
#include "values/beyond.hpp"
#include "values/memory_image.hpp"

namespace kpu::runtime {

/// Numbers of an input that left the range of the type that the host gives them.
struct InputRange {
    const TensorSpec* spec = nullptr;
    values::Beyond beyond;
};

/// The host's side of a program: data of its inputs, kept so that every run starts from it, and arrays of its
/// outputs.
class HostTensors {
  public:
    explicit HostTensors(const BoundProgram& program);

    /// Throws UserError naming `origin` on an unknown name (the nearest is named), element type or shape.
    const TensorSpec& check(std::string_view name, const NpyArray& array, const std::string& origin) const;
    void set(std::string_view name, const NpyArray& array, const std::string& origin);
    std::vector<std::string> missing() const;
    /// Returns the inputs that were given and do not fit the device's type.
    std::vector<InputRange> out_of_range() const;
    bool finite() const;  ///< no number that was given is NaN or infinite
    void fill_zero();
    /// Integers: any value of the type, of i64 and bool 0 or 1; floats: uniform in [-1, 1), before they are
    /// quantized. Same seed, same values, on every machine.
    void fill_random(uint64_t seed);

    /// Puts initial data and inputs into memory, marking the bytes as written. Inputs without data are zeros.
    /// Of a large input that was filled, only what tasks can reach.
    void place(values::MemoryImage& memory);
    /// Places what place() left out, for a host that looks at memory; for one buffer, or all.
    void place_rest(values::MemoryImage& memory, std::optional<uint32_t> buffer = std::nullopt);

  private:
    struct Input {
        std::string dense;      ///< as npy_dtype says: i4 one element a byte
        values::Beyond beyond;  ///< results of the conversion that left their range
        bool set = false;
        bool converted_finite = true;  ///< true if all of what was converted was finite as the host gave it
        bool made_on_place = false;    ///< large and filled: `dense` is empty
        bool rest_missing = false;     ///< then: only what tasks reach is in memory
        bool random = false;           ///< then: its elements are random, else zero
        uint64_t seed = 0, first = 0;  ///< random: of the numbers, the one of its first element
    };
    bool is_large(const TensorSpec& spec) const;
    void place_part(values::MemoryImage& memory, size_t input, bool reached);

    const BoundProgram& program_;
    std::vector<Input> inputs_;  ///< parallel to program.inputs
    std::vector<std::vector<ByteRange>> reach_;
};

/// Returns what a program stores by name: its declared tensors, inputs and outputs, then its other buffers,
/// each as a whole with the element type of its regions (u8 when they differ). Earlier ones hide later ones
/// of the same name.
std::vector<TensorSpec> stored_tensors(const BoundProgram& program);

/// Returns the bytes of a tensor as a dense array.
NpyArray read_tensor(const BoundProgram& program, const TensorSpec& spec, const values::MemoryImage& memory);

/// Counts how many numbers of each output are NaN or infinite: an info for those that have any.
Diagnostics numbers_not_finite(const BoundProgram& program, const values::MemoryImage& memory);
/// Counts how many numbers of each output of 64-bit integers were cut to the device's 32, as far as they show
/// it: a warning.
Diagnostics integers_cut(const BoundProgram& program, const values::MemoryImage& memory);

/// Returns a region of memory as a dense array and back. Throws UserError on shapes and types that do not
/// fit.
NpyArray read_view(const values::MemoryImage& memory, const values::RegionView& view);
void write_view(values::MemoryImage& memory, const values::RegionView& view, const NpyArray& array,
                const std::string& origin);

}  // namespace kpu::runtime
