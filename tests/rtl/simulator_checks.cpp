// The simulator against the RTL array where memory is the limit: narrow operand SRAM, and tiles loaded by
// DMA. The platform is the RTL's: same array, same widths, no latencies beyond one cycle of SRAM.
#include <gtest/gtest.h>

#include "isa/builder.hpp"
#include "platforms/platform.hpp"
#include "runtime/simulation.hpp"
#include "tests/rtl/checks.hpp"
#include "tests/rtl/rtl_core.hpp"

namespace kpu::rtl {
namespace {

using timing::GemmShape;

/// Bytes a cycle of the operand SRAM's ports and of the DMA.
struct Widths {
    uint64_t sram, dma;
};

platforms::Platform equivalent_platform(const CoreInfo& core, const Widths& widths) {
    const auto number = [](uint64_t value) { return std::to_string(value); };
    // each buffer of the program has a bank of its own, as each half of the RTL's operand buffers is a memory
    return platforms::load("tile32", {{"engine.array.rows", number(core.rows)},
                                      {"engine.array.cols", number(core.cols)},
                                      {"engine.array.dataflow", core.weight_stationary ? "ws" : "os"},
                                      {"engine.array.operand_bytes_per_cycle", number(widths.sram)},
                                      {"engine.array.result_bytes_per_cycle", number(4 * core.cols)},
                                      {"engine.l1.ports", "16"},
                                      {"engine.l1.banks", "16"},
                                      {"engine.l1.interleave_bytes", "16384"},
                                      {"engine.l1.read_latency_cycles", "2"},
                                      {"engine.l1.write_latency_cycles", "0"},
                                      {"l2.read_latency_cycles", "0"},
                                      {"interconnect.hop_latency_cycles", "0"},
                                      {"engine.dma.channels", "1"},
                                      {"engine.dma.bytes_per_cycle", number(widths.dma)},
                                      {"engine.dma.burst_bytes", number(widths.dma)},
                                      {"engine.dma.max_outstanding_bursts", "64"},
                                      {"engine.dma.descriptor_cycles", "0"},
                                      {"engine.dma.row_cycles", "0"},
                                      {"sequencer.dispatch_cycles", "0"}});
}

/// `count` products of one shape. With DMA each tile is loaded from L2 into one of two slots of L1.
std::shared_ptr<const Module> tiles_program(const GemmShape& shape, int64_t count, bool dma) {
    using namespace builder;
    const auto m = static_cast<int64_t>(shape.m), n = static_cast<int64_t>(shape.n),
               k = static_cast<int64_t>(shape.k);
    Program p("tiles");
    const Buffer a_far = p.buffer("A", Level::l2, count * m * k, 64),
                 b_far = p.buffer("B", Level::l2, count * k * n, 64);
    const auto align = [](int64_t bytes) { return (bytes + 16383) / 16384 * 16384; };
    const Buffer a_near = p.l1_buffer("A1", 0, 2 * align(m * k), 16384),
                 b_near = p.l1_buffer("B1", 0, 2 * align(k * n), 16384);
    const Buffer y = p.l1_buffer("Y1", 0, 2 * align(4 * m * n), 16384);
    const auto a_type = tensor(ElemType::i8, {m, k}), b_type = tensor(ElemType::i8, {k, n});
    std::vector<Task> done;
    for (int64_t i = 0; i < count; ++i) {
        const Region a = p.region("", a_near, i % 2 * align(m * k), a_type);
        const Region b = p.region("", b_near, i % 2 * align(k * n), b_type);
        std::vector<Task> needs;
        if (dma) {
            Task load_a = p.transfer("", a, p.region("", a_far, i * m * k, a_type));
            Task load_b = p.transfer("", b, p.region("", b_far, i * k * n, b_type));
            if (i >= 2) {
                load_a.after({done[static_cast<size_t>(i - 2)]});
                load_b.after({done[static_cast<size_t>(i - 2)]});
            }
            needs = {load_a, load_b};
        }
        const Region result = p.region("", y, i % 2 * align(4 * m * n), tensor(ElemType::i32, {m, n}));
        if (i >= 2) needs.push_back(done[static_cast<size_t>(i - 2)]);
        done.push_back(
            p.compute("gemm.acc", {a, b}, {result}).attr("accum_type", ElemType::i32).after(needs));
    }
    return std::make_shared<Module>(p.build());
}

uint64_t simulated_cycles(const CoreInfo& core, const GemmShape& shape, int64_t count, const Widths& widths,
                          bool dma) {
    const auto platform = equivalent_platform(core, widths);
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    runtime::Simulation simulation(tiles_program(shape, count, dma), &platform, options);
    if (simulation.run() != runtime::RunStatus::finished)
        throw std::runtime_error("the simulation did not finish");
    return simulation.stats().integer("cycles.total");
}

int cycles_per_word(uint64_t bytes, uint64_t width) { return static_cast<int>((bytes + width - 1) / width); }

/// Whole tiles only: the RTL reads padded words, the simulator the elements that there are.
std::vector<GemmShape> full_tiles(const CoreInfo& core) {
    const uint64_t r = core.rows, c = core.cols;
    return {{r, c, r},         {r, c, 16 * r},       {4 * r, 2 * c, 8 * r}, {2 * r, 4 * c, 6 * r},
            {8 * r, c, 2 * r}, {3 * r, 3 * c, 3 * r}};
}

Case compare(Core& core, const GemmShape& shape, int64_t count, const Widths& widths, const Speed& speed) {
    std::vector<Job> jobs;
    for (int64_t i = 0; i < count; ++i)
        jobs.push_back(random_job(core.info(), shape, static_cast<uint64_t>(i)));
    const Outcome outcome = core.run(jobs, speed);
    Case result;
    result.name = fmt::format("{} {} x {}x{}x{}, SRAM {} B/cycle, DMA {} B/cycle", core.info().name, count,
                              shape.m, shape.n, shape.k, widths.sram, widths.dma);
    result.rtl = speed.preloaded ? outcome.since_release : outcome.since_request;
    result.ours = simulated_cycles(core.info(), shape, count, widths, !speed.preloaded);
    result.starved = outcome.starved;
    result.values_right = true;
    for (size_t j = 0; j < jobs.size(); ++j)
        result.values_right = result.values_right && outcome.values[j] == exact_product(jobs[j]);
    return result;
}

}  // namespace

Cases starved_by_sram() {
    Cases cases;
    for (const auto& core : all_cores()) {
        const CoreInfo& info = core->info();
        if (info.a_bits != 8) continue;
        for (const GemmShape& shape : full_tiles(info)) {
            for (const uint64_t width : {8, 4, 2, 1}) {
                Speed speed;
                speed.sram_a = cycles_per_word(info.rows, width);
                speed.sram_b = cycles_per_word(info.cols, width);
                cases.push_back(compare(*core, shape, 1, {width, 64}, speed));
            }
        }
    }
    return cases;
}

Cases loaded_by_dma() {
    Cases cases;
    for (const auto& core : all_cores()) {
        const CoreInfo& info = core->info();
        if (info.a_bits != 8) continue;
        for (const GemmShape& shape : full_tiles(info)) {
            for (const uint64_t width : {8, 4, 2, 1}) {
                // the RTL's DMA moves one operand word at a time, never parts of two
                if (width > std::min(info.rows, info.cols)) continue;
                Speed speed;
                speed.preloaded = false;
                speed.dma_a = cycles_per_word(info.rows, width);
                speed.dma_b = cycles_per_word(info.cols, width);
                cases.push_back(compare(*core, shape, 6, {8, width}, speed));
            }
        }
    }
    return cases;
}

}  // namespace kpu::rtl
