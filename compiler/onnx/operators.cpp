#include "compiler/onnx/operators.hpp"

#include <unordered_map>

namespace kpu::onnx {
namespace {

std::unordered_map<std::string_view, Operator> make_table() {
    Operators rows;
    for (const auto add :
         {add_convolutions, add_pools, add_products, add_elementwise, add_functions, add_shapes, add_indexing,
          add_norms, add_reductions, add_quantized, add_recurrent, add_attention, add_resizes})
        add(rows);
    std::unordered_map<std::string_view, Operator> table;
    for (const Operator& row : rows) table.emplace(row.type, row);
    return table;
}

}  // namespace

const Operator* find_operator(std::string_view type) {
    static const std::unordered_map<std::string_view, Operator> table = make_table();
    const auto found = table.find(type);
    return found == table.end() ? nullptr : &found->second;
}

}  // namespace kpu::onnx
