#include "compiler/onnx/operators.hpp"

#include <algorithm>
#include <map>

#include "compiler/onnx/import.hpp"

namespace kpu::onnx {
namespace {

/// Indexed by domain and type.
using Table = std::map<std::pair<std::string_view, std::string_view>, Operator>;

Table make_table() {
    Operators rows;
    for (const auto add :
         {add_convolutions,     add_pools,           add_products,    add_einsum,           add_elementwise,
          add_functions,        add_fused,           add_shapes,      add_indexing,         add_norms,
          add_reductions,       add_quantized,       add_qlinear,     add_integer_products, add_recurrent,
          add_attention,        add_multi_head,      add_group_query, add_rotary,           add_caches,
          add_linear_attention, add_block_quantized, add_experts,     add_resizes,          add_sampling,
          add_scatters,         add_selecting,       add_sequences,   add_spectra,          add_withdrawn})
        add(rows);
    // what is made of them node by node: operands without elements are one rule of Call::emit
    Operators of_any_size;
    for (const auto add : {add_elementwise, add_shapes, add_reductions, add_products}) add(of_any_size);
    for (Operator& row : rows) {
        row.empty = row.type == "Gather" ||
                    std::any_of(of_any_size.begin(), of_any_size.end(),
                                [&](const Operator& other) { return other.import == row.import; });
    }
    Table table;
    for (const Operator& row : rows) table.emplace(std::make_pair(row.domain, row.type), row);
    return table;
}

const Table& table_of_operators() {
    static const Table table = make_table();
    return table;
}

}  // namespace

std::vector<KnownOperator> known_operators() {
    std::vector<KnownOperator> result{
        {"If"}, {"Loop"}, {"Scan"}};  // the importer walks what is inside of them
    for (const auto& [name, row] : table_of_operators()) {
        if (!row.domain.empty()) continue;
        result.push_back({row.type, std::max<int64_t>(row.since, 7), row.until});
    }
    std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.type < b.type; });
    return result;
}

const Operator* find_operator(std::string_view domain, std::string_view type) {
    const Table& table = table_of_operators();
    auto found = table.find({domain, type});
    // ONNX Runtime writes some of its own without a domain
    if (found == table.end() && domain.empty()) found = table.find({"com.microsoft", type});
    return found == table.end() ? nullptr : &found->second;
}

std::vector<Operand> import_as(Call& call, const NodeModel& node, int64_t opset,
                               std::vector<Operand> operands) {
    Call other(call.graph, node, opset, call.source, std::move(operands));
    find_operator("", node.type)->import(other);
    call.add_made(other.made());
    return other.results();
}

}  // namespace kpu::onnx
