#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kpu::traces {

/// A CSV text with a header row (RFC 4180: fields may be quoted). Lines that start with # before the header
/// are comments.
class CsvTable {
  public:
    /// Throws UserError naming `origin` and the line: a quote that does not close, a row with another number
    /// of fields than the header.
    CsvTable(std::string_view text, std::string origin);

    size_t rows() const { return rows_.size(); }
    /// Index of a column, or nothing.
    static constexpr size_t absent = static_cast<size_t>(-1);
    size_t find(std::string_view column) const;
    /// Throws UserError naming the column.
    size_t column(std::string_view name) const;
    const std::string& at(size_t row, size_t column) const { return rows_[row].fields[column]; }
    /// Numbers; an empty field is 0. Throws UserError naming line and column.
    uint64_t integer(size_t row, size_t column) const;
    double real(size_t row, size_t column) const;

  private:
    struct Row {
        size_t line = 0;
        std::vector<std::string> fields;
    };
    [[noreturn]] void fail(size_t line, const std::string& what) const;
    [[noreturn]] void no_number(size_t row, size_t column, const char* what) const;

    std::string origin_;
    std::vector<std::string> header_;
    std::vector<Row> rows_;
};

}  // namespace kpu::traces
