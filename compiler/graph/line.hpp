#pragma once
// A line of a text, read from left to right. What is not there is an error with line and column.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kpu::graph {

class Line {
  public:
    Line(std::string_view text, const std::string& origin, uint32_t number)
        : text_(text), origin_(origin), number_(number) {
        skip();
    }

    bool at_end() const { return at_ == text_.size(); }
    /// Throws UserError at the place where reading goes on, or at a place of the line.
    [[noreturn]] void fail(const std::string& what, const std::string& fix) const { fail_at(at_, what, fix); }
    [[noreturn]] void fail_at(size_t place, const std::string& what, const std::string& fix) const;
    size_t place() const { return at_; }

    /// Takes these letters, and the blanks after them, if they are next. A word is taken as a whole.
    bool take(std::string_view wanted);
    bool take_start(std::string_view wanted);  ///< the first letters of a word
    void expect(std::string_view wanted);
    /// Returns a name, quoted or not.
    std::string name();
    std::string value_name();  ///< name after a %
    int64_t integer(int64_t least, int64_t most);
    double real();
    std::vector<int64_t> integers();  ///< in brackets
    std::vector<double> reals();
    void finish();  ///< nothing may follow

  private:
    void skip();
    std::string quoted();
    template <class Read>
    auto list(Read read);

    std::string_view text_;
    const std::string& origin_;
    uint32_t number_;
    size_t at_ = 0;
};

}  // namespace kpu::graph
