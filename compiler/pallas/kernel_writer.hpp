#pragma once
// The text of a kernel, line by line, and what the lowering knows of its refs and variables.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/append_format.hpp"
#include "compiler/pallas/export.hpp"

namespace kpu::compiler::pallas {

/// Names, buffers and statements of a kernel in the making.
class KernelWriter {
  public:
    /// Declares a buffer; its name, with a number where that is taken.
    std::string buffer(const std::string& name, const char* access, Type type, int64_t count);
    /// Writes a statement, after a `line` where it comes from another one than the statement before it.
    template <typename... Parts>
    void line(fmt::format_string<Parts...> text, Parts&&... parts) {
        write_source();
        body_ += "    ";
        append_format(body_, text, std::forward<Parts>(parts)...);
        body_ += '\n';
    }
    /// Writes endif, else: and the like, which are no statements.
    void close(std::string_view word) { body_.append("    ").append(word).append("\n"); }
    /// Sets where the statements from here on come from, in Python; returns what it was.
    std::string_view set_source(std::string_view source) { return std::exchange(source_, source); }
    void let(std::string_view name, std::string_view value);
    /// Writes `let` of a new variable; returns its name.
    std::string let(std::string_view value);
    std::string fresh(const std::string& name);
    /// Returns the same for a variable of the export.
    std::string variable(int number);
    /// Reserves memory for so many statements, in one piece.
    void reserve(size_t statements) { body_.reserve(statements * 64); }
    /// Returns the whole; nothing is written after it.
    std::string take_text(const std::string& kernel);

  private:
    void write_source();

    std::vector<std::string> buffers_;
    std::string body_;
    std::string_view source_, written_source_;  ///< lines of the export
    std::unordered_map<std::string, int> taken_;
    std::vector<bool> named_;  ///< variables of the export
    int temporaries_ = 0;
};

/// Returns what buffers hold of a type: a byte of bools, of floats of 8 bits, and of whole numbers of 4 and 2
/// bits.
Type stored(Type type);
/// Returns an expression of that type as one of `type`, and the other way round.
std::string loaded(Type type, const std::string& value);
std::string to_store(Type type, const std::string& value);

/// Returns a scalar of some type, in kernel text.
std::string literal(Type type, uint64_t bits);
inline std::string index_text(int64_t value) { return literal(Type::i32, static_cast<uint32_t>(value)); }
std::string join(const Shape& numbers);
std::string braces(const Shape& numbers);          ///< "{1, 2}"; of none: nothing
Shape strung(std::initializer_list<Shape> lists);  ///< joins them one after the other

/// Place of a ref: a buffer, and of several slots the one that counts now.
struct RefPlace {
    std::string buffer;
    Type type = Type::none;  ///< none: a semaphore
    Shape shape;
    int64_t slots = 1;
    std::string slot;  ///< empty: there is one
    bool in_ddr = false;
};

/// A sum of an expression and a number.
struct Sum {
    std::string expression;  ///< empty: none
    int64_t number = 0;
    std::string text() const;
    Sum plus(const Sum& other, int64_t times) const;
};

/// A window of a ref's buffer: what its slices and indices leave.
struct RefView {
    struct Dim {
        Sum start;
        int64_t size = 1, stride = 1;
        bool dropped = false;  ///< indexed by a number
        int64_t extent = 1;    ///< extent of the array

        bool is_whole() const {
            return size == extent && (stride == 1 || size == 1) && start.expression.empty() &&
                   start.number == 0;
        }
    };
    const RefPlace* place = nullptr;
    std::vector<Dim> dims;
    size_t applied = 0;  ///< transforms that it holds
    Shape shape() const;
    /// Returns the shape of its window: with the slot, and with what numbers index.
    Shape window_shape() const;
    bool is_whole() const { return shape() == window_shape(); }
    /// Takes another shape if that only splits or joins dimensions which are whole.
    bool reshape(const Shape& to);
    std::string window() const;
};

}  // namespace kpu::compiler::pallas
