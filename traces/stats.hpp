#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace kpu::traces {

struct Stat {
    std::variant<uint64_t, double> value;
    std::string unit;  ///< cycle, byte, pJ, W, ratio, count, us
    std::string meaning;
};

/// Shortest decimal text that reads back as the same double; always with a point or an exponent. Finite
/// values only.
std::string real_text(double value);

/// The statistics of a run: dotted keys, sorted; every value has a unit and a meaning.
class StatSet {
  public:
    /// Sets or replaces. Throws InternalError for a value that is not finite.
    void set(std::string_view key, uint64_t value, std::string_view unit, std::string_view meaning);
    void set(std::string_view key, double value, std::string_view unit, std::string_view meaning);
    bool contains(std::string_view key) const;
    uint64_t integer(std::string_view key) const;  ///< throws InternalError when absent
    /// Returns the value of an integer too; throws InternalError when absent.
    double real(std::string_view key) const;
    const std::map<std::string, Stat, std::less<>>& all() const { return stats_; }
    /// {"schema":1,"complete":...,"stats":{key:{"value","unit","meaning"}}}, sorted, doubles in shortest
    /// round-trip form.
    std::string to_json(bool complete) const;
    /// Reads that back; the second member is `complete`. Throws UserError naming `origin` and what is wrong.
    static std::pair<StatSet, bool> from_json(std::string_view text, const std::string& origin);

  private:
    std::map<std::string, Stat, std::less<>> stats_;
};

}  // namespace kpu::traces
