#include "compiler/graph/line.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/diagnostics.hpp"
#include "compiler/graph/words.hpp"

namespace kpu::graph {
namespace {

constexpr size_t longest_list = 1 << 24;

int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

void Line::fail_at(size_t place, const std::string& what, const std::string& fix) const {
    Diagnostics found;
    found.error({origin_, number_, static_cast<uint32_t>(place + 1)}, fmt::format("{}. Fix: {}.", what, fix));
    throw UserError(std::move(found));
}

void Line::skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
}

bool Line::take(std::string_view wanted) {
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    const size_t end = at_ + wanted.size();
    if (is_plain(wanted.back()) && wanted.back() != '.' && end < text_.size() && is_plain(text_[end]))
        return false;
    at_ = end;
    skip();
    return true;
}

bool Line::take_start(std::string_view wanted) {
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    at_ += wanted.size();
    return true;
}

void Line::expect(std::string_view wanted) {
    if (!take(wanted)) fail(fmt::format("`{}` is missing", wanted), fmt::format("write `{}` here", wanted));
}

std::string Line::name() {
    if (!at_end() && text_[at_] == '"') return quoted();
    const size_t begin = at_;
    while (at_ < text_.size() && is_plain(text_[at_])) ++at_;
    if (at_ == begin) fail("a name is missing", "write one, in quotes where it has blanks");
    std::string result(text_.substr(begin, at_ - begin));
    skip();
    return result;
}

std::string Line::quoted() {
    const size_t begin = at_++;
    std::string result;
    while (at_ < text_.size() && text_[at_] != '"') {
        if (text_[at_] != '\\') {
            result += text_[at_++];
            continue;
        }
        const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
        const int high = at_ + 2 < text_.size() ? digit(text_[at_ + 2]) : -1;
        const int low = at_ + 3 < text_.size() ? digit(text_[at_ + 3]) : -1;
        if (next == '"' || next == '\\') {
            result += next;
            at_ += 2;
        } else if (next == 'x' && high >= 0 && low >= 0) {
            result += static_cast<char>(high * 16 + low);
            at_ += 4;
        } else {
            fail("this escape is not known", "write \\\\, \\\" or \\x1f");
        }
    }
    if (at_ == text_.size()) fail_at(begin, "the quotes are not closed", "end the name with \"");
    ++at_;
    skip();
    return result;
}

std::string Line::value_name() {
    if (at_end() || text_[at_] != '%') fail("a value is missing", "write % and its name");
    ++at_;
    return name();
}

int64_t Line::integer(int64_t least, int64_t most) {
    int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, failed] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (failed != std::errc() || value < least || value > most)
        fail("a whole number is missing", fmt::format("write one from {} to {}", least, most));
    at_ += static_cast<size_t>(end - begin);
    skip();
    return value;
}

double Line::real() {
    double value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, failed] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (failed != std::errc()) fail("a number is missing", "write one such as 0.5");
    at_ += static_cast<size_t>(end - begin);
    skip();
    return value;
}

template <class Read>
auto Line::list(Read read) {
    std::vector<decltype(read())> result;
    expect("[");
    while (!take("]")) {
        if (!result.empty()) expect(",");
        if (result.size() == longest_list) fail("the list is too long", "write fewer numbers");
        result.push_back(read());
    }
    return result;
}

std::vector<int64_t> Line::integers() {
    return list([this] { return integer(INT64_MIN, INT64_MAX); });
}

std::vector<double> Line::reals() {
    return list([this] { return real(); });
}

void Line::finish() {
    if (!at_end()) fail("the line goes on", "end it here");
}

}  // namespace kpu::graph
