#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <sstream>

#include "base/terminal_text.hpp"
#include "base/text.hpp"
#include "base/text_output.hpp"
#include "runtime/cli/command.hpp"
#include "runtime/cli/ending.hpp"

namespace kpu::cli {
extern const char* const revision;  ///< cmake/revision.cmake
namespace {

bool standard_error_failed = false;

std::vector<std::string> options_of(const CLI::App& command) {
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options())
        if (!option->get_positional()) names.push_back(option->get_name());
    return names;
}

std::vector<std::string> commands_of(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
    return names;
}

/// Returns the option that a message of the parser names; null: none.
const CLI::Option* option_in(const CLI::App& command, std::string_view message) {
    const CLI::Option* found = nullptr;
    for (const CLI::Option* option : command.get_options()) {
        const std::string name = option->get_name();
        const bool longer = found == nullptr || name.size() > found->get_name().size();
        if (longer && message.find(name) != std::string_view::npos) found = option;
    }
    return found;
}

/// Says what is wrong with the words of a command that are known. The parser's own texts are for programmers.
std::string misuse(const CLI::App& command, const CLI::ParseError& error) {
    for (const CLI::Option* option : command.get_options()) {
        if (option->get_required() && option->count() == 0) {
            const std::string name = option->get_name();
            return fmt::format("{}{} is missing: {}", option->get_positional() ? "the argument " : "", name,
                               option->get_description());
        }
    }
    const CLI::Option* option = option_in(command, error.what());
    if (option == nullptr) return "no command is given";
    const std::string name = option->get_name();
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExcludesError)) {
        for (const CLI::Option* other : option->get_excludes())
            if (other->count() > 0)
                return fmt::format("{} and {} exclude each other", name, other->get_name());
    }
    const std::vector<std::string> given = option->results();
    if (option->get_items_expected_max() == 0 && !given.empty())
        return fmt::format("{} takes no value, not `{}`", name, fmt::join(given, " "));
    if (given.empty() || error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch))
        return fmt::format("{} takes one value: {}", name, option->get_description());
    return fmt::format("{} does not take `{}`: {}", name, fmt::join(given, " "), option->get_description());
}

/// Says what is wrong with a command line. A word that nobody knows is the mistake, rather than what is
/// missing for want of it.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    const CLI::App& command = chosen.empty() ? app : *chosen.front();
    const std::string name = chosen.empty() ? "kpusim" : "kpusim " + command.get_name();
    const std::vector<std::string> unknown = app.remaining(true);
    if (unknown.empty() || unknown.front().empty())
        return fmt::format("{}. Fix: see `{} --help`.", misuse(command, error), name);
    const bool option = unknown.front()[0] == '-';
    const std::string word = option ? unknown.front().substr(0, unknown.front().find('=')) : unknown.front();
    if (chosen.empty() && !option && std::filesystem::exists(word))
        return fmt::format(
            "`{0}` is a file, no command. Fix: `kpusim run {0}`; `kpusim --help` lists what else can be done "
            "with it.",
            word);
    const std::vector<std::string> names = option ? options_of(command) : commands_of(command);
    if (names.empty()) return fmt::format("`{}` is one argument too many. Fix: see `{} --help`.", word, name);
    return fmt::format("`{}` is not a known {} of `{}`. Fix: did you mean `{}`? `{} --help` lists them.",
                       word, option ? "option" : "command", name,
                       nearest_name(word, {names.begin(), names.end()}), name);
}

int run_app(int argc, char** argv) {
    run_external(argv);
    CLI::App app{
        "kpusim: a cycle-approximate model of a KPU. One run of a program gives its values, its cycles, "
        "every stall "
        "with its cause, and power over time.",
        "kpusim"};
    app.set_version_flag("--version", *revision == '\0'
                                          ? "kpusim " KPUSIM_VERSION
                                          : fmt::format("kpusim " KPUSIM_VERSION " ({})", revision));
    app.require_subcommand(1);
    app.footer(
        "Exit codes: 0 ok, 1 usage or bad input, 2 the simulation failed (deadlock, hazard, limit), "
        "3 mismatch, tolerance or budget exceeded, 4 to 6 of check --ci (its --help says more): 4 hazards, "
        "5 no known device, 6 a check left out, 70 a bug of kpusim, 130 interrupted.");
    int exit_code = exit_ok;
    const std::vector<std::string> command_line(argv, argv + argc);
    add_run(app, exit_code, command_line);
    add_compile(app);
    add_program_tools(app, exit_code);
    add_list(app, exit_code);
    add_export(app, exit_code);
    add_diff(app, exit_code);
    add_explain(app, exit_code);
    add_dram(app, exit_code);
    add_validate(app, exit_code);
    add_debug(app, exit_code);
    add_external(app);
    for (CLI::App* command : app.get_subcommands({})) add_timeout(*command);
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& success) {  // --help and --version
        std::ostringstream text;
        const int code = app.exit(success, text, text);
        print_out(text.str());
        return code;
    } catch (const CLI::ParseError& error) {
        print_err(fmt::format("error: {}\n", usage_error(app, error)));
        return exit_bad_input;
    }
    return exit_code;
}

int report_user_error(const UserError& error) {
    const auto& diagnostics = error.diagnostics();
    if (diagnostics.all().empty()) {
        print_err(fmt::format("error: {}\n", error.what()));
    } else {
        print_findings(diagnostics);
    }
    return exit_bad_input;
}

}  // namespace

