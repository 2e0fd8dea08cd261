#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kpu {

enum class ValueKind : uint8_t {
    text,
    file,     ///< path of a file to read
    integer,  ///< decimal, 64 bits
    choice,   ///< one of OptionRow::choices
    sizes,    ///< NAME=INTEGER, any number of them
    pairs     ///< NAME=TEXT, any number of them
};
std::string_view name_of(ValueKind kind);

/// An option of a front end or of a trace: `--NAME` of the command, in Python a keyword argument with `_` for
/// `-`.
struct OptionRow {
    std::string_view name, meaning;
    ValueKind kind = ValueKind::text;
    std::string_view default_text = {};  ///< as one would write it; empty: none
    std::vector<std::string_view> choices = {};
};

/// (name, value) as they were written; of `sizes` and `pairs`, one for each NAME=.
using GivenOptions = std::vector<std::pair<std::string, std::string>>;

/// Values of the options of some rows: what was given, else the defaults.
class OptionValues {
  public:
    OptionValues() = default;
    /// Throws UserError for a value that the row does not take, and for a name without a row.
    OptionValues(const std::vector<OptionRow>& rows, const GivenOptions& given);
    bool given(std::string_view name) const { return given_.count(name) != 0; }
    /// Returns the value of an option of kind text, file or choice; empty when neither given nor defaulted.
    const std::string& text(std::string_view name) const;
    int64_t integer(std::string_view name) const;  ///< 0 when neither given nor defaulted
    using Sizes = std::vector<std::pair<std::string, int64_t>>;
    const Sizes& sizes(std::string_view name) const;
    using Pairs = std::vector<std::pair<std::string, std::string>>;
    const Pairs& pairs(std::string_view name) const;

  private:
    using Value = std::variant<std::string, int64_t, Sizes, Pairs>;
    template <typename T>
    const T& get(std::string_view name) const;
    void set(const OptionRow& row, const std::string& text);
    std::map<std::string, Value, std::less<>> values_;
    std::set<std::string, std::less<>> given_;
};

}  // namespace kpu
