#include "tests/fuzz/message_mutator.hpp"

#include <google/protobuf/descriptor.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace kpu::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

int64_t interesting_integer(std::mt19937& random, int64_t old) {
    constexpr std::array<int64_t, 16> values = {0,  1,  -1, 2,  3,    4,         7,         8,
                                                16, 63, 64, 65, 4096, INT32_MAX, INT64_MAX, INT64_MIN};
    switch (random() % 4) {
        case 0:
            return values[random() % values.size()];
        case 1:
            return static_cast<int64_t>(static_cast<uint64_t>(old) + random() % 9 - 4);
        case 2:
            return static_cast<int64_t>(uint64_t{1} << random() % 64);
        default:
            return static_cast<int64_t>(random() % 100);
    }
}

double interesting_real(std::mt19937& random, double old) {
    constexpr std::array<double, 8> values = {0.0,
                                              -0.0,
                                              1.0,
                                              0.1,
                                              1e300,
                                              5e-324,
                                              std::numeric_limits<double>::infinity(),
                                              std::numeric_limits<double>::quiet_NaN()};
    return random() % 3 == 0 ? -old * 2 : values[random() % values.size()];
}

/// Returns the float nearest to a double of interest; those beyond its range are infinite.
float real_float(std::mt19937& random, float old) {
    const double value = interesting_real(random, static_cast<double>(old));
    constexpr double most = std::numeric_limits<float>::max();
    if (value > most) return std::numeric_limits<float>::infinity();
    return static_cast<float>(value < -most ? -most : value);
}

std::string interesting_text(std::mt19937& random, std::string old) {
    constexpr std::array<const char*, 16> values = {
        "",      "a",    "gemm", "gemm.acc", "matmul", "conv2d",       "relu",          "add",
        "quant", "NHWC", "NCHW", "HWIO",     "C",      "materialized", "max_in_flight", "resource"};
    if (old.empty() || random() % 2 == 0) return values[random() % values.size()];
    old[random() % old.size()] = static_cast<char>(random() % 128);
    return old;
}

const google::protobuf::EnumValueDescriptor* any_value(const FieldDescriptor& field, std::mt19937& random) {
    return field.enum_type()->value(
        static_cast<int>(random() % static_cast<uint32_t>(field.enum_type()->value_count())));
}

void set_scalar(Message& message, const FieldDescriptor& field, std::mt19937& random) {
    const Reflection& access = *message.GetReflection();
    switch (field.cpp_type()) {
        case FieldDescriptor::CPPTYPE_INT32:
            return access.SetInt32(
                &message, &field,
                static_cast<int32_t>(interesting_integer(random, access.GetInt32(message, &field))));
        case FieldDescriptor::CPPTYPE_INT64:
            return access.SetInt64(&message, &field,
                                   interesting_integer(random, access.GetInt64(message, &field)));
        case FieldDescriptor::CPPTYPE_UINT32:
            return access.SetUInt32(
                &message, &field,
                static_cast<uint32_t>(interesting_integer(random, access.GetUInt32(message, &field))));
        case FieldDescriptor::CPPTYPE_UINT64:
            return access.SetUInt64(&message, &field,
                                    static_cast<uint64_t>(interesting_integer(
                                        random, static_cast<int64_t>(access.GetUInt64(message, &field)))));
        case FieldDescriptor::CPPTYPE_DOUBLE:
            return access.SetDouble(&message, &field,
                                    interesting_real(random, access.GetDouble(message, &field)));
        case FieldDescriptor::CPPTYPE_FLOAT:
            return access.SetFloat(&message, &field, real_float(random, access.GetFloat(message, &field)));
        case FieldDescriptor::CPPTYPE_BOOL:
            return access.SetBool(&message, &field, !access.GetBool(message, &field));
        case FieldDescriptor::CPPTYPE_ENUM:
            return access.SetEnum(&message, &field, any_value(field, random));
        case FieldDescriptor::CPPTYPE_STRING:
            return access.SetString(&message, &field,
                                    interesting_text(random, access.GetString(message, &field)));
        default:
            break;
    }
    access.MutableMessage(&message, &field);
}