int main_guarded(int argc, char** argv) {
    try {
        const int code = run_app(argc, argv);
        // what was to be said there is missing
        return code == exit_ok && standard_error_failed ? exit_bad_input : code;
    } catch (const UserError& error) {
        return report_user_error(error);
    } catch (const SimulationError& error) {
        print_err(fmt::format("error: {}\n", error.what()));
        return exit_failed;
    } catch (const std::filesystem::filesystem_error& error) {
        print_err(fmt::format("error: {}: {}. Fix: name another path.\n", error.path1().string(),
                              error.code().message()));
        return exit_bad_input;
    } catch (const std::bad_alloc&) {
        print_err("error: out of memory. Fix: use smaller buffers, or a machine with more memory.\n");
        return exit_bad_input;
    } catch (const std::exception& error) {
        print_err(
            fmt::format("internal error: {}\nThis is a bug of kpusim, not of your input. Please report it "
                        "with the command line "
                        "and the files.\n",
                        error.what()));
        return exit_bug;
    }
}

void DeviceOptions::add_to(CLI::App& command) {
    command.add_option("--platform", platform,
                       "shipped platform, .textproto file, or NEM device file; beats the program's own");
    command.add_option("--set", sets, "PATH=VALUE: change a platform parameter, e.g. engine.array.rows=32")
        ->allow_extra_args(false);
    command.add_option("-I", search_paths, "folder to search for included and device files")
        ->allow_extra_args(false);
}

std::string program_help() {
    std::string text;
    for (const auto* front_end : compiler::front_ends())
        text += fmt::format("{}{}", text.empty() ? "" : ", ", front_end->name);
    return text + "; - reads standard input";
}

void add_row_options(CLI::App& command, const std::vector<OptionRow>& rows, GivenOptions& given) {
    for (const OptionRow& row : rows) {
        const std::string name(row.name);
        std::string meaning(row.meaning);
        if (!row.default_text.empty()) meaning += fmt::format(" (default: {})", row.default_text);
        if (row.kind == ValueKind::sizes || row.kind == ValueKind::pairs) {
            const auto add = [name, &given](const std::vector<std::string>& values) {
                for (const std::string& value : values) given.emplace_back(name, value);
            };
            command.add_option_function<std::vector<std::string>>("--" + name, add, meaning)
                ->allow_extra_args(false);
            continue;
        }
        const auto add = [name, &given](const std::string& value) { given.emplace_back(name, value); };
        auto* option = command.add_option_function<std::string>("--" + name, add, meaning);
        if (row.kind == ValueKind::choice)
            option->check(CLI::IsMember(std::vector<std::string>(row.choices.begin(), row.choices.end())));
    }
}

platforms::Overrides DeviceOptions::overrides() const {
    platforms::Overrides result;
    for (const auto& text : sets) result.push_back(split_assignment(text, "--set"));
    return result;
}

void ParamOptions::add_to(CLI::App& command) {
    command.add_option("--param", params, "NAME=INTEGER: value of a program parameter")
        ->allow_extra_args(false);
}

ParamBindings ParamOptions::bindings() const {
    ParamBindings result;
    for (const auto& text : params) {
        const auto [name, value] = split_assignment(text, "--param");
        result.emplace_back(name, parse_integer(value, "--param"));
    }
    return result;
}

std::pair<std::string, std::string> split_assignment(const std::string& text, const std::string& option) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
        throw UserError(
            fmt::format("{} takes NAME=VALUE, not `{}`. Fix: write {} NAME=VALUE.", option, text, option));
    }
    return {text.substr(0, equals), text.substr(equals + 1)};
}

int64_t parse_integer(const std::string& text, const std::string& option) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
        throw UserError(
            fmt::format("{}: `{}` is not an integer of 64 bits. Fix: give a decimal integer.", option, text));
    }
    return value;
}

double parse_percent(const std::string& text, const std::string& option) {
    const char* end = text.data() + text.size() - (!text.empty() && text.back() == '%' ? 1 : 0);
    double value = -1;
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end || !std::isfinite(value) || value < 0)
        throw UserError(fmt::format("{}: `{}` is not a percentage. Fix: give one like 2%.", option, text));
    return value / 100;
}

std::string not_positive(const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool number = error == std::errc() && end == text.data() + text.size();
    return number && std::isfinite(value) && value > 0 ? "" : "not positive";
}

void print_out(const std::string& text) { print_data(terminal_text(text)); }

void print_data(const std::string& bytes) {
    if (write_all(STDOUT_FILENO, bytes)) return;
    throw UserError(fmt::format("standard output: cannot write: {}. Fix: redirect it to where there is room.",
                                std::strerror(errno)));
}

void print_err(const std::string& text) { print_progress(terminal_text(text)); }

void print_progress(const std::string& text) {
    if (!write_all(STDERR_FILENO, text)) standard_error_failed = true;
}

}  // namespace kpu::cli

namespace {

/// Closed standard files are taken, or the next file that is opened would get what is written to them. What
/// is said to a closed standard error is nowhere missing; writing to a closed standard output fails.
void take_standard_files() {
    for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(file, F_GETFD) >= 0) continue;
        const int taken = ::open("/dev/null", file == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
        if (taken != file) std::abort();  // the lowest free one is given
    }
}

/// Deeply nested input needs some of it, and beyond its end there is no error, only a crash.
bool has_stack() {
    constexpr rlim_t least = rlim_t{1} << 20;
    rlimit limit{};
    if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= least)
        return true;  // unlimited is the largest
    kpu::cli::print_err(fmt::format(
        "error: the stack is limited to {} KiB, and {} are needed. Fix: `ulimit -s {}` or more.\n",
        limit.rlim_cur >> 10, least >> 10, least >> 10));
    return false;
}

}  // namespace

int main(int argc, char** argv) {
    take_standard_files();
    if (!has_stack()) return kpu::cli::exit_bad_input;
    kpu::cli::catch_signals();
    return kpu::cli::main_guarded(argc, argv);
}
