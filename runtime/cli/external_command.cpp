// Verbs that other packages bring, as programs of their own: `kpusim sweep` is `kpusim-sweep`, beside this command or in PATH.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/diagnostics.hpp"
#include "runtime/cli/command.hpp"

namespace kpu::cli {
namespace {

struct ExternalVerb {
    const char *name, *meaning, *package;
};
constexpr std::array verbs{ExternalVerb{
    "sweep", "run programs on many machines; tables, fronts, pages (Python package)", "kpusim[sweep]"}};

std::string beside_command(const std::string& program) {
    std::error_code none;
    const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", none);
    return none ? std::string() : (own.parent_path() / program).string();
}

}  // namespace

void run_external(char** argv) {
    if (argv[0] == nullptr || argv[1] == nullptr) return;
    for (const ExternalVerb& verb : verbs) {
        if (std::strcmp(argv[1], verb.name) != 0) continue;
        std::string program = fmt::format("kpusim-{}", verb.name);
        argv[1] = program.data();
        if (const std::string path = beside_command(program); !path.empty()) execv(path.c_str(), argv + 1);
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
