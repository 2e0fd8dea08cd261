#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <string>
#include <string_view>

#include "base/diagnostics.hpp"

namespace kpu::platforms::schema {

using ParseInfoTree = google::protobuf::TextFormat::ParseInfoTree;

/// Parses protobuf text. Errors go to `diagnostics` as file:line:col, unknown names with the nearest known
/// one. `places`, when given, then knows where each field stands.
void parse_text(std::string_view text, const std::string& origin, google::protobuf::Message& message,
                Diagnostics& diagnostics, ParseInfoTree* places = nullptr);

/// Choice of fields that get their default when they are missing. `nothing`: missing ones are no error
/// either.
enum class Fill { nothing, optional_fields, every_field };

/// Checks every field against the parameter table and fills defaults in. `places` may be null.
void complete(google::protobuf::Message& platform, const std::string& origin, const ParseInfoTree* places,
              Fill fill, Diagnostics& diagnostics);

/// Sets one field, or that of every entry of a list. Throws UserError.
void set_path(google::protobuf::Message& platform, const std::string& path, const std::string& value);

/// Writes protobuf text with fields in schema order and doubles in shortest round-trip form.
std::string print(const google::protobuf::Message& message);

}  // namespace kpu::platforms::schema
