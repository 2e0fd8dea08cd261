// Type families -> type variants: parameters filled in, family and variant binds merged.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "isa/nem/nem.hpp"
#include "isa/opcodes.hpp"

namespace kpu::nem {
namespace {

std::string variant_text(const std::string& family, const std::vector<ElemType>& types,
                         const std::string& variant) {
    std::string text = family;
    for (size_t i = 0; i < types.size(); ++i)
        text += fmt::format("{}{}", i == 0 ? "<" : ",", name_of(types[i]));
    if (!types.empty()) text += '>';
    return text + "." + variant;
}

/// Returns the opcode: gemm.acc is one of its own; gemm.float and gemm.int8 serve gemm.
std::string opcode_of(const std::string& family) {
    std::string name = family;
    while (!find_opcode(name) && name.find('.') != std::string::npos) name.resize(name.rfind('.'));
    return name;
}

/// Returns the element type that `text` names: a type, or a parameter of the family.
ElemType type_of(const TypeFamily& family, const std::vector<ElemType>& types, const std::string& text) {
    for (size_t i = 0; i < family.parameters.size(); ++i) {
        if (family.parameters[i].first == text) return types[i];
    }
    return parse_elem_type(text).value_or(ElemType::none);
}

TypeVariant::Binding fill_in(const TypeFamily& family, const std::vector<ElemType>& types,
                             const TypeFamily::Bind& bind) {
    using Kind = TypeFamily::Bind::Kind;
    TypeVariant::Binding binding;
    binding.operand = bind.operand;
    binding.absent = bind.kind == Kind::absent;
    binding.any = bind.kind == Kind::any;
    if (bind.kind == Kind::type) binding.type = bind.type;
    if (bind.kind == Kind::parameter) binding.type = type_of(family, types, bind.parameter);
    return binding;
}

TypeVariant instantiate(const TypeFamily& family, const TypeFamily::Variant& variant,
                        const std::vector<ElemType>& types) {
    TypeVariant result;
    result.name = variant_text(family.name, types, variant.name);
    result.family = family.name;
    result.opcode = opcode_of(family.name);
    for (const TypeFamily::Bind& bind : family.binds) result.bindings.push_back(fill_in(family, types, bind));
    for (const TypeFamily::Bind& bind : variant.binds) {
        const TypeVariant::Binding binding = fill_in(family, types, bind);
        const auto same =
            std::find_if(result.bindings.begin(), result.bindings.end(),
                         [&](const TypeVariant::Binding& b) { return b.operand == binding.operand; });
        if (same != result.bindings.end()) {
            *same = binding;
        } else {
            result.bindings.push_back(binding);
        }
    }
    for (const TypeFamily::Attr& attr : family.attrs) {
        if (attr.name == "accum") result.accum = type_of(family, types, attr.value);
        if (attr.name != "quant") continue;
        result.quant =
            attr.value == "required" ? TypeVariant::QuantRule::required : TypeVariant::QuantRule::absent;
        result.quant_on = attr.on;
    }
    return result;
}

/// Returns the declared instantiations of a variant, as text for a message.
std::string instantiations(const TypeFamily& family, const TypeFamily::Variant& variant) {
    std::string list;
    for (const auto& entry : variant.conformance)
        list += (list.empty() ? "" : ", ") + variant_text(family.name, entry.second, variant.name);
    return list;
}

}  // namespace

std::string VariantRef::text() const { return variant_text(family, types, variant); }

std::optional<TypeVariant> resolve_variant(const VariantRef& ref, const std::vector<TypeFamily>& families,
                                           Diagnostics& diagnostics) {
    const auto family = std::find_if(families.begin(), families.end(),
                                     [&](const TypeFamily& f) { return f.name == ref.family; });
    if (family == families.end()) {
        std::vector<std::string_view> names;
        names.reserve(families.size());
        for (const TypeFamily& f : families) names.push_back(f.name);
        const std::string nearest = nearest_name(ref.family, names);
        diagnostics.error(ref.pos, fmt::format("unknown type family `{}`. Fix: {}", ref.family,
                                               nearest.empty() ? "include the file that declares it"
                                                               : fmt::format("did you mean `{}`?", nearest)));
        return std::nullopt;
    }
    const auto variant = std::find_if(family->variants.begin(), family->variants.end(),
                                      [&](const TypeFamily::Variant& v) { return v.name == ref.variant; });
    if (variant == family->variants.end()) {
        std::vector<std::string_view> names;
        for (const TypeFamily::Variant& v : family->variants) names.push_back(v.name);
        diagnostics.error(ref.pos, fmt::format("type family {} has no variant `{}`. Fix: did you mean `{}`?",
                                               family->name, ref.variant, nearest_name(ref.variant, names)));
        return std::nullopt;
    }
    if (ref.types.size() != family->parameters.size()) {
        diagnostics.error(ref.pos,
                          fmt::format("`{}` gives {} type arguments, type family {} has {} parameters. Fix: "
                                      "give one type each",
                                      ref.text(), ref.types.size(), family->name, family->parameters.size()));
        return std::nullopt;
    }
    const bool declared = std::any_of(variant->conformance.begin(), variant->conformance.end(),
                                      [&](const auto& entry) { return entry.second == ref.types; });
    if (!declared) {
        diagnostics.error(ref.pos, fmt::format("type family {} does not declare `{}`. Fix: one of {}",
                                               family->name, ref.text(), instantiations(*family, *variant)));
        return std::nullopt;
    }
    return instantiate(*family, *variant, ref.types);
}

std::vector<TypeVariant> all_variants(const std::vector<TypeFamily>& families, bool must_only) {
    std::vector<TypeVariant> variants;
    for (const TypeFamily& family : families) {
        for (const TypeFamily::Variant& variant : family.variants) {
            for (const auto& [must, types] : variant.conformance) {
                if (must || !must_only) variants.push_back(instantiate(family, variant, types));
            }
        }
    }
    return variants;
}

const std::vector<TypeFamily>& standard_families() {
    static const std::vector<TypeFamily> families = [] {
        const FileLoader loader = default_loader({});
        const std::optional<SourceFile> file = loader("families.nem", "<families.nem>");
        if (!file) throw InternalError("families.nem is not embedded");
        Diagnostics diagnostics;
        Document document = parse(file->text, file->path, loader, diagnostics);
        if (diagnostics.has_errors()) throw InternalError(diagnostics.to_string());
        return std::move(document.families);
    }();
    return families;
}

}  // namespace kpu::nem
