#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>

#include "base/text.hpp"
#include "runtime/cli/command.hpp"

namespace kpu::cli {

std::atomic<bool> interrupted{false};

namespace {

void on_interrupt(int) {
    interrupted = true;
    std::signal(SIGINT, SIG_DFL);  // a second Ctrl-C ends the process at once
}

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

/// What is wrong with a command line. A word that nobody knows is the mistake, rather than what is missing
/// for want of it.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    const CLI::App& command = chosen.empty() ? app : *chosen.front();
    const std::string name = chosen.empty() ? "kpusim" : "kpusim " + command.get_name();
    const std::vector<std::string> unknown = app.remaining(true);
    if (unknown.empty() || unknown.front().empty())
        return fmt::format("{}. Fix: see `{} --help`.", error.what(), name);
    const bool option = unknown.front()[0] == '-';
    const std::string word = option ? unknown.front().substr(0, unknown.front().find('=')) : unknown.front();
    const std::vector<std::string> names = option ? options_of(command) : commands_of(command);
    if (names.empty()) return fmt::format("`{}` is one argument too many. Fix: see `{} --help`.", word, name);
    return fmt::format("`{}` is no {} of `{}`. Fix: did you mean `{}`? `{} --help` lists them.", word,
                       option ? "option" : "command", name, nearest_name(word, {names.begin(), names.end()}),
                       name);
}

int run_app(int argc, char** argv) {
    CLI::App app{
        "kpusim: a cycle-approximate model of a KPU. One run of a program gives its values, its cycles, "
        "every stall "
        "with its cause, and power over time.",
        "kpusim"};
    app.set_version_flag("--version", std::string("kpusim ") + KPUSIM_VERSION);
    app.require_subcommand(1);
    app.footer(
        "Exit codes: 0 ok, 1 usage or bad input, 2 the simulation failed (deadlock, hazard under --strict, "
        "limit), "
        "3 mismatch or tolerance exceeded, 70 a bug of kpusim, 130 interrupted.");
    int exit_code = exit_ok;
    const std::vector<std::string> command_line(argv, argv + argc);
    add_run(app, exit_code, command_line);
    add_program_tools(app, exit_code);
    add_list(app, exit_code);
    add_export(app, exit_code);
    add_diff(app, exit_code);
    add_explain(app, exit_code);
    add_dram(app, exit_code);
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& success) {
        return app.exit(success);
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
        return run_app(argc, argv);
    } catch (const UserError& error) {
        return report_user_error(error);
    } catch (const SimulationError& error) {
        print_err(fmt::format("error: {}\n", error.what()));
        return exit_failed;
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
        if (row.kind == ValueKind::sizes) {
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

void print_out(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }
void print_err(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace kpu::cli

int main(int argc, char** argv) {
    std::signal(SIGINT, kpu::cli::on_interrupt);
    std::signal(SIGPIPE, SIG_IGN);
    return kpu::cli::main_guarded(argc, argv);
}
