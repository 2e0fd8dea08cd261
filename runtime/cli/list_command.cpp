// list: what there is, for people and as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "isa/kernel/operations.hpp"
#include "isa/opcodes.hpp"
#include "platforms/parameters.hpp"
#include "platforms/scales.hpp"
#include "platforms/variants.hpp"
#include "runtime/cli/command.hpp"
#include "runtime/cli/language_opcodes.hpp"
#include "runtime/inventory.hpp"

namespace kpu::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the rows of equal keys as an aligned table. Values are strings.
std::string table(const std::vector<std::string>& columns, const Json& rows) {
    std::vector<size_t> widths;
    widths.reserve(columns.size());
    for (const auto& column : columns) widths.push_back(column.size());
    for (const auto& row : rows) {
        for (size_t i = 0; i + 1 < columns.size(); ++i) {
            widths[i] = std::max(widths[i], row[columns[i]].get_ref<const std::string&>().size());
        }
    }
    std::string text;
    const auto line = [&](auto cell) {
        for (size_t i = 0; i < columns.size(); ++i) {
            const std::string value = cell(i);
            text += i + 1 < columns.size() ? fmt::format("{:<{}}  ", value, widths[i]) : value + "\n";
        }
    };
    line([&](size_t i) { return columns[i]; });
    for (const auto& row : rows) line([&](size_t i) { return row[columns[i]].template get<std::string>(); });
    return text;
}

Json platform_rows() {
    Json rows = Json::array();
    for (const auto& name : platforms::shipped_names()) {
        const auto platform = platforms::load(name);
        rows.push_back({{"name", name}, {"description", platform.description()}});
    }
    return rows;
}

std::string signature(const std::vector<OperandSpec>& operands) {
    std::vector<std::string> names;
    names.reserve(operands.size());
    for (const auto& operand : operands)
        names.push_back(std::string(operand.name) + (operand.optional ? "?" : ""));
    return fmt::format("{}", fmt::join(names, ","));
}

std::string_view name_of(AttrKind kind) {
    constexpr std::string_view names[] = {"int", "float", "bool", "etype", "ints", "floats", "str", "id"};
    return names[static_cast<size_t>(kind)];
}

std::string_view name_of(OpcodeClass op_class) {
    constexpr std::string_view names[] = {"gemm",    "conv", "elementwise", "pooling", "norm",
                                          "softmax", "view", "reduction",   "convert"};
    return names[static_cast<size_t>(op_class)];
}

/// True if the arithmetic of the opcode is defined for the types of the variant: families are wider than some
/// of their opcodes.
bool takes(const OpcodeSpec& spec, const TypeVariant& variant) {
    if (spec.types == nullptr) return true;
    std::vector<ElemType> in, out;
    const auto add = [&](const OperandSpec& operand, std::vector<ElemType>& types) {
        for (const TypeVariant::Binding& binding : variant.bindings) {
            if (binding.operand == operand.name && !binding.absent && !binding.any)
                types.push_back(binding.type);
        }
    };
    for (const OperandSpec& operand : spec.inputs) add(operand, in);
    for (const OperandSpec& operand : spec.outputs) add(operand, out);
    const bool known = in.size() == spec.inputs.size() && out.size() == spec.outputs.size();
    return !known || spec.types(spec, in, out);
}

/// Returns the type variants that serve an opcode, those that every device has marked with `!`.
Json variants_of(const OpcodeSpec& spec) {
    static const std::vector<TypeVariant> all = nem::all_variants(platforms::known_families(), false);
    static const std::vector<TypeVariant> must = nem::all_variants(platforms::known_families(), true);
    Json names = Json::array();
    for (const TypeVariant& variant : all) {
        if (spec.family.empty() || variant.opcode != spec.family || !takes(spec, variant)) continue;
        const bool always = std::any_of(must.begin(), must.end(),
                                        [&](const TypeVariant& m) { return m.name == variant.name; });
        names.push_back(variant.name + (always ? "!" : ""));
    }
    return names;
}

