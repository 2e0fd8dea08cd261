// Random kernels through whole programs: the timed run is the fast path, whatever the lanes; several units too, unless
// the run says that the order of workgroups decides. KPUSIM_RANDOM_KERNELS=100000 for more of them, from
// number KPUSIM_FIRST_KERNEL on.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <map>

#include "isa/kernel/flow.hpp"
#include "isa/nem/nem.hpp"
#include "platforms/library.hpp"
#include "runtime/simulation.hpp"
#include "tests/kernel/random_kernel.hpp"
#include "tests/kernel/support.hpp"

namespace kpu::kernel_test {
namespace {

using runtime::Mode;
using runtime::Simulation;

constexpr uint64_t most_steps = 20000;
constexpr uint64_t orders = 100;

uint64_t number_of(const char* variable, uint64_t otherwise) {
    const char* wanted = std::getenv(variable);
    return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : otherwise;
}

/// Returns a program from L2 to L1, the launch, and back to L2.
std::string program_of(const RandomKernel& kernel) {
    std::string declared, loads, tokens, reads, writes, stores;
    for (size_t i = 0; i < std::size(random_buffers); ++i) {
        const RandomBuffer& o = random_buffers[i];
        const size_t bytes = kernel.buffers[i].size();
        for (const char* place : {"_in", "_out", "_l1"}) {
            const bool l1 = std::string(place) == "_l1";
            if (!o.is_read && std::string(place) == "_in") continue;
            if (!o.is_written && std::string(place) == "_out") continue;
            declared += fmt::format(
                "buffer {0}{1} : {2} (size = {3})\nlet r_{0}{1} = region({0}{1}, 0, {3}) elem={4}, "
                "shape=[{5}], "
                "layout=N\n",
                o.name, place, l1 ? "L1[0]" : "L2", bytes, o.elem, bytes / o.elem_bytes);
        }
        if (o.is_written) writes += fmt::format("{}r_{}_l1", writes.empty() ? "" : ", ", o.name);
        if (o.is_written)
            stores +=
                fmt::format("s_{0} = store.async(dst=r_{0}_out, src=r_{0}_l1, deps=[launch])\n", o.name);
        if (!o.is_read) continue;
        loads += fmt::format("t_{0} = transfer.async(dst=r_{0}_l1, src=r_{0}_in)\n", o.name);
        tokens += fmt::format("{}t_{}", tokens.empty() ? "" : ", ", o.name);
        reads += fmt::format("{}r_{}_l1", reads.empty() ? "" : ", ", o.name);
    }
    return fmt::format(
        "program random:\n#! kernels k.kern\n{}{}launch = compute.async in {} out {} op=\"r\" grid=[{}] "
        "args=[{}] deps=[{}]\n{}",
        declared, loads, reads, writes, fmt::join(kernel.grid, ", "), fmt::join(kernel.scalars, ", "), tokens,
        stores);
}

std::shared_ptr<const Module> module_of(const RandomKernel& kernel) {
    const nem::FileLoader others = nem::default_loader({});
    const nem::FileLoader loader = [&](const std::string& name, const std::string& from) {
        return name == "k.kern" ? nem::SourceFile{name, kernel.text} : others(name, from);
    };
    Diagnostics diagnostics;
    nem::Document document = nem::parse(program_of(kernel), "random.nem", loader, diagnostics);
    if (diagnostics.has_errors()) throw UserError(diagnostics);
    return std::make_shared<Module>(std::move(document.module));
}

struct Ran {
    std::vector<Blob> buffers;
    uint64_t hazards = 0;
    std::string error, findings;
};

Ran run_program(const std::shared_ptr<const Module>& module, const RandomKernel& kernel,
                const platforms::Platform& platform) {
    Ran ran;
    Simulation simulation(module, &platform, {});
    for (size_t i = 0; i < std::size(random_buffers); ++i) {
        const RandomBuffer& o = random_buffers[i];
        if (!o.is_read) continue;
        NpyArray array;
        array.dtype = o.dtype;
        array.shape = {static_cast<int64_t>(kernel.buffers[i].size() / o.elem_bytes)};
        array.data.assign(kernel.buffers[i].begin(), kernel.buffers[i].end());
        simulation.set_input(fmt::format("{}_in", o.name), array);
    }
    try {
        simulation.run();
    } catch (const SimulationError& error) {
        ran.error = error.what();
        return ran;
    }
    for (size_t i = 0; i < std::size(random_buffers); ++i) {
        const RandomBuffer& o = random_buffers[i];
        ran.buffers.push_back(kernel.buffers[i]);
        if (!o.is_written) continue;
        const std::string bytes = simulation.output(fmt::format("{}_out", o.name)).data;
        ran.buffers.back().assign(bytes.begin(), bytes.end());
    }
    ran.hazards = simulation.hazards().count();
    ran.findings = simulation.run_findings().to_string();
    return ran;
}

const platforms::Platform& platform_with(unsigned lanes, unsigned units) {
    static std::map<std::pair<unsigned, unsigned>, platforms::Platform> known;
    const auto found = known.find({lanes, units});
    if (found != known.end()) return found->second;
    return known
        .emplace(std::make_pair(lanes, units),
                 platforms::load("npm_lite", {{"engine.vector.lanes", std::to_string(lanes)},
                                              {"engine.vector.vpu_count", std::to_string(units)}}))
        .first->second;
}

Launched watched(const Code& code, const RandomKernel& kernel, uint64_t order) {
    Launched run;
    run.buffers = kernel.buffers;
    std::vector<Bytes> storage;
    for (Blob& blob : run.buffers) storage.push_back({blob.data(), blob.size()});
    values::kernel::LaunchLimits limits;
    limits.steps = most_steps;
    limits.races = order == 0;
    limits.order_seed = order;
    try {
        run.result = run_launch(code, kernel.grid, kernel.scalars, storage, limits);
    } catch (const SimulationError& error) {
        run.error = error.what();
    }
    return run;
}

uint64_t races_of(const Launched& run) {
    uint64_t count = 0;
    for (const values::kernel::KernelRace& race : run.result.races) count += race.count;
    return count;
}

TEST(KernelRandom, TimedRunsOfProgramsAreTheFastPath) {
    constexpr unsigned lanes[] = {1, 4, 8, 32};
    uint64_t ordered = 0, shuffled = 0, faults = 0, ran = 0, racy = 0;
    const uint64_t first = number_of("KPUSIM_FIRST_KERNEL", 0);
    const uint64_t count = number_of("KPUSIM_RANDOM_KERNELS", 300);
    for (uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
        const RandomKernel kernel = seed % 4 == 3 ? tame_kernel(seed) : random_kernel(seed);
        SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + kernel.text);
        const auto code = code_of(kernel.text);
        const Launched fast = watched(*code, kernel, 0);
        if (!fast.result.complete) continue;  // without an end
        ++ran;
        const auto module = module_of(kernel);
        const Ran one = run_program(module, kernel, platform_with(lanes[seed % 4], 1));
        ASSERT_EQ(one.error.empty(), fast.error.empty()) << one.error << fast.error;
        if (!fast.error.empty()) {
            ++faults;
            continue;
        }
        ASSERT_EQ(one.buffers, fast.buffers);
        ASSERT_EQ(one.hazards, races_of(fast));
        racy += one.hazards > 0 ? 1 : 0;
        const Ran several = run_program(module, kernel, platform_with(lanes[seed / 4 % 4], 3));
        const bool alike = fast.result.races.empty() && !kpu::kernel::first_order_dependence(*code);
        if (!several.error.empty()) {  // in another order something else is at fault
            ASSERT_FALSE(alike) << several.error;
            continue;
        }
        const bool said =
            several.hazards > 0 || several.findings.find("depends on the order") != std::string::npos;
        if (several.buffers != fast.buffers) {
            ASSERT_TRUE(said) << several.error;
            continue;
        }
        if (fast.result.races.empty()) {
            ASSERT_EQ(several.hazards, 0u);
        }
        if (!alike) continue;
        ++ordered;
        const uint64_t workgroups = kernel.grid[0] * kernel.grid[1] * kernel.grid[2];
        for (uint64_t order = 1; order <= orders && workgroups > 1; ++order, ++shuffled)
            ASSERT_EQ(watched(*code, kernel, order).buffers, fast.buffers) << "order " << order;
    }
    fmt::print("{} kernels ran, {} of them racy, {} with a fault, {} free of races, {} shuffled runs\n", ran,
               racy, faults, ordered, shuffled);
    EXPECT_GT(ran, count / 2);
    EXPECT_GT(racy, count / 20);
    EXPECT_GT(ordered, count / 6);
    EXPECT_GT(shuffled, count);
}

}  // namespace
}  // namespace kpu::kernel_test
