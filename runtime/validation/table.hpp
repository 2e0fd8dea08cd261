#pragma once
// A file of measurements as text: lines of cells below a header, findings with the line. Lines that begin with # are
// comments.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.hpp"

namespace kpu::validation {

/// A column that a file of measurements may have, or must have.
struct Column {
    std::string_view name;
    bool required = true;
};

class Table {
  public:
    /// Opens a table; "-" is stdin.
    explicit Table(std::string path);

    /// Moves to the next line that is no comment; none at the end.
    bool next();
    /// Returns the cells of the line.
    std::vector<std::string> cells() const;
    /// Takes the line as the header. Errors where columns are unknown, missing or there twice.
    void take_header(const std::vector<Column>& columns);
    /// Takes the line as a row. False, with an error, where it has more or fewer cells than the header.
    bool take_row();

    size_t line() const { return line_; }
    /// Returns a cell; empty where the file has no such column.
    std::string cell(std::string_view column) const;
    /// Returns a number; 0 where nothing stands.
    int64_t number(std::string_view column, int64_t least, int64_t most);
    /// Returns the number of a cell; an error where nothing stands.
    int64_t needed(std::string_view column, int64_t least, int64_t most = largest);
    /// Returns the number of a cell; nothing where nothing stands. `unit` is what the fix asks for.
    std::optional<double> real(std::string_view column, std::string_view unit);
    /// Returns a measured number; 1, with an error, where nothing stands.
    double measured(std::string_view column, std::string_view unit);

    void fail(const std::string& what, const std::string& fix);
    bool has_errors() const { return found_.has_errors(); }
    /// Throws UserError with every finding, if there is one.
    void finish();

    static constexpr int64_t largest = int64_t{1} << 24;

  private:
    std::string path_, bytes_;
    std::string_view rest_, text_;
    size_t line_ = 0;
    std::map<std::string, size_t, std::less<>> places_;  ///< places of the columns
    std::vector<std::string> cells_;
    Diagnostics found_;
};

}  // namespace kpu::validation
