#include "platforms/schema.hpp"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "base/text.hpp"
#include "isa/message_text.hpp"
#include "platforms/parameters.hpp"

namespace kpu::platforms::schema {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// Returns words for a value that no field of the name takes; empty: the general ones will do.
std::string explain_value(std::string_view value, std::string_view field) {
    for (const ParameterInfo& row : parameters()) {
        if (row.type.find('|') == std::string::npos || !ends_with(row.path, fmt::format(".{}", field)))
            continue;
        return fmt::format("`{}` is not a value of `{}`. Fix: one of {}.", value, row.path, row.type);
    }
    return {};
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// Sets a field from text; false when the text is no value of the field's type.
bool set_field(Message& message, const FieldDescriptor* field, const std::string& text) {
    const auto* reflection = message.GetReflection();
    switch (field->cpp_type()) {
        case FieldDescriptor::CPPTYPE_STRING:
            reflection->SetString(&message, field, text);
            return true;
        case FieldDescriptor::CPPTYPE_BOOL:
            if (text != "true" && text != "false") return false;
            reflection->SetBool(&message, field, text == "true");
            return true;
        case FieldDescriptor::CPPTYPE_ENUM: {
            const auto* value = field->enum_type()->FindValueByName(text);
            if (value != nullptr) reflection->SetEnum(&message, field, value);
            return value != nullptr;
        }
        case FieldDescriptor::CPPTYPE_DOUBLE: {
            const auto value = parse_number<double>(text);
            if (value) reflection->SetDouble(&message, field, *value);
            return value.has_value();
        }
        case FieldDescriptor::CPPTYPE_UINT32: {
            const auto value = parse_number<uint32_t>(text);
            if (value) reflection->SetUInt32(&message, field, *value);
            return value.has_value();
        }
        case FieldDescriptor::CPPTYPE_UINT64: {
            const auto value = parse_number<uint64_t>(text);
            if (value) reflection->SetUInt64(&message, field, *value);
            return value.has_value();
        }
        case FieldDescriptor::CPPTYPE_INT64: {
            const auto value = parse_number<int64_t>(text);
            if (value) reflection->SetInt64(&message, field, *value);
            return value.has_value();
        }
        default:
            throw InternalError("a field type of the platform schema is not handled: " + field->full_name());
    }
}

struct Value {
    double number = 0;
    uint64_t integer = 0;  ///< value of unsigned fields: doubles are not exact above 2^53
    std::string text;
    bool is_number = false;
};

Value get_field(const Message& message, const FieldDescriptor* field) {
    const auto* reflection = message.GetReflection();
    Value value;
    value.is_number = true;
    switch (field->cpp_type()) {
        case FieldDescriptor::CPPTYPE_DOUBLE:
            value.number = reflection->GetDouble(message, field);
            value.text = fmt::format("{}", value.number);
            break;
        case FieldDescriptor::CPPTYPE_UINT32:
            value.integer = reflection->GetUInt32(message, field);
            break;
        case FieldDescriptor::CPPTYPE_UINT64:
            value.integer = reflection->GetUInt64(message, field);
            break;
        case FieldDescriptor::CPPTYPE_STRING:
            value.is_number = false;
            value.text = reflection->GetString(message, field);
            break;
        default:
            value.is_number = false;
    }
    if (value.is_number && value.text.empty()) {
        value.number = static_cast<double>(value.integer);
        value.text = fmt::format("{}", value.integer);
    }
    return value;
}

std::string unit_suffix(const ParameterInfo& row) { return row.unit.empty() ? "" : " " + row.unit; }

/// Says what is wrong with the value of a field; empty when nothing is.
std::string value_problem(const Message& message, const FieldDescriptor* field, const ParameterInfo& row,
                          const std::string& shown) {
    const Value value = get_field(message, field);
    if (value.is_number) {
        if (!(value.number >= row.min && value.number <= row.max)) {
            return fmt::format(
                "`{}` is {}; it must be from {} to {}{} ({}). Fix: give a value in that range.", shown,
                value.text, row.min, row.max, unit_suffix(row), row.meaning);
        }
        if (row.power_of_two && (value.integer & (value.integer - 1)) != 0) {
            return fmt::format("`{}` is {}; it must be a power of two ({}). Fix: use {} or {}.", shown,
                               value.text, row.meaning,
                               uint64_t{1} << static_cast<int>(std::log2(value.number)),
                               uint64_t{2} << static_cast<int>(std::log2(value.number)));
        }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && row.type != "text") {
        if (("|" + row.type + "|").find("|" + value.text + "|") == std::string::npos) {
            return fmt::format("`{}` is `{}`; it must be one of {}. Fix: choose one of them.", shown,
                               value.text, row.type);
        }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && row.required && value.text.empty()) {
        return fmt::format("`{}` is empty ({}). Fix: give it a value.", shown, row.meaning);
    }
    return "";
}

class Completer {
  public:
    Completer(std::string origin, Fill fill, Diagnostics& diagnostics)
        : origin_(std::move(origin)), fill_(fill), diagnostics_(diagnostics) {}

    /// `shown` names the message with indices (engine[0].array), `plain` without (engine.array); both end in
    /// a dot.
    void visit(Message& message, const std::string& shown, const std::string& plain,
               const ParseInfoTree* places, const SourcePos& message_pos) {
        const Descriptor* type = message.GetDescriptor();
        const auto* reflection = message.GetReflection();
        for (int i = 0; i < type->field_count(); ++i) {
            const FieldDescriptor* field = type->field(i);
            const std::string shown_name = shown + field->name(), plain_name = plain + field->name();
            if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
                visit_messages(message, field, shown_name, plain_name, places, message_pos);
                continue;
            }
            if (field->is_repeated()) continue;
            const ParameterInfo* row = find_parameter(plain_name);
            if (row == nullptr) throw InternalError("no parameter row for " + plain_name);
            if (reflection->HasField(message, field)) {
                const std::string problem = value_problem(message, field, *row, shown_name);
                if (!problem.empty()) diagnostics_.error(position(places, field, -1, message_pos), problem);
            } else if (fill_ == Fill::nothing) {
                continue;
            } else if (fill_ == Fill::optional_fields ? row->required
                                                      : row->default_value.empty() && row->required) {
                missing(*row, shown_name, message_pos);
            } else if (!row->default_value.empty() && !set_field(message, field, row->default_value)) {
                throw InternalError("bad default of " + plain_name);
            }
        }
    }

  private:
    void visit_messages(Message& message, const FieldDescriptor* field, const std::string& shown,
                        const std::string& plain, const ParseInfoTree* places, const SourcePos& message_pos) {
        const auto* reflection = message.GetReflection();
        if (!field->is_repeated()) {
            if (!reflection->HasField(message, field) && fill_ == Fill::nothing) return;
            if (!reflection->HasField(message, field) && fill_ == Fill::optional_fields &&
                needs_fields(plain)) {
                diagnostics_.error(
                    message_pos, fmt::format("`{}` is missing. Fix: add `{} {{ ... }}`; it holds {}.", shown,
                                             field->name(), leaves(plain)));
                return;
            }
            visit(*reflection->MutableMessage(&message, field), shown + ".", plain + ".",
                  nested(places, field, 0), position(places, field, -1, message_pos));
            return;
        }
        for (int k = 0; k < reflection->FieldSize(message, field); ++k) {
            visit(*reflection->MutableRepeatedMessage(&message, field, k), fmt::format("{}[{}].", shown, k),
                  plain + ".", nested(places, field, k), position(places, field, k, message_pos));
        }
    }

    void missing(const ParameterInfo& row, const std::string& shown, const SourcePos& pos) {
        const std::string leaf = row.path.substr(row.path.rfind('.') + 1);
        std::string example = row.default_value.empty() ? "..." : row.default_value;
        if (row.type == "text" || row.path == "ddr.mapping") example = "\"" + example + "\"";
        diagnostics_.error(pos, fmt::format("`{}` is missing: {}{}. Fix: add `{}: {}`.", shown, row.meaning,
                                            row.unit.empty() ? "" : " [" + row.unit + "]", leaf, example));
    }

    static bool needs_fields(const std::string& plain) {
        for (const ParameterInfo& row : parameters()) {
            if (row.required && row.path.rfind(plain + ".", 0) == 0) return true;
        }
        return false;
    }

    static std::string leaves(const std::string& plain) {
        std::string list;
        for (const ParameterInfo& row : parameters()) {
            if (row.required && row.path.rfind(plain + ".", 0) == 0) {
                list += (list.empty() ? "" : ", ") + row.path.substr(plain.size() + 1);
            }
        }
        return list;
    }

    SourcePos position(const ParseInfoTree* places, const FieldDescriptor* field, int index,
                       const SourcePos& fallback) const {
        if (places == nullptr) return fallback;
        const auto location = places->GetLocation(field, index);
        if (location.line < 0) return fallback;
        return {origin_, static_cast<uint32_t>(location.line + 1),
                static_cast<uint32_t>(location.column + 1)};
    }

    static const ParseInfoTree* nested(const ParseInfoTree* places, const FieldDescriptor* field, int index) {
        return places == nullptr ? nullptr
                                 : places->GetTreeForNested(field, field->is_repeated() ? index : -1);
    }

    std::string origin_;
    Fill fill_;
    Diagnostics& diagnostics_;
};

struct Segment {
    std::string name, key;
    bool has_key = false;
};

/// Splits engine[0].array.rows; empty when it is no path.
std::vector<Segment> split_path(std::string_view path) {
    const auto is_word = [](std::string_view word) {
        return !word.empty() && word.find_first_not_of(
                                    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789_.") == std::string_view::npos;
    };
    std::vector<Segment> segments;
    for (size_t from = 0; from <= path.size();) {
        const size_t to = std::min(path.find('.', from), path.size());
        std::string_view part = path.substr(from, to - from);
        Segment segment;
        if (const size_t open = part.find('['); open != std::string_view::npos) {
            if (part.back() != ']') return {};
            segment.key = part.substr(open + 1, part.size() - open - 2);
            segment.has_key = true;
            if (!is_word(segment.key)) return {};
            part = part.substr(0, open);
        }
        if (!is_word(part)) return {};
        segment.name = part;
        segments.push_back(std::move(segment));
        from = to + 1;
    }
    return segments;
}

std::string without_brackets(std::string_view path) {
    std::string plain;
    bool inside = false;
    for (const char c : path) {
        if (c == '[') inside = true;
        if (!inside) plain += c;
        if (c == ']') inside = false;
    }
    return plain;
}

class Setter {
  public:
    Setter(const std::string& path, const std::string& value)
        : path_(path), value_(value), segments_(split_path(path)) {}

    void apply(Message& platform) {
        if (segments_.empty()) unknown();
        step(platform, 0, "");
    }

  private:
    void step(Message& message, size_t depth, const std::string& plain) {
        const Segment& segment = segments_[depth];
        const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(segment.name);
        if (field == nullptr) unknown();
        const std::string name = plain + segment.name;
        if (segment.has_key && !field->is_repeated()) fail(fmt::format("`{}` is not a list", name));
        if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
            if (depth + 1 != segments_.size()) unknown();
            if (field->is_repeated())
                fail(fmt::format("`{}` is a list of texts; edit a platform file instead", name));
            set_leaf(message, field, name);
        } else if (field->is_repeated()) {
            step_list(message, field, depth, name);
        } else {
            if (depth + 1 == segments_.size()) group(name);
            step(*message.GetReflection()->MutableMessage(&message, field), depth + 1, name + ".");
        }
    }

    void step_list(Message& message, const FieldDescriptor* field, size_t depth, const std::string& name) {
        const auto* reflection = message.GetReflection();
        const Segment& segment = segments_[depth];
        const int size = reflection->FieldSize(message, field);
        std::vector<Message*> chosen;
        if (!segment.has_key) {
            for (int k = 0; k < size; ++k)
                chosen.push_back(reflection->MutableRepeatedMessage(&message, field, k));
            if (chosen.empty()) fail(fmt::format("the platform has no `{}`", name));
        } else if (const auto index = parse_number<int>(segment.key)) {
            if (*index < 0 || *index >= size) {
                fail(fmt::format("`{}[{}]` does not exist; the platform has {} of them", name, *index, size));
            }
            chosen.push_back(reflection->MutableRepeatedMessage(&message, field, *index));
        } else {
            chosen.push_back(find_or_add(message, field, segment.key, name));
        }
        for (Message* entry : chosen) {
            if (depth + 1 < segments_.size()) {
                step(*entry, depth + 1, name + ".");
            } else if (segment.has_key && entry->GetDescriptor()->field(0)->name() != "count" &&
                       !parse_number<int>(segment.key)) {
                // engine.array.rate[i8]=0.5 sets the entry's second field
                const FieldDescriptor* leaf = entry->GetDescriptor()->field(1);
                set_leaf(*entry, leaf, name + "." + leaf->name());
            } else {
                group(name);
            }
        }
    }

    /// Returns the entry whose first field, a text, is `key`: rate[i8], cost[exp].
    Message* find_or_add(Message& message, const FieldDescriptor* field, const std::string& key,
                         const std::string& name) {
        const auto* reflection = message.GetReflection();
        const FieldDescriptor* id = field->message_type()->field(0);
        if (id->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
            fail(fmt::format("`{}` takes a number in brackets, not `{}`", name, key));
        }
        for (int k = 0; k < reflection->FieldSize(message, field); ++k) {
            Message* entry = reflection->MutableRepeatedMessage(&message, field, k);
            if (entry->GetReflection()->GetString(*entry, id) == key) return entry;
        }
        Message* entry = reflection->AddMessage(&message, field);
        entry->GetReflection()->SetString(entry, id, key);
        return entry;
    }

    void set_leaf(Message& message, const FieldDescriptor* field, const std::string& name) {
        const ParameterInfo* row = find_parameter(name);
        if (row == nullptr) throw InternalError("no parameter row for " + name);
        if (!set_field(message, field, value_)) {
            fail(fmt::format("`{}` is not a value of type {} ({})", value_, row->type, row->meaning));
        }
        const std::string problem = value_problem(message, field, *row, name);
        if (!problem.empty()) throw UserError(fmt::format("--set {}={}: {}", path_, value_, problem));
    }

    [[noreturn]] void group(const std::string& name) {
        std::string list;
        for (const ParameterInfo& row : parameters()) {
            if (row.path.rfind(name + ".", 0) == 0) list += (list.empty() ? "" : ", ") + row.path;
        }
        throw UserError(
            fmt::format("--set {}={}: `{}` is a group. Fix: name one of {}.", path_, value_, name, list));
    }

    [[noreturn]] void unknown() {
        std::vector<std::string_view> paths;
        for (const ParameterInfo& row : parameters()) paths.push_back(row.path);
        throw UserError(fmt::format("--set {}={}: there is no parameter `{}`. Fix: did you mean `{}`?", path_,
                                    value_, path_, nearest_name(without_brackets(path_), paths)));
    }

    [[noreturn]] void fail(const std::string& why) {
        throw UserError(
            fmt::format("--set {}={}: {}. Fix: correct the path or the value.", path_, value_, why));
    }

    const std::string& path_;
    const std::string& value_;
    std::vector<Segment> segments_;
};

}  // namespace

void parse_text(std::string_view text, const std::string& origin, Message& message, Diagnostics& diagnostics,
                ParseInfoTree* places) {
    parse_message_text(text, origin, message, diagnostics, {places, explain_value});
}

void complete(Message& platform, const std::string& origin, const ParseInfoTree* places, Fill fill,
              Diagnostics& diagnostics) {
    Completer(origin, fill, diagnostics).visit(platform, "", "", places, {origin, 0, 0});
}

void set_path(Message& platform, const std::string& path, const std::string& value) {
    Setter(path, value).apply(platform);
}

std::string print(const Message& message) {
    google::protobuf::TextFormat::Printer printer;
    printer.SetUseShortRepeatedPrimitives(false);
    std::string text;
    if (!printer.PrintToString(message, &text)) throw InternalError("protobuf text cannot be printed");
    return text;
}

}  // namespace kpu::platforms::schema
