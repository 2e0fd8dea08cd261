#include "compiler/graph/supports.hpp"

#include "compiler/graph/graph.hpp"
#include "compiler/kernels/operations.hpp"

namespace kpu::graph {

bool is_supported(const Supports& supports, std::string_view name, const std::vector<ElemType>& inputs,
                  const std::vector<ElemType>& outputs) {
    const auto id = kernels::find_spec(name);
    if (!id) return false;
    const OpcodeSpec& spec = kernels::spec_of(*id);
    if (spec.types == nullptr || !spec.types(spec, inputs, outputs)) return false;
    return !supports || supports(name, inputs, outputs);
}

bool takes_floats(const Graph& graph, const Node& node, ElemType elem, const Supports& supports) {
    const auto types = [&](const std::vector<ValueId>& ids) {
        std::vector<ElemType> list;
        for (const ValueId id : ids) {
            const Value& value = graph.value(id);
            list.push_back(is_float(value.elem) && !value.quant ? elem : value.elem);
        }
        return list;
    };
    return is_supported(supports, node.spec().name, types(node.inputs), types(node.outputs));
}

bool is_product(const OpcodeSpec& spec) { return spec.macs != nullptr && !spec.accumulates; }

std::pair<ElemType, ElemType> factors_of(ElemType precision) {
    return {precision == ElemType::i4 ? ElemType::i8 : precision, precision};
}

std::string_view sums_opcode(const OpcodeSpec& spec) {
    return spec.accumulates ? spec.name : spec.traits.sums_form;
}

}  // namespace kpu::graph
