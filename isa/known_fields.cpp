// proto3 keeps what it does not know; a program with such content means something we would ignore, so it is
// refused.
#include <fmt/format.h>

#include <map>

#include "isa/structure.hpp"

namespace kpu {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

class FieldWalk {
  public:
    explicit FieldWalk(const std::string& origin) : origin_(origin) {}

    /// Recursion is bounded by protobuf's own parse depth.
    void visit(const Message& message) {
        const Reflection& reflection = *message.GetReflection();
        if (reflection.GetUnknownFields(message).field_count() > 0) {
            throw UserError(
                fmt::format("{}: message {} has field {}, which this version does not know. Fix: use the "
                            "version that wrote the "
                            "file, or write it again.",
                            origin_, message.GetDescriptor()->name(),
                            reflection.GetUnknownFields(message).field(0).number()));
        }
        for (const FieldDescriptor* field : fields_of(message.GetDescriptor())) {
            if (field->is_repeated()) {
                const int size = reflection.FieldSize(message, field);
                for (int i = 0; i < size; ++i) visit(reflection.GetRepeatedMessage(message, field, i));
            } else if (field->type() == FieldDescriptor::TYPE_ENUM) {
                check_enum(*field, reflection.GetEnumValue(message, field));
            } else if (reflection.HasField(message, field)) {
                visit(reflection.GetMessage(message, field));
            }
        }
    }

  private:
    /// Returns message and enum fields of a message type: all that needs a look. (No enum field is repeated.)
    const std::vector<const FieldDescriptor*>& fields_of(const Descriptor* type) {
        const auto [it, inserted] = fields_.try_emplace(type);
        if (inserted) {
            for (int i = 0; i < type->field_count(); ++i) {
                const FieldDescriptor* field = type->field(i);
                if (field->type() == FieldDescriptor::TYPE_MESSAGE ||
                    field->type() == FieldDescriptor::TYPE_ENUM) {
                    it->second.push_back(field);
                }
            }
        }
        return it->second;
    }

    void check_enum(const FieldDescriptor& field, int value) const {
        if (field.enum_type()->FindValueByNumber(value) != nullptr) return;
        throw UserError(
            fmt::format("{}: field {}.{} has value {}, which this version does not know. Fix: use the "
                        "version that wrote the file, or write it again.",
                        origin_, field.containing_type()->name(), field.name(), value));
    }

    const std::string& origin_;
    std::map<const Descriptor*, std::vector<const FieldDescriptor*>>
        fields_;  // looked up only, never iterated
};

}  // namespace

void check_known_fields(const Message& message, const std::string& origin) {
    FieldWalk(origin).visit(message);
}

}  // namespace kpu
