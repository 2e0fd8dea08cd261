#include "platforms/parameters.hpp"

#include <google/protobuf/descriptor.h>

#include <set>

#include "support.hpp"

namespace kpu::platforms {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

void collect(const Descriptor* type, const std::string& prefix, std::vector<std::string>& paths,
             std::vector<const FieldDescriptor*>& fields) {
    for (int i = 0; i < type->field_count(); ++i) {
        const FieldDescriptor* field = type->field(i);
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
            collect(field->message_type(), prefix + field->name() + ".", paths, fields);
        } else {
            paths.push_back(prefix + field->name());
            fields.push_back(field);
        }
    }
}

/// The table and the schema list the same fields in the same order.
TEST(Parameters, AgreeWithTheSchema) {
    std::vector<std::string> paths, table;
    std::vector<const FieldDescriptor*> fields;
    collect(Platform::descriptor(), "", paths, fields);
    for (const ParameterInfo& row : parameters()) table.push_back(row.path);
    std::sort(paths.begin(), paths.end());
    std::sort(table.begin(), table.end());
    EXPECT_EQ(table, paths);
}

/// Types and the values of enumerations in the table are those of the schema; every row has a meaning.
TEST(Parameters, TypesAreThoseOfTheSchema) {
    std::vector<std::string> paths;
    std::vector<const FieldDescriptor*> fields;
    collect(Platform::descriptor(), "", paths, fields);
    for (size_t i = 0; i < paths.size(); ++i) {
        const ParameterInfo* row = find_parameter(paths[i]);
        ASSERT_NE(row, nullptr) << paths[i];
        EXPECT_FALSE(row->meaning.empty()) << paths[i];
        switch (fields[i]->cpp_type()) {
            case FieldDescriptor::CPPTYPE_DOUBLE:
                EXPECT_EQ(row->type, "real") << paths[i];
                break;
            case FieldDescriptor::CPPTYPE_BOOL:
                EXPECT_EQ(row->type, "boolean") << paths[i];
                break;
            case FieldDescriptor::CPPTYPE_STRING:
                EXPECT_TRUE(row->type == "text" || row->type.find('|') != std::string::npos) << paths[i];
                break;
            case FieldDescriptor::CPPTYPE_ENUM: {
                std::string values;
                for (int k = 0; k < fields[i]->enum_type()->value_count(); ++k) {
                    values += (k == 0 ? "" : "|") + fields[i]->enum_type()->value(k)->name();
                }
                EXPECT_EQ(row->type, values);
                break;
            }
            default:
                EXPECT_EQ(row->type, "integer") << paths[i];
        }
    }
}

/// Field names carry their unit wherever the table says cycle, byte, MHz or another one that a name can
/// carry.
TEST(Parameters, NamesCarryUnits) {
    for (const ParameterInfo& row : parameters()) {
        const std::string leaf = row.path.substr(row.path.rfind('.') + 1);
        const std::pair<const char*, const char*> endings[] = {{"byte/cycle", "bytes_per_cycle"},
                                                               {"byte", "_bytes"},
                                                               {"MHz", "mhz"},
                                                               {"MT/s", "_mtps"},
                                                               {"nm", "_nm"}};
        for (const auto& [unit, ending] : endings) {
            if (row.unit == unit) {
                EXPECT_THAT(leaf, testing::EndsWith(ending)) << row.path;
            }
        }
    }
}

}  // namespace
}  // namespace kpu::platforms