Json attribute_rows(const OpcodeSpec& spec) {
    Json rows = Json::array();
    for (const auto& attribute : spec.attributes) {
        rows.push_back({{"name", attribute.name},
                        {"kind", name_of(attribute.kind)},
                        {"required", attribute.required},
                        {"default", attribute.default_text},
                        {"meaning", attribute.meaning}});
    }
    return rows;
}

Json opcode_rows() {
    Json rows = Json::array();
    for (const OpcodeSpec& spec : opcode_table()) {
        std::vector<std::string> attributes;
        for (const auto& attribute : spec.attributes) attributes.emplace_back(attribute.name);
        rows.push_back({{"opcode", spec.name},
                        {"operands", signature(spec.inputs) + (spec.variadic_inputs ? "..." : "") + " -> " +
                                         signature(spec.outputs) + (spec.variadic_outputs ? "..." : "")},
                        {"unit", name_of(spec.unit)},
                        {"attributes", fmt::format("{}", fmt::join(attributes, " "))},
                        {"formula", spec.formula},
                        {"class", name_of(spec.op_class)},
                        {"family", spec.family},
                        {"status", spec.movement  ? "movement"
                                   : spec.refused ? "refused"
                                   : spec.future  ? "future"
                                                  : "stable"},
                        {"origin", in_language(spec.name) ? "NEM" : "extension"},
                        {"in_place", spec.in_place_allowed},
                        {"integers_need_quant", spec.integers_need_quant},
                        {"attribute_details", attribute_rows(spec)},
                        {"variants", variants_of(spec)},
                        {"cycles_per_element", spec.cycles},
                        {"passes", spec.passes},
                        {"energy", spec.energy}});
    }
    return rows;
}

/// Describes the values that a parameter takes: 1..4096, powers of two 1..4096, os|ws|is.
std::string values_of(const platforms::ParameterInfo& row) {
    if (row.type != "integer" && row.type != "real") return row.type;
    return fmt::format("{}{} {}..{}", row.power_of_two ? "power of two, " : "", row.type, row.min, row.max);
}

Json parameter_rows() {
    Json rows = Json::array();
    for (const platforms::ParameterInfo& row : platforms::parameters()) {
        rows.push_back({{"name", row.path},
                        {"unit", row.unit},
                        {"values", values_of(row)},
                        {"default", row.default_value},
                        {"required", row.required},
                        {"meaning", row.meaning}});
    }
    for (const platforms::ScaleInfo& group : platforms::scales()) {
        rows.push_back({{"name", group.path},
                        {"unit", ""},
                        {"values", "real 1/1024..1024"},
                        {"default", "1"},
                        {"required", false},
                        {"meaning", group.meaning}});
    }
    return rows;
}

Json front_end_rows() {
    Json rows = Json::array();
    for (const auto* front_end : compiler::front_ends()) {
        Json options = Json::array();
        for (const OptionRow& option : front_end->options)
            options.push_back({{"name", option.name},
                               {"kind", name_of(option.kind)},
                               {"choices", option.choices},
                               {"default", option.default_text},
                               {"meaning", option.meaning}});
        rows.push_back({{"name", front_end->name},
                        {"description", front_end->description},
                        {"options", options},
                        {"for_device", front_end->for_device},
                        {"default_platform", front_end->default_platform},
                        {"has_values", front_end->has_values}});
    }
    return rows;
}

/// Returns the written form of an operation of kernels.
std::string form_of(const kernel::Operation& row) {
    using kernel::Syntax;
    switch (row.syntax) {
        case Syntax::literal:
            return "a literal";
        case Syntax::variable:
            return "v";
        case Syntax::load:
            return "b[i]";
        case Syntax::length:
            return fmt::format("{}(b)", row.name);
        case Syntax::axis:
            return fmt::format("{}.x", row.name);
        case Syntax::infix:
            return fmt::format("a {} b", row.symbol);
        case Syntax::prefix:
            return fmt::format("{}a", row.symbol);
        case Syntax::cast:
            return "f32(a)";
        case Syntax::atomic:
            return fmt::format("{}(b[i], {})", row.name, row.operands == 2 ? "v" : "expected, v");
        case Syntax::tile:
            return fmt::format("{}{{...}}(...)", row.name);
        case Syntax::function:
            break;
    }
    constexpr std::string_view operands = "a, b, c";
    return fmt::format("{}({})", row.name, operands.substr(0, row.operands == 0 ? 0 : 3 * row.operands - 2u));
}

