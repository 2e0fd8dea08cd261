#include "runtime/throughput.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace kpu::runtime {
namespace {

/// Returns the inference whose outputs a region is part of: those of all inferences lie one after the other
/// in their buffer.
uint64_t inference_of(const BoundProgram& program, const BoundRegion& region, uint64_t inferences) {
    const BoundBuffer& buffer = program.buffers[region.buffer];
    LoopValues loops;  // a loop stays within an inference
    for (int depth = 0; depth < max_loop_depth; ++depth) loops.push(0);
    const uint64_t offset = static_cast<uint64_t>(region.address.eval(loops)) - buffer.base;
    return std::min(offset / std::max<uint64_t>(buffer.size / inferences, 1), inferences - 1);
}

/// Returns when the outputs of each inference are there; empty if some are not.
std::vector<Cycles> ends_of(const BoundProgram& program, const Driver& driver, uint64_t inferences) {
    std::vector<std::optional<Cycles>> ends(inferences);
    for (uint32_t s = 0; s < program.statements.size(); ++s) {
        if (program.statements[s].kind != BoundStatement::Kind::task) continue;
        for (const uint32_t output : program.tasks[program.statements[s].index].outputs) {
            const BoundRegion& region = program.regions[output];
            const bool of_host = std::any_of(program.outputs.begin(), program.outputs.end(),
                                             [&](const TensorSpec& o) { return o.buffer == region.buffer; });
            if (!of_host) continue;
            const std::optional<Cycles> end = driver.completed_at(s);
            if (!end) return {};
            std::optional<Cycles>& last = ends[inference_of(program, region, inferences)];
            last = std::max(last.value_or(0), *end);
        }
    }
    std::vector<Cycles> result;
    for (const std::optional<Cycles>& end : ends) {
        if (!end) return {};
        result.push_back(*end);
    }
    return result;
}

}  // namespace

void add_throughput(traces::StatSet& stats, const BoundProgram& program, const Driver& driver) {
    const KPUProgram& message = program.module->program;
    if (message.batch() == 0 && message.inferences() == 0) return;
    if (!stats.contains("time.total_us") || stats.real("time.total_us") <= 0) return;
    const uint64_t rounds = std::max<uint64_t>(message.inferences(), 1),
                   size = std::max<uint64_t>(message.batch(), 1);
    const double total = stats.real("time.total_us"), each = total / (double(rounds) * double(size));
    stats.set("throughput.inferences", rounds * size, "count",
              "inferences in this run (--batch, --inferences)");
    stats.set("throughput.us_per_inference", each, "us", "time.total_us / throughput.inferences");
    stats.set("throughput.inferences_per_s", 1e6 / each, "1/s", "throughput.inferences / time.total_us");
    if (rounds < 2) return;
    const std::vector<Cycles> ends = ends_of(program, driver, rounds);
    if (ends.empty() || ends.back() <= ends.front()) return;
    const double us = total / stats.real("cycles.total");
    const double step = us * double(ends.back() - ends.front()) / double(rounds - 1);
    stats.set("throughput.first_us", us * double(ends.front()), "us",
              "until the outputs of the first inference (of --batch) are there, weights from DRAM");
    stats.set(
        "throughput.step_us", step, "us",
        "from the outputs of one inference (of --batch) to those of the next, on average after the first");
    stats.set("throughput.steady_inferences_per_s", 1e6 * double(size) / step, "1/s",
              "inferences of a step / throughput.step_us");
}

}  // namespace kpu::runtime
