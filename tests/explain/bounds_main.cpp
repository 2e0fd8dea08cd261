// Distance of what-if bounds from simulations in which that part is a thousand times faster: on the examples
// and on random programs. Writes the table of docs/explain.md; ends with 1 if a bound is above its
// simulation.
//
//     build/release/bin/explain_bounds [PROGRAMS]
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

#include "runtime/what_if/faster.hpp"
#include "tests/explain/run.hpp"

namespace kpu::explain {
namespace {

struct Gaps {
    std::vector<double> percent;
    int above = 0;
};

class Survey {
  public:
    void look(const std::string& name, const std::shared_ptr<const Module>& module,
              const platforms::Platform& platform) {
        const test::TracedRun run = test::traced_run(module, platform);
        const RunGraph graph(run.recording, name);
        for (const Bound& bound : explain::what_if(graph)) {
            const Cycles fast = test::traced_run(module, what_if::faster(platform, bound.part, 1000)).total();
            Gaps& gaps = gaps_[std::string(bound.part.empty() ? "nothing" : bound.part)];
            gaps.percent.push_back(100 * (1 - double(bound.cycles) / double(std::max<Cycles>(fast, 1))));
            if (bound.cycles <= fast) continue;
            ++gaps.above;
            fmt::print(stderr, "{} on {}, {}: bound {} (chain {}, work {} of {}) above the simulation's {}\n",
                       name, platform.name(), bound.part, bound.cycles, bound.path, bound.work, bound.busiest,
                       fast);
        }
    }

    /// Prints rows of gaps; true if no bound was above its simulation.
    bool print(const std::string& what) {
        bool good = true;
        for (auto& [of_part, gaps] : gaps_) {
            std::sort(gaps.percent.begin(), gaps.percent.end());
            const auto at = [&gaps = gaps](double part) {
                return gaps.percent[static_cast<size_t>(part * static_cast<double>(gaps.percent.size() - 1))];
            };
            fmt::print("| {} | {} | {} | {:.1f} % | {:.1f} % | {:.1f} % |\n", what, of_part,
                       gaps.percent.size(), at(0.5), at(0.9), at(1));
            good = good && gaps.above == 0;
        }
        gaps_.clear();
        return good;
    }

  private:
    std::map<std::string, Gaps> gaps_;
};

int survey(uint64_t programs) {
    fmt::print(
        "| programs | resource | runs | median gap | 9 of 10 below | largest |\n|---|---|---|---|---|---|\n");
    Survey survey;
    for (const char* name : {"gemm_relu", "conv_pool", "gemm_rmsnorm"})
        survey.look(name, test::example(name), platforms::load("npm_lite"));
    bool good = survey.print("examples");
    const std::vector<platforms::Platform> devices{platforms::load("npm_lite"), platforms::load("npm_mid"),
                                                   platforms::load("edge16"),
                                                   platforms::load("npm_lite", {{"ddr.fidelity", "burst"}})};
    for (uint64_t seed = 1; seed <= programs; ++seed) {
        const platforms::Platform& platform = devices[seed % devices.size()];
        survey.look(fmt::format("seed {}", seed), test::random_module(platform, seed), platform);
    }
    good = survey.print("random") && good;
    return good ? 0 : 1;
}

}  // namespace
}  // namespace kpu::explain

int main(int argc, char** argv) {
    uint64_t programs = 1000;
    if (argc > 1) std::from_chars(argv[1], argv[1] + std::strlen(argv[1]), programs);
    return kpu::explain::survey(programs);
}
