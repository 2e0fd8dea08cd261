// The simulator against the RTL array, with the same data: products alone and back to back, narrow operand
// SRAM, and tiles loaded by DMA. The platform is the RTL's: same array, same widths, the two cycles of its
// operand SRAM.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <stdexcept>

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
    // each buffer of the program has a bank of its own, as each half of the RTL's operand buffers is a
    // memory; a wide one, for the memory of its results has a port to read and one to write
    return platforms::load("tile32", {{"engine.array.rows", number(core.rows)},
                                      {"engine.array.cols", number(core.cols)},
                                      {"engine.array.dataflow", core.weight_stationary ? "ws" : "os"},
                                      {"engine.array.operand_bytes_per_cycle", number(widths.sram)},
                                      {"engine.array.result_bytes_per_cycle", number(4 * core.cols)},
                                      {"engine.l1.ports", "16"},
                                      {"engine.l1.banks", "16"},
                                      {"engine.l1.interleave_bytes", "16384"},
                                      {"engine.l1.bank_width_bytes", "4096"},
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

constexpr int64_t bank_bytes = 16384;

/// Returns a dense i8 array of values that fit.
NpyArray bytes_of(const std::vector<int32_t>& values, std::vector<int64_t> shape) {
    NpyArray array{"|i1", std::move(shape), {}};
    for (const int32_t value : values) array.data.push_back(static_cast<char>(value));
    return array;
}

std::vector<int32_t> integers_of(const NpyArray& array) {
    std::vector<int32_t> values(array.elements());
    std::memcpy(values.data(), array.data.data(), array.data.size());
    return values;
}

/// Returns the products of their own, in order. With DMA each one's operands are loaded from L2 into one of
/// two slots of L1.
std::shared_ptr<const Module> products_program(const std::vector<Job>& jobs, bool dma) {
    using namespace builder;
    Program p("products");
    int64_t a_slot = 0, b_slot = 0, y_slot = 0, a_all = 0, b_all = 0;
    const auto grow = [](int64_t& slot, int64_t bytes) {
        slot = std::max(slot, (bytes + bank_bytes - 1) / bank_bytes * bank_bytes);
    };
    const auto sizes_of = [](const Job& job) {
        return std::array{static_cast<int64_t>(job.shape.m), static_cast<int64_t>(job.shape.n),
                          static_cast<int64_t>(job.shape.k)};
    };
    for (const Job& job : jobs) {
        const auto [m, n, k] = sizes_of(job);
        grow(a_slot, m * k);
        grow(b_slot, k * n);
        grow(y_slot, 4 * m * n);
        a_all += m * k;
        b_all += k * n;
    }
    const Buffer a_near = p.l1_buffer("A1", 0, 2 * a_slot, bank_bytes),
                 b_near = p.l1_buffer("B1", 0, 2 * b_slot, bank_bytes),
                 y = p.l1_buffer("Y1", 0, static_cast<int64_t>(jobs.size()) * y_slot, bank_bytes);
    const Buffer a_far = dma ? p.buffer("A", Level::l2, a_all, 64) : a_near,
                 b_far = dma ? p.buffer("B", Level::l2, b_all, 64) : b_near;
    std::vector<Task> done;
    int64_t a_at = 0, b_at = 0;
    for (size_t i = 0; i < jobs.size(); ++i) {
        const auto [m, n, k] = sizes_of(jobs[i]);
        const auto a_type = tensor(ElemType::i8, {m, k}), b_type = tensor(ElemType::i8, {k, n});
        const auto slot = static_cast<int64_t>(i % 2);
        const Region a = p.region(fmt::format("a{}", i), a_near, slot * a_slot, a_type);
        const Region b = p.region(fmt::format("b{}", i), b_near, slot * b_slot, b_type);
        std::vector<Task> needs;
        if (dma) {
            Task load_a = p.transfer("", a, p.region(fmt::format("a_far{}", i), a_far, a_at, a_type));
            Task load_b = p.transfer("", b, p.region(fmt::format("b_far{}", i), b_far, b_at, b_type));
            if (i >= 2) {
                load_a.after({done[i - 2]});
                load_b.after({done[i - 2]});
            }
            needs = {load_a, load_b};
            a_at += m * k;
            b_at += k * n;
        }
        const Region result = p.region(fmt::format("y{}", i), y, static_cast<int64_t>(i) * y_slot,
                                       tensor(ElemType::i32, {m, n}));
        done.push_back(
            p.compute("gemm.acc", {a, b}, {result}).attr("accum_type", ElemType::i32).after(needs));
    }
    return std::make_shared<Module>(p.build());
}

struct Simulated {
    uint64_t cycles = 0;
    std::vector<std::vector<int32_t>> values;  ///< values of each job, M x N
};

/// Simulates one run with real data: the values are those that the modelled DMA moved and the array computed.
Simulated simulate(const platforms::Platform& platform, const std::vector<Job>& jobs, bool dma) {
    runtime::Simulation simulation(products_program(jobs, dma), &platform, {});
    std::vector<int32_t> a_all, b_all;
    for (size_t i = 0; i < jobs.size(); ++i) {
        const Job& job = jobs[i];
        const auto m = static_cast<int64_t>(job.shape.m), n = static_cast<int64_t>(job.shape.n),
                   k = static_cast<int64_t>(job.shape.k);
        if (!dma) {
            simulation.write_region(fmt::format("a{}", i), bytes_of(job.a, {m, k}));
            simulation.write_region(fmt::format("b{}", i), bytes_of(job.b, {k, n}));
        }
        a_all.insert(a_all.end(), job.a.begin(), job.a.end());
        b_all.insert(b_all.end(), job.b.begin(), job.b.end());
    }
    if (dma) {
        simulation.set_input("A", bytes_of(a_all, {static_cast<int64_t>(a_all.size())}));
        simulation.set_input("B", bytes_of(b_all, {static_cast<int64_t>(b_all.size())}));
    }
    if (simulation.run() != runtime::RunStatus::finished)
        throw std::runtime_error("the simulation did not finish");
    Simulated result;
    result.cycles = simulation.stats().integer("cycles.total");
    for (size_t i = 0; i < jobs.size(); ++i)
        result.values.push_back(integers_of(simulation.read_region(fmt::format("y{}", i))));
    return result;
}

int cycles_per_word(uint64_t bytes, uint64_t width) { return static_cast<int>((bytes + width - 1) / width); }

/// Whole tiles only: every fold asks for as much.
std::vector<GemmShape> full_tiles(const CoreInfo& core) {
    const uint64_t r = core.rows, c = core.cols;
    return {{r, c, r},         {r, c, 16 * r},       {4 * r, 2 * c, 8 * r}, {2 * r, 4 * c, 6 * r},
            {8 * r, c, 2 * r}, {3 * r, 3 * c, 3 * r}};
}

/// Short edges, of one dimension or of all, and almost none.
std::vector<GemmShape> edge_tiles(const CoreInfo& core) {
    const uint64_t r = core.rows, c = core.cols;
    return {{r + 1, c, 16 * r},
            {r, c + 1, 16 * r},
            {3 * r + r / 2, 2 * c, 8 * r},
            {2 * r, 3 * c - 1, 6 * r},
            {4 * r, 2 * c, 8 * r + 1},
            {4 * r - 1, 4 * c - 1, 8 * r - 1},
            {r - 1, c - 1 + c % 2, 100},
            {3 * r + 1, 3 * c + 1, 3 * r + 1}};
}

Case compare(Core& core, const std::string& name, const std::vector<GemmShape>& shapes,
             const platforms::Platform& platform, const Speed& speed) {
    std::vector<Job> jobs;
    for (const GemmShape& shape : shapes) jobs.push_back(random_job(core.info(), shape, jobs.size()));
    const Outcome outcome = core.run(jobs, speed);
    const Simulated simulated = simulate(platform, jobs, !speed.preloaded);
    Case result;
    result.name = core.info().name + " " + name;
    result.rtl = speed.preloaded ? outcome.since_release : outcome.since_request;
    result.ours = simulated.cycles;
    result.starved = outcome.starved;
    result.values_right = simulated.values == outcome.values;
    for (size_t j = 0; j < jobs.size(); ++j)
        result.values_right = result.values_right && outcome.values[j] == exact_product(jobs[j]);
    return result;
}

/// Compares `count` tiles of one shape through narrow ports.
Case compare_tiles(Core& core, const GemmShape& shape, size_t count, const Widths& widths,
                   const Speed& speed) {
    const std::string name = fmt::format("{} x {}, SRAM {} B/cycle, DMA {} B/cycle", count, text_of(shape),
                                         widths.sram, widths.dma);
    return compare(core, name, std::vector<GemmShape>(count, shape), equivalent_platform(core.info(), widths),
                   speed);
}

/// Ports that never limit an array of the RTL's sizes.
constexpr Widths wide{64, 64};

}  // namespace

Cases simulated_products() {
    Cases cases;
    for (const auto& core : all_cores()) {
        if (core->info().a_bits != 8) continue;
        const auto platform = equivalent_platform(core->info(), wide);
        const auto shapes = shape_grid(core->info());
        // not all: a run of the simulator takes longer than one of these arrays
        for (size_t i = 0; i < shapes.size(); i += 2)
            cases.push_back(compare(*core, text_of(shapes[i]), {shapes[i]}, platform, {}));
    }
    return cases;
}

Cases simulated_pairs() {
    Cases cases;
    for (const auto& core : all_cores()) {
        if (core->info().a_bits != 8) continue;
        const auto platform = equivalent_platform(core->info(), wide);
        const auto pairs = shape_pairs(core->info());
        for (size_t i = 0; i < pairs.size(); i += 3) {
            const auto& [first, second] = pairs[i];
            cases.push_back(
                compare(*core, text_of(first) + " then " + text_of(second), {first, second}, platform, {}));
        }
    }
    return cases;
}

Cases starved(Core& core, const std::vector<GemmShape>& shapes) {
    Cases cases;
    for (const GemmShape& shape : shapes) {
        for (const int width : {8, 4, 3, 2, 1}) {
            Speed speed;
            speed.sram = width;
            cases.push_back(compare_tiles(core, shape, 1, {static_cast<uint64_t>(width), 64}, speed));
        }
    }
    return cases;
}

template <class Shapes>
Cases starved_cores(const Shapes& shapes_of) {
    Cases all;
    for (const auto& core : all_cores()) {
        if (core->info().a_bits != 8) continue;
        for (Case& one : starved(*core, shapes_of(core->info()))) all.push_back(std::move(one));
    }
    return all;
}

Cases starved_by_sram() { return starved_cores(full_tiles); }

Cases starved_edge_tiles() { return starved_cores(edge_tiles); }

Cases loaded_by_dma() {
    Cases cases;
    for (const auto& core : all_cores()) {
        const CoreInfo& info = core->info();
        if (info.a_bits != 8) continue;
        for (const GemmShape& shape : full_tiles(info)) {
            for (const uint64_t width : {8, 4, 2, 1}) {
                // the RTL's DMA moves one operand word at a time, never parts of two
                if (info.rows % width != 0 || info.cols % width != 0) continue;
                Speed speed;
                speed.preloaded = false;
                speed.dma_a = cycles_per_word(info.rows, width);
                speed.dma_b = cycles_per_word(info.cols, width);
                cases.push_back(
                    compare_tiles(*core, shape, 6, {std::max(info.rows, info.cols), width}, speed));
            }
        }
    }
    return cases;
}

}  // namespace kpu::rtl
