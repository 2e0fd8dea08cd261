#include "runtime/validation/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/read_file.hpp"
#include "base/text.hpp"

namespace kpu::validation {

Table::Table(std::string path) : path_(std::move(path)), bytes_(read_file(path_)), rest_(bytes_) {}

bool Table::next() {
    while (!rest_.empty()) {
        ++line_;
        text_ = take_line(rest_);
        if (!text_.empty() && text_.front() != '#') return true;
    }
    return false;
}

std::vector<std::string> Table::cells() const {
    std::vector<std::string> cells(1);
    bool quoted = false;
    for (const char c : text_) {
        if (c == '"')
            quoted = !quoted;
        else if (c == ',' && !quoted)
            cells.emplace_back();
        else
            cells.back() += c;
    }
    return cells;
}

void Table::fail(const std::string& what, const std::string& fix) {
    SourcePos place;
    place.file = path_, place.line = static_cast<uint32_t>(line_), place.column = 1;
    found_.error(place, what + ". Fix: " + fix + ".");
}

void Table::finish() {
    if (found_.has_errors()) throw UserError(std::move(found_));
}

void Table::take_header(const std::vector<Column>& columns) {
    std::vector<std::string_view> names;
    for (const Column& column : columns) names.push_back(column.name);
    places_.clear();
    for (const std::string& name : cells()) {
        const size_t place = places_.size();
        if (std::find(names.begin(), names.end(), name) == names.end())
            fail(fmt::format("unknown column `{}`; units are those of docs/accuracy_machines.md, no others",
                             name),
                 fmt::format("leave it out, or did you mean `{}`", nearest_name(name, names)));
        if (!places_.emplace(name, place).second)
            fail(fmt::format("column `{}` stands there twice", name), "remove one");
    }
    for (const Column& column : columns)
        if (column.required && places_.count(column.name) == 0)
            fail(fmt::format("there is no column `{}`", column.name), "add it");
}

bool Table::take_row() {
    cells_ = cells();
    if (cells_.size() == places_.size()) return true;
    fail(fmt::format("{} fields in a table of {} columns", cells_.size(), places_.size()),
         "give each column one field");
    return false;
}

std::string Table::cell(std::string_view column) const {
    const auto place = places_.find(column);
    return place == places_.end() ? std::string() : cells_.at(place->second);
}

int64_t Table::number(std::string_view column, int64_t least, int64_t most) {
    const std::string text = cell(column);
    if (text.empty()) return 0;
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
        return value;
    fail(fmt::format("column `{}` has `{}`", column, text),
         fmt::format("give a whole number from {} to {}, without a unit", least, most));
    return 0;
}

int64_t Table::needed(std::string_view column, int64_t least, int64_t most) {
    if (cell(column).empty())
        fail(fmt::format("column `{}` is empty", column), "give it, or leave the row out");
    return number(column, least, most);
}

std::optional<double> Table::real(std::string_view column, std::string_view unit) {
    const std::string text = cell(column);
    if (text.empty()) return std::nullopt;
    double value = 0;
    constexpr double longest = 1e15, shortest = 1e-6;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= shortest && value <= longest)
        return value;
    fail(fmt::format("column `{}` has `{}`", column, text),
         fmt::format("give a number of {} from 1e-6 to 1e15, without a unit", unit));
    return std::nullopt;
}

double Table::measured(std::string_view column, std::string_view unit) {
    if (cell(column).empty())
        fail(fmt::format("column `{}` is empty", column), "give it, or leave the row out");
    return real(column, unit).value_or(1);
}

}  // namespace kpu::validation
