#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <string>
#include <string_view>

#include "base/diagnostics.hpp"

namespace kpu {

struct MessageTextOptions {
    /// Receives the place of each field when given.
    google::protobuf::TextFormat::ParseInfoTree* places = nullptr;
    /// Words for a value that an enum field does not have; empty, or no function: general ones.
    std::string (*explain_value)(std::string_view value, std::string_view field) = nullptr;
};

/// Parses protobuf text. Errors go to `diagnostics` as file:line:col, unknown names with the nearest known one.
void parse_message_text(std::string_view text, const std::string& origin, google::protobuf::Message& message,
                        Diagnostics& diagnostics, const MessageTextOptions& options = {});

}  // namespace kpu
