#include "base/option.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/diagnostics.hpp"

namespace kpu {
namespace {

int64_t integer_of(const OptionRow& row, std::string_view text) {
    int64_t value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc() || end != text.data() + text.size())
        throw UserError(fmt::format("--{}: `{}` is not an integer of 64 bits. Fix: give a decimal integer.",
                                    row.name, text));
    return value;
}

}  // namespace

std::string_view name_of(ValueKind kind) {
    constexpr std::string_view names[] = {"text", "file", "integer", "choice", "sizes", "pairs"};
    return names[static_cast<size_t>(kind)];
}

OptionValues::OptionValues(const std::vector<OptionRow>& rows, const GivenOptions& given) {
    for (const OptionRow& row : rows) {
        Value& value = values_[std::string(row.name)];
        if (row.kind == ValueKind::integer) {
            value = int64_t{0};
        } else if (row.kind == ValueKind::sizes) {
            value = Sizes{};
        } else if (row.kind == ValueKind::pairs) {
            value = Pairs{};
        }
        if (!row.default_text.empty()) set(row, std::string(row.default_text));
    }
    for (const auto& [name, text] : given) {
        const auto row =
            std::find_if(rows.begin(), rows.end(), [&n = name](const OptionRow& r) { return r.name == n; });
        if (row == rows.end())
            throw UserError(fmt::format("--{} is not an option here. Fix: leave it out.", name));
        set(*row, text);
        given_.insert(name);
    }
}

void OptionValues::set(const OptionRow& row, const std::string& text) {
    Value& value = values_.find(row.name)->second;
    if (row.kind == ValueKind::integer) {
        value = integer_of(row, text);
    } else if (row.kind == ValueKind::sizes || row.kind == ValueKind::pairs) {
        const bool size = row.kind == ValueKind::sizes;
        const size_t equals = text.find('=');
        if (equals == std::string::npos || equals == 0)
            throw UserError(fmt::format("--{0} takes NAME={1}, not `{2}`. Fix: write --{0} NAME={1}.",
                                        row.name, size ? "INTEGER" : "VALUE", text));
        std::string name = text.substr(0, equals), given = text.substr(equals + 1);
        if (size) {
            std::get<Sizes>(value).emplace_back(std::move(name), integer_of(row, given));
        } else {
            std::get<Pairs>(value).emplace_back(std::move(name), std::move(given));
        }
    } else {
        const bool known = row.kind != ValueKind::choice ||
                           std::find(row.choices.begin(), row.choices.end(), text) != row.choices.end();
        if (!known)
            throw UserError(fmt::format("--{} does not take `{}`. Fix: give one of {}.", row.name, text,
                                        fmt::join(row.choices, ", ")));
        value = text;
    }
}

template <typename T>
const T& OptionValues::get(std::string_view name) const {
    const auto it = values_.find(name);
    const T* value = it == values_.end() ? nullptr : std::get_if<T>(&it->second);
    if (value == nullptr) throw InternalError(fmt::format("no row says what option `{}` is", name));
    return *value;
}

const std::string& OptionValues::text(std::string_view name) const { return get<std::string>(name); }
int64_t OptionValues::integer(std::string_view name) const { return get<int64_t>(name); }
const OptionValues::Sizes& OptionValues::sizes(std::string_view name) const { return get<Sizes>(name); }
const OptionValues::Pairs& OptionValues::pairs(std::string_view name) const { return get<Pairs>(name); }

}  // namespace kpu
