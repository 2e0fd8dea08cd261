#include "compiler/precision/keep.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "compiler/passes/passes.hpp"

namespace kpu::precision {
namespace {

struct Wish {
    std::string pattern;
    ElemType type = ElemType::none;
};

Wish wish_of(std::string_view text) {
    const size_t equals = text.rfind('=');
    Wish wish;
    if (equals != std::string_view::npos) {
        wish.pattern = text.substr(0, equals);
        wish.type = type_named(text.substr(equals + 1));
    }
    if (wish.pattern.empty() || !is_float(wish.type) || is_small_float(wish.type)) {
        throw UserError(
            fmt::format("--keep: `{}` is not OPERATION=TYPE. Fix: write such as conv1=fp16; types are f32, "
                        "fp16, bf16, posit8, posit16, posit8_es1, posit8_es2, posit16_es0, posit16_es2.",
                        text));
    }
    return wish;
}

bool names(const std::string& pattern, const graph::Node& node) {
    const auto fits = [&](const graph::Source& source) {
        return fnmatch(pattern.c_str(), source.name.c_str(), 0) == 0;
    };
    return fits(node.source) || std::any_of(node.absorbed.begin(), node.absorbed.end(), fits);
}

}  // namespace

ElemType type_named(std::string_view name) {
    if (name == "f32") return ElemType::f32;
    if (name == "fp16") return ElemType::f16;
    if (name == "bf16") return ElemType::bf16;
    if (name == "fp8") return ElemType::f8e4m3;
    if (name == "fp8_e5m2") return ElemType::f8e5m2;
    if (const auto type = parse_elem_type(name); type && is_posit(*type)) return *type;
    return name == "int8" ? ElemType::i8 : name == "int4" ? ElemType::i4 : ElemType::none;
}

std::string_view precision_name(ElemType type) {
    switch (type) {
        case ElemType::f16:
            return "fp16";
        case ElemType::f8e4m3:
            return "fp8";
        case ElemType::f8e5m2:
            return "fp8_e5m2";
        case ElemType::i8:
            return "int8";
        case ElemType::i4:
            return "int4";
        default:
            return kpu::name_of(type);
    }
}

void spread(graph::Graph& graph, ElemType precision, const graph::Supports& supports) {
    const std::vector<int32_t> makers = graph::producers(graph);
    for (graph::Node& node : graph.nodes) {
        if (node.kept != ElemType::none || !node.spec().traits.elementwise) continue;
        ElemType type = ElemType::none;
        bool agree = true;
        for (const graph::ValueId id : node.inputs) {
            if (graph.value(id).constant()) continue;
            const ElemType kept =
                makers[id] < 0 ? ElemType::none : graph.nodes[static_cast<size_t>(makers[id])].kept;
            agree = agree && kept != ElemType::none && (type == ElemType::none || type == kept);
            type = kept;
        }
        if (agree && type != ElemType::none && passes::can_keep(graph, node, type, precision, supports))
            node.kept = type;
    }
}

void keep(graph::Graph& graph, std::string_view wishes) {
    while (!wishes.empty()) {
        const size_t comma = std::min(wishes.find(','), wishes.size());
        const Wish wish = wish_of(wishes.substr(0, comma));
        wishes.remove_prefix(std::min(wishes.size(), comma + 1));
        bool found = false;
        for (graph::Node& node : graph.nodes) {
            if (!names(wish.pattern, node)) continue;
            found = true;
            node.kept = wish.type;
        }
        if (!found) {
            throw UserError(
                fmt::format("--keep: the network has no operation `{}`. Fix: give a name that `kpusim check "
                            "MODEL` lists, or a pattern with `*`.",
                            wish.pattern));
        }
    }
}

}  // namespace kpu::precision
