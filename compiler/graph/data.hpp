#pragma once
// Elements of constants and of values at run time: dense bytes, read, made, moved.
#include <vector>

#include "compiler/graph/graph.hpp"

namespace kpu::graph {

/// New bytes, not initialised, and the Data that owns them.
struct NewData {
    Data data;
    uint8_t* bytes = nullptr;
};
NewData new_data(uint64_t size);

/// Returns the same bytes at an address that is a multiple of `alignment`: a copy where they are not yet.
Data aligned(const Data& data, uint64_t alignment);

/// Returns the bytes of one element in Data: i4 has one.
uint64_t element_bytes(ElemType elem);

/// Permutes `shape`: dimension d of the result is dimension perm[d] of `shape`.
Dims permuted(const Dims& shape, const std::vector<int>& perm);
Data permuted(const Data& data, uint64_t element_size, const Dims& shape, const std::vector<int>& perm);
std::vector<int> inverse(const std::vector<int>& perm);

/// Returns the indices [first, last) of a dimension of `shape`.
Data slice(const Data& data, uint64_t element_size, const Dims& shape, size_t dim, int64_t first,
           int64_t last);

/// Returns the elements of `shape` repeated as NumPy's broadcast to `target` does.
Data broadcast_to(const Data& data, uint64_t element_size, const Dims& shape, const Dims& target);

/// Returns the numbers that stand in the data, in binary64; quantised ones as the integers that they are.
std::vector<double> numbers(const Value& value);
/// Makes numbers, rounded once to a float type; integer types take whole numbers within their range.
Data make_numbers(ElemType elem, const std::vector<double>& numbers);

}  // namespace kpu::graph
