#pragma once
// Kernel text (.kern): docs/kernels.md has the language.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.hpp"
#include "isa/kernel/kernel.pb.h"

namespace kpu::kernel {

constexpr int max_nesting = 64;
/// Returns the most statements of a kernel of a rule set; `line` is none, and there may be three times as
/// many of it.
constexpr int max_statements(std::string_view rules) { return rules == "xla" ? 1 << 17 : 8192; }
constexpr int max_expression_depth = 128;
constexpr size_t max_text_bytes = size_t{1} << 24;

struct Place {
    uint32_t line = 0, column = 0;
};

/// Returns an empty body in an arena of its own: those of large kernels have tens of thousands of parts, so
/// they are shared.
std::shared_ptr<proto::KernelBody> new_body();

/// A kernel with the places of its parts in the text it was read from, or of one that was in none in what is printed.
struct Source {
    std::shared_ptr<const proto::KernelBody> body;
    std::string path;
    Place start;
    std::vector<Place> buffers, statements;  ///< parallel to the body's, or empty
};

/// True if a text holds kernels, by its first words.
bool is_kernel_text(std::string_view text);

/// Parses every kernel of a text. Mistakes go to `diagnostics`; the kernels are then incomplete. The first is
/// read into `body` where one is given, which has to be empty.
std::vector<Source> parse(std::string_view text, const std::string& path, Diagnostics& diagnostics,
                          std::shared_ptr<proto::KernelBody> body = nullptr);

/// Returns text that gives the same kernel, to the byte. The body must be well formed (check_form).
std::string print(const proto::KernelBody& body);
/// Returns a statement as one line, without what its block holds.
std::string statement_text(const proto::KernelStatement& statement);

/// Returns the message about an expression deeper than max_expression_depth.
std::string too_deep(int depth);
/// Checks names, counts, extents of blocks, operands of expressions, limits: what every reader of a body
/// relies on. Throws UserError; `origin` and the body's name begin the message.
void check_form(const proto::KernelBody& body, const std::string& origin);

}  // namespace kpu::kernel
