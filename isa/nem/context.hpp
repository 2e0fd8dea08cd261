#pragma once

#include <map>
#include <string>
#include <vector>

#include "isa/nem/nem.hpp"

namespace kpu::nem {

constexpr size_t max_errors = 20;  ///< then parsing stops
constexpr unsigned max_include_depth = 32;
constexpr unsigned max_files = 1000;
constexpr size_t max_total_bytes = size_t{1} << 28;  ///< limit of a document with its includes
constexpr unsigned max_nesting = 256;                ///< parentheses, unary minus, lists
constexpr size_t max_expr_tokens = 4096;             ///< after substitution of lets

/// Thrown after an error was reported: unwinds to the place that recovers.
struct SyntaxError {};
/// Thrown when max_errors have been reported: unwinds to parse().
struct TooManyErrors {};

/// State that the files of one document share.
struct Context {
    const FileLoader& loader;
    Diagnostics& diagnostics;
    Document document;
    std::vector<std::string> stack;            ///< paths of the files being read, outermost first
    std::map<std::string, SourcePos> devices;  ///< where each name was declared
    std::map<std::string, SourcePos> families;
    std::vector<std::string> loaded;  ///< every included path
    size_t total_bytes = 0;
    size_t errors = 0;
};

}  // namespace kpu::nem
