// Prints docs/anomalies.md: metamorphic [PROGRAMS]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tests/model/metamorphic.hpp"

namespace {

using kpu::model::Anomalies;
using kpu::model::Effect;

constexpr const char* head = R"(# Anomalies: where more of something costs time

Random programs (`tests/model/random_program.cpp`: loads, moves, products, vector work, loops in loops, operands
also column by column), each on a shipped device, half of them with DRAM controllers, and again with every number
of the platform one step up and one step down: twice and half. Where the page of a unit gives a number a direction
(more banks are faster, more latency is slower), a run that does worse with the better value is an anomaly. Shared
resources are served first come, first served, and DRAM commands are chosen greedily: with other times work meets
in another order, and that may cost. Made by, with programs on {}:

    build/release/bin/metamorphic {} > docs/anomalies.md

The tests repeat a part of it and hold every parameter to its `worst`; one that is not in the first table must have no
anomaly at all.

## Anomalies

| parameter | pairs of runs | of other time | anomalies % | worst % | mean effect % | worst at |
|---|---|---|---|---|---|---|
)";

std::string list_of(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
}

double percent(double part, double whole) { return whole == 0 ? 0 : 100 * part / whole; }

/// Upwards, so that the page bounds what was measured.
double rounded_up(double share) { return std::ceil(share * 1e4) / 100; }

}  // namespace

int main(int argc, char** argv) {
    const uint64_t programs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 2000;
    const auto& platforms = kpu::model::metamorphic_platforms();
    std::map<std::string, Anomalies> all;
    for (const std::string& platform : platforms) {
        kpu::model::Metamorphic runs(platform);
        for (uint64_t seed = 1; seed <= programs / platforms.size(); ++seed) runs.run(seed);
        kpu::model::add(all, runs.found());
    }
    fmt::print(fmt::runtime(head), list_of(platforms), programs);
    std::string regular, without;
    for (const auto& parameter : kpu::model::stepped_parameters()) {
        const Anomalies& found = all[parameter.path];
        const auto pairs = static_cast<double>(found.pairs);
        if (parameter.effect == Effect::either) {
            without += fmt::format("| {} | {} | {} |\n", parameter.path, found.pairs, found.changed);
        } else if (found.anomalous == 0) {
            regular += fmt::format("| {} | {} | {} | {:.2f} |\n", parameter.path, found.pairs, found.changed,
                                   percent(-found.sum, pairs));
        } else {
            fmt::print("| {} | {} | {} | {:.2f} | {:.2f} | {:.2f} | {} |\n", parameter.path, found.pairs,
                       found.changed, percent(static_cast<double>(found.anomalous), pairs),
                       rounded_up(found.worst), percent(-found.sum, pairs), found.worst_at);
        }
    }
    fmt::print(
        "\n## No anomaly\n\n| parameter | pairs of runs | of other time | mean effect % "
        "|\n|---|---|---|---|\n{}",
        regular);
    fmt::print(
        "\n## Without a direction\n\nHow addresses are spread, sizes of an array, policies: either step may "
        "be the better "
        "one.\n\n| parameter | pairs of runs | of other time |\n|---|---|---|\n{}",
        without);
    return 0;
}
