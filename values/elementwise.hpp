#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "values/fast/kernels.hpp"
#include "values/scalar.hpp"

namespace kpu::values {

constexpr int64_t chunk = 512;  ///< elements that the fast engine works on at once

/// The operands of one element of Y. Quantised ones are dequantised; integers of 32 bits are exact in
/// binary64.
struct Element {
    double a = 0, b = 0, c = 0;          ///< as many as the opcode has operands
    const double* attributes = nullptr;  ///< numbers, in the order of the opcode's row
    bool integers = false;               ///< Y holds plain integers: not floats, not quantised
    IntegerRange range{0, 0};            ///< range of Y, if it holds integers
};

/// The same for up to `chunk` elements side by side. A vector form leaves the results in `a`.
struct Elements {
    double* a = nullptr;
    const double *b = nullptr, *c = nullptr;
    const double* attributes = nullptr;
    const double (*lines)[chunk] = nullptr;  ///< values of the first attributes, each repeated
    bool integers = false;
    IntegerRange range{0, 0};
    int64_t count = 0;
};

/// Arithmetic of an elementwise opcode. The result is rounded once to a float type; or rounded half to even
/// and saturated to an integer type, quantised or not.
struct Elementwise {
    std::string_view opcode;
    double (*function)(const Element&);
    /// The same bits, with the kernels of one instruction set; null: the function, element by element.
    void (*vector)(const fast::Kernels&, const Elements&) = nullptr;
    bool grows = false;  ///< its result for finite operands may lie beyond binary64
};

/// Returns the result of a row's function: one beyond binary64 becomes its largest number, which no type of
/// the device holds either.
double bounded(const Elementwise& row, const Element& e, double result);

/// Returns every elementwise opcode: both engines read this table.
const std::vector<Elementwise>& elementwise_table();

constexpr size_t most_lines = 2;  ///< attributes that vector forms read as lines

}  // namespace kpu::values
