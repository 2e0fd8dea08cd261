#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace kpu {

/// A place in a source file; line and column are 1-based, 0 when unknown (a program that carries no places).
struct SourcePos {
    static constexpr uint32_t no_statement = UINT32_MAX;

    std::string file;
    uint32_t line = 0;
    uint32_t column = 0;
    uint32_t statement = no_statement;  ///< index in the program form, where it is the place of a statement
};

enum class Severity : uint8_t { error, warning, info };

/// A finding. `message` says what is wrong and ends with "Fix: ..." where a fix is known.
struct Diagnostic {
    Severity severity = Severity::error;
    std::string message;
    SourcePos pos;
    std::vector<std::string> notes;
};

/// Returns "file:line:col: severity: message", one line, then one line per note.
std::string to_string(const Diagnostic& diagnostic);

class Diagnostics {
  public:
    void error(SourcePos pos, std::string message);
    void warning(SourcePos pos, std::string message);
    void info(SourcePos pos, std::string message);
    void add(Diagnostic diagnostic);

    const std::vector<Diagnostic>& all() const { return list_; }
    bool has_errors() const { return errors_ > 0; }
    size_t error_count() const { return errors_; }
    size_t warning_count() const;
    std::string to_string() const;  ///< every diagnostic, a line each
    /// Turns every warning into an error: what `--strict` does.
    void promote_warnings();

  private:
    std::vector<Diagnostic> list_;
    size_t errors_ = 0;
};

/// The user's mistake: a bad file, option or argument. Exit code 1. The text names what, where and the fix.
class UserError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
    explicit UserError(Diagnostics diagnostics);
    const Diagnostics& diagnostics() const { return diagnostics_; }

  private:
    Diagnostics diagnostics_;
};

/// The simulated program failed: deadlock, hazard under --strict, limit reached. Exit code 2.
class SimulationError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// A bug of ours. Exit code 70.
class InternalError : public std::logic_error {
  public:
    using std::logic_error::logic_error;
};

}  // namespace kpu