void add_item(Message& message, const FieldDescriptor& field, std::mt19937& random) {
    const Reflection& access = *message.GetReflection();
    switch (field.cpp_type()) {
        case FieldDescriptor::CPPTYPE_INT64:
            return access.AddInt64(&message, &field, interesting_integer(random, 0));
        case FieldDescriptor::CPPTYPE_UINT32:
            return access.AddUInt32(&message, &field, static_cast<uint32_t>(interesting_integer(random, 0)));
        case FieldDescriptor::CPPTYPE_DOUBLE:
            return access.AddDouble(&message, &field, interesting_real(random, 1));
        case FieldDescriptor::CPPTYPE_FLOAT:
            return access.AddFloat(&message, &field, real_float(random, 1));
        case FieldDescriptor::CPPTYPE_INT32:
            return access.AddInt32(&message, &field, static_cast<int32_t>(interesting_integer(random, 0)));
        case FieldDescriptor::CPPTYPE_UINT64:
            return access.AddUInt64(&message, &field, static_cast<uint64_t>(interesting_integer(random, 0)));
        case FieldDescriptor::CPPTYPE_STRING:
            return access.AddString(&message, &field, interesting_text(random, ""));
        case FieldDescriptor::CPPTYPE_MESSAGE: {
            const int size = access.FieldSize(message, &field);
            Message* added = access.AddMessage(&message, &field);
            if (size > 0) {
                added->CopyFrom(access.GetRepeatedMessage(
                    message, &field, static_cast<int>(random() % static_cast<uint32_t>(size))));
            }
            return;
        }
        default:
            break;  // the schemas have no other lists
    }
}

void change_list(Message& message, const FieldDescriptor& field, std::mt19937& random) {
    const Reflection& access = *message.GetReflection();
    const auto size = static_cast<uint32_t>(access.FieldSize(message, &field));
    if (size == 0 || random() % 3 == 0) return add_item(message, field, random);
    if (random() % 2 == 0) return access.RemoveLast(&message, &field);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 && random() % 2 == 0) {
        const int item = static_cast<int>(random() % size);
        const int64_t old = access.GetRepeatedInt64(message, &field, item);
        return access.SetRepeatedInt64(&message, &field, item, interesting_integer(random, old));
    }
    access.SwapElements(&message, &field, static_cast<int>(random() % size),
                        static_cast<int>(random() % size));
}

/// Returns a message below `message`, or none: where to go on.
Message* child_of(Message& message, const FieldDescriptor& field, std::mt19937& random) {
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || random() % 8 == 0) return nullptr;
    const Reflection& access = *message.GetReflection();
    if (!field.is_repeated())
        return access.HasField(message, &field) ? access.MutableMessage(&message, &field) : nullptr;
    const auto size = static_cast<uint32_t>(access.FieldSize(message, &field));
    return size == 0 ? nullptr
                     : access.MutableRepeatedMessage(&message, &field, static_cast<int>(random() % size));
}

}  // namespace

void mutate_message(Message& root, std::mt19937& random) {
    Message* message = &root;
    for (;;) {
        const auto& type = *message->GetDescriptor();
        // mostly what is there, sometimes what is not
        std::vector<const FieldDescriptor*> fields;
        message->GetReflection()->ListFields(*message, &fields);
        if (fields.empty() || random() % 4 == 0) {
            if (type.field_count() == 0) return;
            fields = {type.field(static_cast<int>(random() % static_cast<uint32_t>(type.field_count())))};
        }
        const FieldDescriptor& field = *fields[random() % fields.size()];
        if (Message* child = child_of(*message, field, random)) {
            message = child;
            continue;
        }
        if (field.is_repeated()) return change_list(*message, field, random);
        if (random() % 8 == 0) return message->GetReflection()->ClearField(message, &field);
        return set_scalar(*message, field, random);
    }
}

}  // namespace kpu::fuzz
