#pragma once

namespace CLI {
class App;
}

namespace kpu::cli {

/// Makes signals end a command before its time: Ctrl-C, SIGTERM, SIGHUP, and --timeout. They end it at once,
/// unless the verb keeps what it has until then; a second signal always at once. No temporary file stays.
void catch_signals();

/// Ends the process after an interruption, when all is written: what was built up for a long program is not
/// taken down.
[[noreturn]] void leave(int exit_code);

/// Adds --timeout, which every verb has.
void add_timeout(CLI::App& command);
double time_limit();  ///< seconds; 0: none
bool time_is_up();    ///< the limit came
constexpr const char* timeout_fix = "Fix: raise --timeout";

/// While it lives, the first signal and the end of the time set `interrupted` instead of ending the process.
/// Code after it is not limited in time.
class KeepsPartialResults {
  public:
    KeepsPartialResults();
    ~KeepsPartialResults();
    KeepsPartialResults(const KeepsPartialResults&) = delete;
    KeepsPartialResults& operator=(const KeepsPartialResults&) = delete;
};

/// Within the life of one of those: nothing runs meanwhile, so that a signal ends the process at once.
class EndsAtOnce {
  public:
    EndsAtOnce();
    ~EndsAtOnce();
    EndsAtOnce(const EndsAtOnce&) = delete;
    EndsAtOnce& operator=(const EndsAtOnce&) = delete;
};

}  // namespace kpu::cli
