#include "isa/message_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/text.hpp"

namespace kpu {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr int deepest_text = 16;  ///< no message of ours needs as much

/// Returns the texts between double quotes.
std::vector<std::string> quoted(const std::string& message) {
    std::vector<std::string> found;
    for (size_t from = message.find('"'); from != std::string::npos; from = message.find('"', from)) {
        const size_t to = message.find('"', from + 1);
        if (to == std::string::npos) break;
        found.push_back(message.substr(from + 1, to - from - 1));
        from = to + 1;
    }
    return found;
}

/// Gathers the message and all that it is made of.
void gather(const Descriptor* type, std::set<const Descriptor*>& types) {
    if (!types.insert(type).second) return;
    for (int i = 0; i < type->field_count(); ++i) {
        if (const Descriptor* part = type->field(i)->message_type(); part != nullptr) gather(part, types);
    }
}

/// Returns "DDR, L2, L1": what fields of the name take.
std::string values_of(const Descriptor* root, const std::string& field) {
    std::set<const Descriptor*> types;
    gather(root, types);
    std::set<std::string> lists;
    for (const Descriptor* type : types) {
        const FieldDescriptor* found = type->FindFieldByName(field);
        if (found == nullptr || found->enum_type() == nullptr) continue;
        std::string list;
        for (int i = 0; i < found->enum_type()->value_count(); ++i)
            list += (i > 0 ? ", " : "") + found->enum_type()->value(i)->name();
        lists.insert(list);
    }
    return lists.empty() ? "a known name" : fmt::format("one of {}", fmt::join(lists, "; or of "));
}

class Collector final : public google::protobuf::io::ErrorCollector {
  public:
    Collector(std::string_view text, const std::string& origin, const Descriptor* type,
              Diagnostics& diagnostics, const MessageTextOptions& options)
        : text_(text), origin_(origin), type_(type), diagnostics_(diagnostics), options_(options) {}
    void AddError(int line, int column, const std::string& message) override {
        diagnostics_.error(place(line, column, message), explain(message));
    }
    void AddWarning(int line, int column, const std::string& message) override {
        diagnostics_.warning(place(line, column, message), explain(message));
    }

  private:
    /// The parser has gone on to the next token, on another line perhaps: there the value is looked for that it names.
    SourcePos place(int line, int column, const std::string& message) const {
        const SourcePos told{origin_, static_cast<uint32_t>(line + 1), static_cast<uint32_t>(column + 1)};
        if (!starts_with(message, unknown_value) || column > 0) return told;
        size_t begin = 0;
        for (int i = 0; i < line && begin < text_.size(); ++i) begin = text_.find('\n', begin) + 1;
        const size_t found = text_.substr(0, begin).rfind(quoted(message).at(0));
        if (found == std::string_view::npos) return told;
        const std::string_view before = text_.substr(0, found);
        return {origin_, static_cast<uint32_t>(1 + std::count(before.begin(), before.end(), '\n')),
                static_cast<uint32_t>(found - (before.rfind('\n') + 1) + 1)};
    }

    /// Returns the parser's message in words for people who do not know it.
    std::string explain(const std::string& message) const {
        const std::vector<std::string> names = quoted(message);
        if (starts_with(message, "Message type \"") && names.size() == 2)
            return unknown_field(message, names);
        if (starts_with(message, unknown_value) && names.size() == 2) {
            const std::string own =
                options_.explain_value == nullptr ? "" : options_.explain_value(names[0], names[1]);
            if (!own.empty()) return own;
            return fmt::format("`{}` is not a value of `{}`. Fix: give {}.", names[0], names[1],
                               values_of(type_, names[1]));
        }
        if (starts_with(message, "Non-repeated field") && names.size() == 1)
            return fmt::format("`{}` is given twice. Fix: leave one of them.", names[0]);
        if (starts_with(message, "Message is too deep"))
            return fmt::format("groups are nested deeper than {}. Fix: leave some out.", deepest_text);
        if (starts_with(message, "Invalid control characters") ||
            starts_with(message, "Interpreting non ascii"))
            return "here are bytes that are not text. Fix: remove them; a file of text holds nothing else.";
        constexpr std::string_view expected = "Expected ";
        for (const std::string_view between : {std::string_view(", got: "), std::string_view(", found ")}) {
            const size_t at = message.find(between);
            if (!starts_with(message, expected) || at == std::string::npos) continue;
            std::string_view got = std::string_view(message).substr(at + between.size());
            if (got.size() > 3 && got.front() == '"' && got.back() == '.')
                got = got.substr(1, got.size() - 3);
            return fmt::format(
                "`{}` stands where {} is expected. Fix: write `field: value` or `group {{ ... }}`.", got,
                message.substr(expected.size(), at - expected.size()));
        }
        return "this is not protobuf text. Fix: write `field: value` or `group { ... }`.";
    }

    static std::string unknown_field(const std::string& message, const std::vector<std::string>& names) {
        const Descriptor* type =
            google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(names[0]);
        if (type == nullptr) return message;
        std::vector<std::string_view> known;
        known.reserve(static_cast<size_t>(type->field_count()));
        for (int i = 0; i < type->field_count(); ++i) known.push_back(type->field(i)->name());
        return fmt::format("unknown field `{}` of {}. Fix: did you mean `{}`?", names[1], type->name(),
                           nearest_name(names[1], known));
    }

    static constexpr std::string_view unknown_value = "Unknown enumeration value";

    std::string_view text_;
    const std::string& origin_;
    const Descriptor* type_;
    Diagnostics& diagnostics_;
    const MessageTextOptions& options_;
};

}  // namespace

void parse_message_text(std::string_view text, const std::string& origin, Message& message,
                        Diagnostics& diagnostics, const MessageTextOptions& options) {
    Collector collector(text, origin, message.GetDescriptor(), diagnostics, options);
    google::protobuf::TextFormat::Parser parser;
    parser.RecordErrorsTo(&collector);
    parser.SetRecursionLimit(deepest_text);
    if (options.places != nullptr) parser.WriteLocationsTo(options.places);
    google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
    const bool ok = parser.Parse(&stream, &message);
    if (!ok && !diagnostics.has_errors()) diagnostics.error({origin, 0, 0}, "this is not protobuf text");
}

}  // namespace kpu
