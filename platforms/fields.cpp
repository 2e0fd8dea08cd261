// A platform as a flat list of parameters.
#include <fmt/format.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <map>

#include "platforms/platform.hpp"

namespace kpu::platforms {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Fields = std::vector<std::pair<std::string, std::string>>;

void add_fields(const Message& message, const std::string& prefix, Fields& out);

std::string value_text(const Message& message, const FieldDescriptor* field, int index) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        return index < 0 ? message.GetReflection()->GetString(message, field)
                         : message.GetReflection()->GetRepeatedString(message, field, index);
    }
    std::string text;
    google::protobuf::TextFormat::PrintFieldValueToString(message, field, index, &text);
    return text;
}

/// Returns the entry's first field if it is a text: what --set puts in brackets.
std::string key_of(const Message& entry) {
    const FieldDescriptor* first = entry.GetDescriptor()->field(0);
    if (first->cpp_type() != FieldDescriptor::CPPTYPE_STRING || first->is_repeated()) return "";
    return entry.GetReflection()->GetString(entry, first);
}

void add_list(const Message& message, const FieldDescriptor* field, const std::string& name, Fields& out) {
    const auto* reflection = message.GetReflection();
    const int size = reflection->FieldSize(message, field);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
        for (int i = 0; i < size; ++i)
            out.emplace_back(fmt::format("{}[{}]", name, value_text(message, field, i)), "present");
        return;
    }
    std::map<std::string, int> uses;
    for (int i = 0; i < size; ++i) ++uses[key_of(reflection->GetRepeatedMessage(message, field, i))];
    for (int i = 0; i < size; ++i) {
        const Message& entry = reflection->GetRepeatedMessage(message, field, i);
        const std::string key = key_of(entry);
        std::string bracket;
        if (!key.empty() && uses[key] == 1) {
            bracket = "[" + key + "]";
        } else if (size > 1) {
            bracket = fmt::format("[{}]", i);
        }
        add_fields(entry, name + bracket + ".", out);
    }
}

void add_fields(const Message& message, const std::string& prefix, Fields& out) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
        const std::string name = prefix + field->name();
        if (field->is_repeated()) {
            add_list(message, field, name, out);
        } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
            add_fields(message.GetReflection()->GetMessage(message, field), name + ".", out);
        } else {
            out.emplace_back(name, value_text(message, field, -1));
        }
    }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> fields_of(const Platform& platform) {
    Fields fields;
    add_fields(platform, "", fields);
    return fields;
}

}  // namespace kpu::platforms
