#pragma once
// Words of the text of graphs: names, which are quoted where they have other letters than these.
#include <string>
#include <string_view>

namespace kpu::graph {

/// True if a letter may stand in a name without quotes.
inline bool is_plain(char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '.' || c == '/' || c == '-' || c == '$' || c == '@';
}
/// Returns a name as the text has it.
std::string word_text(std::string_view name);

}  // namespace kpu::graph
