// Verbs that other packages bring, as programs of their own: `kpusim sweep` is `kpusim-sweep`, beside this command or in PATH.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/diagnostics.hpp"
#include "runtime/cli/command.hpp"

namespace kpu::cli {
namespace {

struct ExternalVerb {
    const char *name, *meaning, *package;
};
constexpr std::array verbs{
    ExternalVerb{"sweep", "run programs on many machines; tables, fronts, pages (Python package)",
                 "kpusim[sweep]"},
    ExternalVerb{"llm", "how fast a language model is, of its configuration alone (Python package)",
                 "kpusim[llm]"},
    ExternalVerb{"calibrate", "fit parameters of a platform to measured times (Python package)",
                 "kpusim[calibrate]"},
    ExternalVerb{"reduce", "cut a failing network down to the least that still fails (Python package)",
                 "kpusim[onnx]"}};

/// Lists folders where a program may lie beside this command: as it was called (a wheel's script calls a
/// binary elsewhere), and as it is.
std::vector<std::filesystem::path> folders_of_command(const std::filesystem::path& called) {
    std::vector<std::filesystem::path> folders;
    if (called.has_parent_path()) folders.push_back(called.parent_path());
    std::error_code none;
    const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", none);
    if (!none) folders.push_back(own.parent_path());
    return folders;
}

}  // namespace

void run_external(char** argv) {
    if (argv[0] == nullptr || argv[1] == nullptr) return;
    for (const ExternalVerb& verb : verbs) {
        if (std::strcmp(argv[1], verb.name) != 0) continue;
        std::string program = fmt::format("kpusim-{}", verb.name);
        argv[1] = program.data();
        for (const std::filesystem::path& folder : folders_of_command(argv[0]))
            execv((folder / program).c_str(), argv + 1);
        execvp(program.c_str(), argv + 1);
        const int why = errno;
        if (why != ENOENT)
            throw UserError(fmt::format("{}: {}. Fix: `pip install '{}'` again.", program, std::strerror(why),
                                        verb.package));
        throw UserError(fmt::format(
            "`kpusim {}` is in the Python package, which is not installed. Fix: `pip install '{}'`.",
            verb.name, verb.package));
    }
}

void add_external(CLI::App& app) {
    for (const ExternalVerb& verb : verbs) app.add_subcommand(verb.name, verb.meaning);
}

}  // namespace kpu::cli
