#include "traces/csv_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/diagnostics.hpp"

namespace kpu::traces {

namespace {

/// Takes one record off `text`; false when a quote does not close.
bool take_record(std::string_view& text, std::vector<std::string>& fields, size_t& lines) {
    fields.assign(1, {});
    bool quoted = false;
    size_t at = 0;
    for (; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '\n') ++lines;
        if (quoted) {
            if (c != '"') {
                fields.back() += c;
            } else if (at + 1 < text.size() && text[at + 1] == '"') {
                fields.back() += text[++at];
            } else {
                quoted = false;
            }
        } else if (c == '"' && fields.back().empty()) {
            quoted = true;
        } else if (c == ',') {
            fields.emplace_back();
        } else if (c == '\n') {
            ++at;
            break;
        } else if (c != '\r') {
            fields.back() += c;
        }
    }
    text.remove_prefix(at);
    return !quoted;
}

/// Texts that a spreadsheet would run as formulas are written with a sign before them (csv_field).
void strip_formula_sign(std::string& field) {
    if (field.size() > 1 && field[0] == '\'' &&
        std::string_view("=+-@\t'").find(field[1]) != std::string_view::npos)
        field.erase(0, 1);
}

bool blank(const std::vector<std::string>& fields) { return fields.size() == 1 && fields[0].empty(); }

}  // namespace

CsvTable::CsvTable(std::string_view text, std::string origin) : origin_(std::move(origin)) {
    size_t line = 1;
    while (!text.empty()) {
        Row row;
        row.line = line;
        if (!take_record(text, row.fields, line)) fail(row.line, "a quote does not close");
        if (blank(row.fields)) continue;
        for (std::string& field : row.fields) strip_formula_sign(field);
        if (header_.empty()) {
            if (row.fields[0][0] != '#') header_ = std::move(row.fields);
            continue;
        }
        if (row.fields.size() != header_.size()) {
            fail(row.line,
                 fmt::format("{} fields, but the header has {}", row.fields.size(), header_.size()));
        }
        rows_.push_back(std::move(row));
    }
    if (header_.empty()) fail(1, "no header row");
}

void CsvTable::fail(size_t line, const std::string& what) const {
    throw UserError(fmt::format("{}:{}: {}. Fix: correct the row.", origin_, line, what));
}

size_t CsvTable::find(std::string_view column) const {
    const auto it = std::find(header_.begin(), header_.end(), column);
    return it == header_.end() ? absent : static_cast<size_t>(it - header_.begin());
}

size_t CsvTable::column(std::string_view name) const {
    const size_t index = find(name);
    if (index == absent)
        throw UserError(fmt::format("{}: no column `{}`. Fix: add it to the header row.", origin_, name));
    return index;
}

void CsvTable::no_number(size_t row, size_t column, const char* what) const {
    fail(rows_[row].line,
         fmt::format("`{}` in column `{}` is not {}", at(row, column), header_[column], what));
}

uint64_t CsvTable::integer(size_t row, size_t column) const {
    const std::string& text = at(row, column);
    uint64_t value = 0;
    if (text.empty()) return value;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) no_number(row, column, "a whole number");
    return value;
}

double CsvTable::real(size_t row, size_t column) const {
    const std::string& text = at(row, column);
    double value = 0;
    if (text.empty()) return value;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
        no_number(row, column, "a number");
    return value;
}

}  // namespace kpu::traces
