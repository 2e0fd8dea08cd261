#pragma once
// Bytes of constants, as the text of a graph has them.
#include <string_view>

#include "compiler/graph/graph.hpp"
#include "compiler/graph/line.hpp"

namespace kpu::graph {

class ConstantReader {
  public:
    /// `file`: what stands beside the text; empty: nothing.
    explicit ConstantReader(std::string_view file) : file_(file) {}

    /// Returns the elements in the line, one for all, or their place in the file. `made_up` becomes true
    /// where there are none. Throws UserError.
    Data read(Line& line, ElemType elem, const Dims& shape, bool& made_up);

  private:
    Data from_file(Line& line, size_t place, uint64_t size);
    Data elements(Line& line, size_t place, ElemType elem, uint64_t count, std::string_view end);
    std::vector<double> numbers(Line& line, size_t place, ElemType elem, uint64_t count,
                                std::string_view end);
    Data repeated(Line& line, size_t place, const Data& one, uint64_t count);
    Data made(Line& line, size_t place, ElemType elem, uint64_t count);
    void count_made(Line& line, size_t place, uint64_t bytes);

    std::string_view file_;
    uint64_t made_bytes_ = 0;
};

}  // namespace kpu::graph
