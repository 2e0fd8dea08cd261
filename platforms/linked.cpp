#include "platforms/linked.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/text.hpp"
#include "platforms/formula.hpp"
#include "platforms/scales.hpp"

namespace kpu::platforms {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr size_t longest_chain = 256;

[[noreturn]] void fail_at(const LinkedValue& value, const std::string& message) {
    if (value.pos.file.empty())
        throw UserError(fmt::format("--set {}={}: {}", value.path, value.text, message));
    Diagnostics diagnostics;
    diagnostics.error(value.pos, fmt::format("`{}`: {}", value.path, message));
    throw UserError(std::move(diagnostics));
}

/// A number of a platform, wherever it is set or may be.
struct NumberField {
    std::string path;   ///< engine[0].array.rows
    std::string plain;  ///< engine.array.rows
    Message* message;
    const FieldDescriptor* field;

    std::optional<double> value() const {
        const auto* reflection = message->GetReflection();
        if (!reflection->HasField(*message, field)) return std::nullopt;
        switch (field->cpp_type()) {
            case FieldDescriptor::CPPTYPE_UINT32:
                return reflection->GetUInt32(*message, field);
            case FieldDescriptor::CPPTYPE_UINT64:
                return static_cast<double>(reflection->GetUInt64(*message, field));
            case FieldDescriptor::CPPTYPE_DOUBLE:
                return reflection->GetDouble(*message, field);
            default:
                return std::nullopt;
        }
    }
    void clear() const { message->GetReflection()->ClearField(message, field); }
};

/// The entry of engine[2]; nothing for engine, -1 for what is no index.
std::optional<int> index_of(std::string_view first) {
    const size_t open = first.find('[');
    if (open == std::string_view::npos) return std::nullopt;
    int index = -1;
    const std::string_view digits = first.substr(open + 1, first.size() - open - 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    const bool whole = error == std::errc() && end == digits.data() + digits.size() && first.back() == ']';
    return whole && index >= 0 ? index : -1;
}

/// Every number that a path names: engine.array.rows is one of each engine. Empty: there is none.
std::vector<NumberField> numbers_at(Platform& platform, std::string_view path) {
    const size_t dot = std::min(path.find('.'), path.size());
    const std::string_view first = path.substr(0, dot);
    std::vector<std::pair<std::string, Message*>> starts;
    std::string plain(path);
    if (first.substr(0, first.find('[')) == "engine") {
        const std::optional<int> index = index_of(first);
        for (int k = 0; k < platform.engine_size(); ++k)
            if (!index || *index == k)
                starts.emplace_back(fmt::format("engine[{}]", k), platform.mutable_engine(k));
        plain = "engine" + std::string(path.substr(dot));
    } else {
        starts.emplace_back("", &platform);
    }
    const ParameterInfo* row = find_parameter(plain);
    if (row == nullptr || (row->type != "integer" && row->type != "real")) return {};
    std::vector<NumberField> found;
    for (auto& [name, message] : starts) {
        std::string_view rest = name.empty() ? path : path.substr(dot + 1);
        NumberField number{name + (name.empty() ? "" : ".") + std::string(rest), plain, message, nullptr};
        for (size_t to = rest.find('.'); to != std::string_view::npos; to = rest.find('.')) {
            const auto* group =
                number.message->GetDescriptor()->FindFieldByName(std::string(rest.substr(0, to)));
            if (group->is_repeated()) return {};  // rows of lists take plain numbers
            number.message = number.message->GetReflection()->MutableMessage(number.message, group);
            rest.remove_prefix(to + 1);
        }
        number.field = number.message->GetDescriptor()->FindFieldByName(std::string(rest));
        if (number.field->is_repeated()) return {};
        found.push_back(std::move(number));
    }
    return found;
}

/// Returns what a field has that nobody has set.
std::optional<double> default_of(const ParameterInfo& row, schema::Fill fill) {
    double value = 0;
    const std::string& text = row.default_value;
    if (text.empty() || (row.required && fill != schema::Fill::every_field)) return std::nullopt;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

void set_number(Platform& platform, const NumberField& field, double value, const LinkedValue& said) {
    const bool whole = value == std::floor(value) && std::fabs(value) < 0x1p53;
    if (find_parameter(field.plain)->type == "integer" && !whole)
        fail_at(said,
                fmt::format("`{}` would be {}, and takes whole numbers. Fix: choose values that give one; a "
                            "formula has floor, ceil and round.",
                            field.path, value));
    try {
        schema::set_path(platform, field.path,
                         whole ? fmt::format("{:.0f}", value) : fmt::format("{}", value));
    } catch (const UserError& error) {
        const std::string text = error.what();
        fail_at(said, text.substr(std::min(text.size(), text.find(": ") + 2)));
    }
}

std::string names_of_scales() {
    std::string names;
    for (const ScaleInfo& row : scales()) names += (names.empty() ? "" : ", ") + row.path;
    return names;
}

/// Computes formulas, each behind those that it names.
class Settler {
  public:
    Settler(Platform& platform, const std::map<std::string, LinkedValue>& formulas, schema::Fill fill)
        : platform_(platform), formulas_(formulas), fill_(fill) {}

    void run() {
        for (const auto& [path, formula] : formulas_) settle(formula, path);
    }

  private:
    double settle(const LinkedValue& formula, const std::string& path) {
        if (const auto done = values_.find(path); done != values_.end()) return done->second;
        if (open_.size() == longest_chain)
            fail_at(formula,
                    fmt::format("more than {} formulas follow one from the other. Fix: name the number that "
                                "the last of them follows from.",
                                longest_chain));
        if (std::find(open_.begin(), open_.end(), path) != open_.end())
            fail_at(formula,
                    fmt::format("formulas follow from each other: {} -> {}. Fix: give one of them a number.",
                                fmt::join(open_, " -> "), path));
        const NumberField field = numbers_at(platform_, path).front();
        if (const auto other = field.value())
            fail_at(
                formula,
                fmt::format("an operating point gives it {} as well. Fix: leave one of them out.", *other));
        open_.push_back(path);
        for (const std::string& name : names_of(formula.text)) settle_named(in_engine_of(path, name));
        open_.pop_back();
        double value = 0;
        try {
            value = formula_value(formula.text,
                                  [&](std::string_view name) { return number_of(in_engine_of(path, name)); });
        } catch (const UserError& error) {
            fail_at(formula, error.what());
        }
        set_number(platform_, field, value, formula);
        return values_[path] = value;
    }

    void settle_named(const std::string& name) {
        for (const NumberField& field : numbers_at(platform_, name)) {
            const auto formula = formulas_.find(field.path);
            if (formula != formulas_.end()) settle(formula->second, field.path);
        }
    }

    /// Within an engine its own fields are meant.
    static std::string in_engine_of(const std::string& path, std::string_view name) {
        const std::string full(name);
        if (!starts_with(full, "engine.") || !starts_with(path, "engine[")) return full;
        return path.substr(0, path.find('.')) + full.substr(full.find('.'));
    }

    double number_of(const std::string& name) const {
        const std::vector<NumberField> fields = numbers_at(platform_, name);
        if (fields.empty()) unknown(name);
        std::optional<double> common;
        for (const NumberField& field : fields) {
            const double value = number_of(field);
            if (common && *common != value)
                throw UserError(fmt::format("`{}` is not the same in every engine. Fix: say which one: `{}`.",
                                            name, fields.front().path));
            common = value;
        }
        return *common;
    }

    double number_of(const NumberField& field) const {
        if (const auto value = field.value()) return *value;
        const ParameterInfo& row = *find_parameter(field.plain);
        if (const auto value = default_of(row, fill_)) return *value;
        throw UserError(
            fmt::format("`{}` has no value of its own ({}). Fix: set it, or name what it follows from.",
                        field.plain, row.meaning));
    }

    [[noreturn]] void unknown(const std::string& name) const {
        std::vector<std::string_view> names;
        for (const ParameterInfo& row : parameters())
            if (row.type == "integer" || row.type == "real") names.push_back(row.path);
        throw UserError(fmt::format(
            "`{}` is not a number of this platform that a formula can name. Fix: did you mean `{}`?", name,
            nearest_name(name, names)));
    }

    Platform& platform_;
    const std::map<std::string, LinkedValue>& formulas_;
    schema::Fill fill_;
    std::map<std::string, double> values_;
    std::vector<std::string> open_;
};

}  // namespace

/// Fields that a file or a command line has set already, and how: a second setting contradicts the first.
struct LinkedValues::Touched {
    std::map<std::string, std::string> by;
};

void LinkedValues::scale(Platform& platform, const LinkedValue& said, schema::Fill fill, Touched& touched) {
    const std::string& path = said.path;
    const auto group = std::find_if(scales().begin(), scales().end(),
                                    [&](const ScaleInfo& row) { return row.path == path; });
    if (group == scales().end()) {
        std::vector<std::string_view> names;
        for (const ScaleInfo& row : scales()) names.push_back(row.path);
        fail_at(said, fmt::format("there is no group `{}`. Fix: did you mean `{}`? There are {}.", path,
                                  nearest_name(path, names), names_of_scales()));
    }
    double factor = 0;
    const auto [end, error] = std::from_chars(said.text.data(), said.text.data() + said.text.size(), factor);
    if (error != std::errc() || end != said.text.data() + said.text.size() ||
        !(factor >= 1.0 / 1024 && factor <= 1024))
        fail_at(said,
                fmt::format("`{}` is not a factor. Fix: give a number from 1/1024 to 1024.", said.text));
    for (const std::string& name : group->fields) {
        for (const NumberField& field : numbers_at(platform, name)) {
            const auto [other, first] = touched.by.emplace(field.path, fmt::format("{}={}", path, said.text));
            if (!first)
                fail_at(
                    said,
                    fmt::format("`{}` is one of the group, and `{}` sets it too. Fix: leave one of them out.",
                                field.path, other->second));
            if (formulas_.count(field.path) != 0) continue;  // follows from its own
            std::optional<double> value = field.value();
            if (!value) value = default_of(*find_parameter(field.plain), fill);
            if (value)
                set_number(platform, field, *value * factor, said);  // else it follows from scaled fields
        }
    }
}

void LinkedValues::copy_formulas(Platform& platform, int from, int to, const Touched& touched) {
    const std::string old = fmt::format("engine[{}].", from);
    std::map<std::string, LinkedValue> copies;
    for (const auto& [path, formula] : formulas_)
        if (starts_with(path, old))
            copies[fmt::format("engine[{}].{}", to, path.substr(old.size()))] = formula;
    for (const auto& [path, formula] : copies) {
        if (touched.by.count(path) != 0) continue;
        numbers_at(platform, path).front().clear();
        formulas_[path] = formula;
    }
}

void LinkedValues::add_file(Platform& platform, const Platform& said, int engines_before,
                            const LinkedText& text, schema::Fill fill) {
    if (formulas_.empty() && text.formulas.empty() && text.scales.empty()) return;
    Touched touched;
    for (auto [path, value] : fields_of(said)) {
        if (starts_with(path, "engine.")) path.insert(6, "[0]");
        formulas_.erase(path);
        touched.by[path] = fmt::format("{}: {}", path, value);
    }
    for (const LinkedValue& formula : text.formulas) {
        const std::vector<NumberField> fields = numbers_at(platform, formula.path);
        if (fields.empty())
            fail_at(formula, "no field of a platform takes a formula here. Fix: write a plain number.");
        if (!touched.by.emplace(formula.path, fmt::format("{}: \"{}\"", formula.path, formula.text)).second)
            fail_at(formula, fmt::format("`{}` stands twice. Fix: leave one of them out.", formula.path));
        fields.front().clear();
        formulas_[formula.path] = formula;
    }
    for (int k = std::max(1, engines_before); k < platform.engine_size(); ++k)
        copy_formulas(platform, k - 1, k, touched);
    for (const LinkedValue& factor : text.scales) {
        if (!said.has_extends())
            fail_at(factor,
                    "only what another platform says is scaled. Fix: add `extends: \"...\"`, or write the "
                    "values.");
        scale(platform, factor, fill, touched);
    }
}

void LinkedValues::override_with(Platform& platform, const Overrides& overrides, schema::Fill fill) {
    Touched touched;
    std::map<std::string, LinkedValue> factors;  // of two for one group the last counts, as of any parameter
    for (const auto& [path, value] : overrides) {
        if (starts_with(path, "scale.")) {
            factors[path] = {path, value, {}};
            continue;
        }
        const std::vector<NumberField> fields = numbers_at(platform, path);
        const bool formula = !fields.empty() && is_formula(value);
        if (!formula) schema::set_path(platform, path, value);
        for (const NumberField& field : fields) {
            touched.by[field.path] = fmt::format("{}={}", path, value);
            formulas_.erase(field.path);
            if (!formula) continue;
            field.clear();
            formulas_[field.path] = {path, value, {}};
        }
    }
    for (const auto& [path, factor] : factors) scale(platform, factor, fill, touched);
}

void LinkedValues::settle(Platform& platform, schema::Fill fill) const {
    Settler(platform, formulas_, fill).run();
}

}  // namespace kpu::platforms
