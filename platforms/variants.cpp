#include "platforms/variants.hpp"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>

#include "base/text.hpp"
#include "platforms/library.hpp"
#include "platforms/platform.hpp"
#include "platforms/schema.hpp"
#include "platforms/units.hpp"

namespace kpu::platforms {

const std::vector<nem::TypeFamily>& known_families() {
    static const std::vector<nem::TypeFamily> families = [] {
        Diagnostics diagnostics;
        const nem::Document extensions = nem::parse(embedded_text("kpusim_ext.nem").value(),
                                                    "<kpusim_ext.nem>", nem::default_loader({}), diagnostics);
        if (diagnostics.has_errors()) throw InternalError(diagnostics.to_string());
        std::vector<nem::TypeFamily> all = nem::standard_families();
        all.insert(all.end(), extensions.families.begin(), extensions.families.end());
        return all;
    }();
    return families;
}

std::vector<nem::TypeFamily> families_with(const std::vector<nem::TypeFamily>& own) {
    std::vector<nem::TypeFamily> all = own;
    for (const nem::TypeFamily& family : known_families()) {
        const bool replaced = std::any_of(
            own.begin(), own.end(), [&](const nem::TypeFamily& other) { return other.name == family.name; });
        if (!replaced) all.push_back(family);
    }
    return all;
}

std::optional<nem::VariantRef> parse_variant(std::string_view text) {
    nem::VariantRef ref;
    const size_t dot = text.rfind('.');
    if (dot == std::string_view::npos || dot == 0 || dot + 1 == text.size()) return std::nullopt;
    ref.variant = text.substr(dot + 1);
    std::string_view family = text.substr(0, dot);
    if (const size_t open = family.find('<'); open != std::string_view::npos) {
        if (family.back() != '>') return std::nullopt;
        std::string_view list = family.substr(open + 1, family.size() - open - 2);
        for (bool more = true; more;) {
            const size_t comma = list.find(',');
            std::string_view type = list.substr(0, comma);
            while (!type.empty() && type.front() == ' ') type.remove_prefix(1);
            const auto elem = parse_elem_type(type);
            if (!elem) return std::nullopt;
            ref.types.push_back(*elem);
            more = comma != std::string_view::npos;
            if (more) list.remove_prefix(comma + 1);
        }
        family = family.substr(0, open);
    }
    ref.family = family;
    return ref;
}

namespace {

const proto::VariantSets& variant_sets() {
    static const proto::VariantSets table = [] {
        Diagnostics diagnostics;
        proto::VariantSets parsed;
        schema::parse_text(embedded_text("variant_sets.textproto").value(), "<variant_sets.textproto>",
                           parsed, diagnostics);
        if (diagnostics.has_errors()) throw InternalError(diagnostics.to_string());
        return parsed;
    }();
    return table;
}

const proto::VariantSet* find_variant_set(std::string_view name) {
    for (const proto::VariantSet& set : variant_sets().set()) {
        if (set.name() == name) return &set;
    }
    return nullptr;
}

/// Collects the variants of a group, then of those that it holds. The table is ours: groups hold no circle.
void collect(const proto::VariantSet& set, std::vector<std::string>& into) {
    for (const std::string& variant : set.variant()) {
        if (std::find(into.begin(), into.end(), variant) == into.end()) into.push_back(variant);
    }
    for (const std::string& name : set.variant_set()) collect(*find_variant_set(name), into);
}

}  // namespace

void expand_variant_sets(proto::Platform& platform, Diagnostics& diagnostics) {
    std::vector<std::string> variants;
    for (const std::string& name : platform.variant_set()) {
        if (const proto::VariantSet* set = find_variant_set(name)) {
            collect(*set, variants);
            continue;
        }
        std::vector<std::string_view> names;
        for (const proto::VariantSet& known : variant_sets().set()) names.push_back(known.name());
        diagnostics.error(
            {}, fmt::format("`variant_set`: there is no group `{}`. Fix: one of {}; did you mean `{}`?", name,
                            fmt::join(names, ", "), nearest_name(name, names)));
    }
    const auto& listed = platform.variant();
    for (const std::string& own : listed) {
        const auto again = std::remove(variants.begin(), variants.end(), own);
        variants.erase(again, variants.end());
    }
    variants.insert(variants.end(), listed.begin(), listed.end());
    platform.clear_variant_set();
    platform.clear_variant();
    for (std::string& variant : variants) platform.add_variant(std::move(variant));
}

std::vector<TypeVariant> resolve_variants(const proto::Platform& platform, Diagnostics& diagnostics) {
    std::vector<TypeVariant> variants;
    std::vector<nem::TypeFamily> own;
    for (const std::string& text : platform.type_family()) {
        nem::Document document = nem::parse(text, "<type_family>", nem::default_loader({}), diagnostics);
        for (nem::TypeFamily& family : document.families) own.push_back(std::move(family));
    }
    const std::vector<nem::TypeFamily> families =
        own.empty() ? std::vector<nem::TypeFamily>() : families_with(own);
    for (const std::string& text : platform.variant()) {
        auto ref = parse_variant(text);
        if (!ref) {
            diagnostics.error({}, fmt::format("`variant`: `{}` is not a type variant. Fix: write it as "
                                              "gemm.int8<i8>.with_bias.",
                                              text));
            continue;
        }
        if (auto variant =
                nem::resolve_variant(*ref, own.empty() ? known_families() : families, diagnostics)) {
            variants.push_back(std::move(*variant));
        }
    }
    return variants;
}

namespace {

/// Whoever has posits of a width has them with any es, one in all operands of a task.
void add_other_es(std::vector<TypeVariant>& variants) {
    constexpr ElemType others[] = {ElemType::posit8_es1, ElemType::posit8_es2, ElemType::posit16_es0,
                                   ElemType::posit16_es2};
    const size_t own = variants.size();
    for (const ElemType type : others) {
        const ElemType plain = without_es(type);
        for (size_t i = 0; i < own; ++i) {
            TypeVariant variant = variants[i];
            bool changed = false;
            for (TypeVariant::Binding& binding : variant.bindings) {
                if (binding.absent || binding.any || binding.type != plain) continue;
                binding.type = type;
                changed = true;
            }
            if (!changed) continue;
            const std::string from(name_of(plain)), to(name_of(type));
            for (size_t at = variant.name.find(from); at != std::string::npos;
                 at = variant.name.find(from, at + to.size()))
                variant.name.replace(at, from.size(), to);
            variants.push_back(std::move(variant));
        }
    }
}

}  // namespace

DeviceLimits limits_of(const Platform& platform) {
    DeviceLimits limits;
    limits.name = platform.name();
    limits.agnostic = false;
    const Engines engines = engines_of(platform);
    limits.num_engines = static_cast<uint32_t>(engines.size());
    limits.l2_bytes = platform.l2().size_bytes();
    limits.ddr_bytes = platform.ddr().size_bytes();
    limits.max_active_tokens = platform.sequencer().max_active_tokens();
    limits.store_on_dma = platform.store_on_dma();
    limits.l1_bytes = std::numeric_limits<uint64_t>::max();
    for (const proto::Engine& engine : engines) {
        limits.l1_bytes = std::min(limits.l1_bytes, engine.l1().size_bytes());
    }
    for (const UnitKindRow& row : unit_kinds()) {
        if (row.nem_name.empty()) continue;
        uint32_t& count = limits.count(row.kind);
        if (!row.per_engine) {
            count = unit_count(platform, nullptr, row.kind);
            continue;
        }
        count = std::numeric_limits<uint32_t>::max();
        for (const proto::Engine& engine : engines)
            count = std::min(count, unit_count(platform, &engine, row.kind));
    }
    for (const proto::Engine& engine : engines)
        limits.arrays.push_back(fmt::format("{}x{}", engine.array().rows(), engine.array().cols()));
    Diagnostics diagnostics;
    limits.variants = resolve_variants(platform, diagnostics);
    if (diagnostics.has_errors()) throw UserError(std::move(diagnostics));
    add_other_es(limits.variants);
    return limits;
}

std::shared_ptr<const DeviceLimits> shared_limits_of(const Platform& platform) {
    static std::mutex mutex;
    static std::map<std::string, std::shared_ptr<const DeviceLimits>> known;  // by the platform's bytes
    constexpr size_t most = 16;  // beyond which someone varies the platform, and none comes again
    std::string key;
    {
        google::protobuf::io::StringOutputStream stream(&key);
        google::protobuf::io::CodedOutputStream out(&stream);
        out.SetSerializationDeterministic(true);
        platform.SerializeToCodedStream(&out);
    }
    const std::lock_guard lock(mutex);
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
    if (known.size() == most) known.clear();
    return known.emplace(std::move(key), std::make_shared<const DeviceLimits>(limits_of(platform)))
        .first->second;
}

DeviceLimits agnostic_limits() {
    DeviceLimits limits;
    limits.variants = nem::all_variants(known_families());
    add_other_es(limits.variants);
    return limits;
}

}  // namespace kpu::platforms