std::string form_of(const kernel::StatementKind& row) {
    if (!row.end.empty()) return fmt::format("statement, to {}", row.end);
    return row.parts.empty() ? "statement" : fmt::format("statement {}(...)", row.name);
}

/// Lists what kernels are made of: statements, then operations.
Json kernel_rows() {
    Json rows = Json::array();
    for (const kernel::StatementKind& row : kernel::statement_kinds())
        rows.push_back({{"name", row.name},
                        {"form", form_of(row)},
                        {"operands", ""},
                        {"class", ""},
                        {"meaning", row.meaning}});
    for (const kernel::Operation& row : kernel::operations()) {
        std::string types = kernel::names_of(row.types);
        types.erase(std::remove(types.begin(), types.end(), '`'), types.end());
        rows.push_back({{"name", row.name},
                        {"form", form_of(row)},
                        {"operands", types},
                        {"class", kernel::name_of(row.cost)},
                        {"meaning", row.meaning}});
    }
    return rows;
}

Json stat_rows(const traces::StatSet& stats) {
    Json rows = Json::array();
    for (const auto& [key, stat] : stats.all()) {
        rows.push_back({{"key", key}, {"unit", stat.unit}, {"meaning", stat.meaning}});
    }
    return rows;
}

struct ListOptions {
    std::string what;
    DeviceOptions device;
    bool json = false;
};

platforms::Platform platform_of(const ListOptions& options) {
    if (options.device.platform.empty()) {
        throw UserError(
            fmt::format("`list {}` needs a platform. Fix: give --platform NAME; see `kpusim list platforms`.",
                        options.what));
    }
    Diagnostics notes;
    platforms::Platform platform = platforms::load(options.device.platform, options.device.overrides(),
                                                   options.device.search_paths, &notes);
    print_findings(notes);
    return platform;
}

void list(const ListOptions& options) {
    Json rows;
    std::vector<std::string> columns;
    if (options.what == "platforms") {
        rows = platform_rows();
        columns = {"name", "description"};
    } else if (options.what == "opcodes") {
        rows = opcode_rows();
        columns = {"opcode", "origin", "operands", "unit", "attributes", "formula"};
    } else if (options.what == "kernels") {
        rows = kernel_rows();
        columns = {"name", "form", "operands", "class", "meaning"};
    } else if (options.what == "params") {
        rows = parameter_rows();
        columns = {"name", "unit", "values", "default", "meaning"};
    } else if (options.what == "frontends") {
        rows = front_end_rows();
        columns = {"name", "description"};
    } else {
        const auto inventory = runtime::take_inventory(platform_of(options));
        if (options.what == "modules") {
            if (options.json) return print_data(Json({{"modules", inventory.modules}}).dump(2) + "\n");
            return print_out(inventory.modules);
        }
        if (options.what == "stats") {
            rows = stat_rows(inventory.stats);
            columns = {"key", "unit", "meaning"};
        } else {
            rows = Json::array();
            for (const auto& unit : inventory.units)
                rows.push_back({{"unit", unit.name}, {"role", row_of(unit.kind).meaning}});
            columns = {"unit", "role"};
        }
    }
    if (options.json) return print_data(rows.dump(2) + "\n");
    print_out(table(columns, rows));
}

}  // namespace

void add_list(CLI::App& app, int&) {
    auto options = std::make_shared<ListOptions>();
    auto* command = app.add_subcommand(
        "list", "what there is: platforms, params, opcodes, kernels, frontends, units, modules, stats");
    command
        ->add_option(
            "what", options->what,
            "platforms, params (what a platform file and --set may say), opcodes, kernels (statements and "
            "operations), frontends; of a platform: units, modules, stats")
        ->required()
        ->check(CLI::IsMember(
            {"platforms", "params", "opcodes", "kernels", "frontends", "units", "modules", "stats"}));
    options->device.add_to(*command);
    command->add_flag("--json", options->json, "as JSON");
    command->callback([options] { list(*options); });
}

}  // namespace kpu::cli
