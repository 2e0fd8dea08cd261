#include "base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/diagnostics.hpp"

namespace kpu {

using nlohmann::json;

json parse_json(std::string_view text) {
    try {
        return json::parse(text);
    } catch (const json::parse_error& error) {
        throw UserError(fmt::format("no JSON at byte {}", error.byte));
    } catch (const json::out_of_range&) {
        throw UserError("a number beyond double");
    }
}

std::string json_text(const json& value, int indent) {
    return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

std::string exact_json_text(const json& value) {
    try {
        return value.dump();
    } catch (const json::type_error&) {
        throw UserError("a name in it is not valid UTF-8");
    }
}

std::string json_quoted(std::string_view text) {
    // names and sentences, nearly always: 5,000 instructions fewer than the way over a document
    const auto plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
    if (!std::all_of(text.begin(), text.end(), plain)) return json_text(json(text));
    std::string quoted;
    quoted.reserve(text.size() + 2);
    quoted += '"';
    quoted += text;
    quoted += '"';
    return quoted;
}

}  // namespace kpu
