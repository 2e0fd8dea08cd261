#include "platforms/formula.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "base/diagnostics.hpp"

namespace kpu::platforms {
namespace {

constexpr size_t longest = 1000, most_nested = 64;
constexpr std::string_view kinds =
    "numbers, names of fields, + - * / // %, brackets, min, max, floor, ceil, round, sqrt, log2";

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool continues_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '[' || c == ']';
}

struct FormulaFunction {
    std::string_view name;
    size_t operands;  ///< 0: one or more
    double (*value)(const std::vector<double>&);
};
constexpr FormulaFunction functions[] = {
    {"min", 0, [](const std::vector<double>& x) { return *std::min_element(x.begin(), x.end()); }},
    {"max", 0, [](const std::vector<double>& x) { return *std::max_element(x.begin(), x.end()); }},
    {"floor", 1, [](const std::vector<double>& x) { return std::floor(x[0]); }},
    {"ceil", 1, [](const std::vector<double>& x) { return std::ceil(x[0]); }},
    {"round", 1, [](const std::vector<double>& x) { return std::nearbyint(x[0]); }},
    {"sqrt", 1, [](const std::vector<double>& x) { return std::sqrt(x[0]); }},
    {"log2", 1, [](const std::vector<double>& x) { return std::log2(x[0]); }},
};

/// Recursive descent that computes as it reads.
class FormulaReader {
  public:
    FormulaReader(std::string_view text, const std::function<double(std::string_view)>& number_of)
        : text_(text), number_of_(number_of) {}

    double read() {
        if (text_.size() > longest)
            throw UserError(
                fmt::format("a formula of {} characters. Fix: at most {}.", text_.size(), longest));
        const double value = sum();
        if (skip() < text_.size()) unexpected();
        return value;
    }

  private:
    size_t skip() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
        return at_;
    }
    bool accept(std::string_view mark) {
        if (text_.substr(skip(), mark.size()) != mark) return false;
        at_ += mark.size();
        return true;
    }
    [[noreturn]] void fail(size_t at, std::string_view why, std::string_view fix) const {
        throw UserError(fmt::format("`{}`, character {}: {}. Fix: {}.", text_, at + 1, why, fix));
    }
    [[noreturn]] void unexpected() {
        const size_t at = skip();
        fail(at, at < text_.size() ? fmt::format("`{}` is not expected", text_[at]) : "the formula ends here",
             fmt::format("a formula has {}", kinds));
    }
    double finite(double value, size_t at) const {
        if (!std::isfinite(value))
            fail(at, "the result is not a finite number", "change the formula, or the fields that it names");
        return value;
    }

    double sum() {
        double value = product();
        for (;;) {
            const size_t at = skip();
            if (accept("+"))
                value = finite(value + product(), at);
            else if (accept("-"))
                value = finite(value - product(), at);
            else
                return value;
        }
    }

    double product() {
        double value = operand();
        for (;;) {
            const size_t at = skip();
            if (accept("//"))
                value = std::floor(finite(value / divisor(at), at));
            else if (accept("/"))
                value = finite(value / divisor(at), at);
            else if (accept("%")) {
                const double by = divisor(at);
                value = finite(value - by * std::floor(value / by), at);
            } else if (accept("*"))
                value = finite(value * operand(), at);
            else
                return value;
        }
    }

    double divisor(size_t at) {
        const double by = operand();
        if (by == 0) fail(at, "division by zero", "divide by what is never 0, such as max(1, ...)");
        return by;
    }

    double operand() {
        bool negative = false;
        while (accept("-")) negative = !negative;
        const double value = primary();
        return negative ? -value : value;
    }

    double primary() {
        const size_t at = skip();
        if (at == text_.size()) unexpected();
        if (accept("(")) return bracketed(at);
        if (std::isdigit(static_cast<unsigned char>(text_[at])) != 0) return number();
        if (!starts_name(text_[at])) unexpected();
        while (at_ < text_.size() && continues_name(text_[at_])) ++at_;
        const std::string_view name = text_.substr(at, at_ - at);
        if (accept("(")) return call(name, at);
        return number_of_(name);
    }

    double bracketed(size_t at) {
        if (++nested_ > most_nested)
            fail(at, fmt::format("more than {} brackets in each other", most_nested), "nest less deeply");
        const double value = sum();
        if (!accept(")")) unexpected();
        --nested_;
        return value;
    }

    double number() {
        double value = 0;
        const size_t at = at_;
        const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
        if (error != std::errc()) fail(at, "this is not a number", "write such as 64 or 64KiB");
        at_ = static_cast<size_t>(end - text_.data());
        const size_t unit = at_;
        while (at_ < text_.size() && continues_name(text_[at_])) ++at_;
        const std::string_view name = text_.substr(unit, at_ - unit);
        if (name.empty()) return value;
        for (const auto& [known, bytes] : {std::pair("KiB", 10), {"MiB", 20}, {"GiB", 30}, {"TiB", 40}})
            if (name == known) return std::ldexp(value, bytes);
        fail(unit, fmt::format("`{}` is not a unit", name), "use KiB, MiB, GiB, TiB, or none");
    }

    double call(std::string_view name, size_t at) {
        for (const FormulaFunction& function : functions) {
            if (function.name != name) continue;
            if (++nested_ > most_nested)
                fail(at, fmt::format("more than {} brackets in each other", most_nested), "nest less deeply");
            std::vector<double> operands;
            do operands.push_back(sum());
            while (accept(","));
            if (!accept(")")) unexpected();
            --nested_;
            if (function.operands != 0 && operands.size() != function.operands)
                fail(at, fmt::format("{} takes one number, not {}", name, operands.size()), "give one");
            return finite(function.value(operands), at);
        }
        fail(at, fmt::format("there is no function `{}`", name), fmt::format("a formula has {}", kinds));
    }

    std::string_view text_;
    const std::function<double(std::string_view)>& number_of_;
    size_t at_ = 0, nested_ = 0;
};

}  // namespace

bool is_formula(std::string_view text) {
    double plain = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), plain);
    if (error == std::errc() && end == text.data() + text.size()) return false;
    if (text.find_first_of("+*/%()") != std::string_view::npos) return true;
    for (size_t i = 1; i + 1 < text.size(); ++i) {
        if (text[i] == '.' && continues_name(text[i - 1]) && starts_name(text[i + 1])) return true;
    }
    return false;
}

std::vector<std::string> names_of(std::string_view text) {
    std::vector<std::string> names;
    for (size_t at = 0; at < text.size();) {
        size_t end = at + 1;
        if (continues_name(text[at])) {
            while (end < text.size() && continues_name(text[end])) ++end;
            // 64KiB is a number, min( a function
            const size_t next = std::min(text.find_first_not_of(" \t\n", end), text.size());
            if (starts_name(text[at]) && (next == text.size() || text[next] != '('))
                names.emplace_back(text.substr(at, end - at));
        }
        at = end;
    }
    return names;
}

double formula_value(std::string_view text, const std::function<double(std::string_view name)>& number_of) {
    return FormulaReader(text, number_of).read();
}

}  // namespace kpu::platforms
