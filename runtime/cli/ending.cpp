#include "runtime/cli/ending.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/text_output.hpp"
#include "runtime/cli/command.hpp"

namespace kpu::cli {

std::atomic<bool> interrupted{false};

namespace {

std::atomic<bool> keeps_results{false}, timed_out{false};
double seconds = 0;
char timeout_text[160] = "";  ///< made beforehand: a handler must not

[[noreturn]] void end_now(bool timeout) {
    remove_temporary_files();
    const char* const text = timeout ? timeout_text : "interrupted\n";
    [[maybe_unused]] const ssize_t told = ::write(STDERR_FILENO, text, std::strlen(text));
    ::_exit(timeout ? exit_failed : exit_interrupted);
}

void on_signal(int signal) {
    const bool timeout = signal == SIGALRM;
    if (!keeps_results) end_now(timeout);
    const bool again = interrupted.exchange(true);
    if (timeout && !again) timed_out = true;
    if (again && !timeout) end_now(false);
}

void handle(int signal) {
    struct sigaction action {};
    action.sa_handler = on_signal;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);  // no SA_RESTART: a read that waits ends
}

void set_timer(double time) {
    itimerval timer{};
    timer.it_value.tv_sec = static_cast<time_t>(time);
    timer.it_value.tv_usec = static_cast<suseconds_t>((time - std::floor(time)) * 1e6);
    ::setitimer(ITIMER_REAL, &timer, nullptr);
}

void start_timer(const std::string& text) {
    constexpr double least = 1e-3, most = 1e8;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool number = error == std::errc() && end == text.data() + text.size();
    if (!number || !(value >= least && value <= most)) {  // nan compares with nothing
        throw UserError(
            fmt::format("--timeout does not take `{}`. Fix: give seconds, {} to {}.", text, least, most));
    }
    seconds = value;
    const std::string told = fmt::format(
        "error: stopped after {:g} seconds, before there were results. {}.\n", value, timeout_fix);
    std::strncpy(timeout_text, told.c_str(), sizeof timeout_text - 1);
    handle(SIGALRM);
    set_timer(value);
}

}  // namespace

void leave(int exit_code) {
    std::fflush(nullptr);
    remove_temporary_files();
    ::_exit(exit_code);
}

void catch_signals() {
    for (const int signal : {SIGINT, SIGTERM}) handle(signal);
    struct sigaction hang_up {};
    ::sigaction(SIGHUP, nullptr, &hang_up);
    if (hang_up.sa_handler != SIG_IGN) handle(SIGHUP);                         // nohup
    for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);  // a write fails instead
}

void add_timeout(CLI::App& command) {
    command.add_option_function<std::string>(
        "--timeout", start_timer, "seconds: stop then, with partial results where there are any (exit 2)");
}

double time_limit() { return seconds; }
bool time_is_up() { return timed_out; }

KeepsPartialResults::KeepsPartialResults() { keeps_results = true; }

KeepsPartialResults::~KeepsPartialResults() {
    keeps_results = false;
    if (seconds > 0) set_timer(0);
}

EndsAtOnce::EndsAtOnce() { keeps_results = false; }
EndsAtOnce::~EndsAtOnce() { keeps_results = true; }

}  // namespace kpu::cli
