#include "values/kernel/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "values/compute.hpp"
#include "values/kernel/lanes/interpreter.hpp"
#include "values/kernel/probe.hpp"

namespace kpu::values::kernel {
namespace {

thread_local LaunchProbe* probe_of_thread = nullptr;

/// Returns the smallest n with n^power >= total.
uint64_t root_above(uint64_t total, unsigned power) {
    auto n = static_cast<uint64_t>(std::pow(static_cast<double>(total), 1.0 / power));
    const auto reaches = [&](uint64_t side) {
        uint64_t product = 1;
        for (unsigned i = 0; i < power; ++i) product = side > total / product ? total : product * side;
        return product >= total;
    };
    n = n > 1 ? n - 1 : 1;
    while (!reaches(n)) ++n;
    return n;
}

void check_scalars(const Code& code, const std::vector<uint64_t>& scalars) {
    if (scalars.size() != code.scalars.size())
        throw UserError(
            fmt::format("kernel `{}` takes {} scalars, the launch gives {}. Fix: give it as many in args.",
                        code.name(), code.scalars.size(), scalars.size()));
}

void check(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars) {
    check_scalars(code, scalars);
    check_grid(code, grid);
}

void clear_outputs(const Code& code, const std::vector<Bytes>& storage) {
    size_t next = 0;
    for (const CodeBuffer& buffer : code.buffers) {
        if (buffer.is_workgroup()) continue;
        const Bytes& bytes = storage[next++];
        if (buffer.starts_zero()) std::fill_n(bytes.data, bytes.size, uint8_t{0});
    }
}

/// Returns the place of the workgroup with a number, x fastest.
std::array<uint32_t, 3> place_of(uint64_t workgroup, const Grid& grid) {
    return {static_cast<uint32_t>(workgroup % grid[0]), static_cast<uint32_t>(workgroup / grid[0] % grid[1]),
            static_cast<uint32_t>(workgroup / grid[0] / grid[1])};
}

}  // namespace

LaunchProbe* LaunchProbe::current() { return probe_of_thread; }
LaunchProbe::Scope::Scope(LaunchProbe& probe) : outer_(probe_of_thread) { probe_of_thread = &probe; }
LaunchProbe::Scope::~Scope() { probe_of_thread = outer_; }

Grid inferred_grid(const Code& code, const std::vector<uint64_t>& elements) {
    if (code.tiles != nullptr) return {1, 1, 1};
    uint64_t outputs = 0, inputs = 0;
    bool has_output = false, shared = code.has_atomics;
    size_t next = 0;
    for (const CodeBuffer& buffer : code.buffers) {
        if (buffer.is_workgroup()) {
            shared = true;
            continue;
        }
        const uint64_t count = elements.at(next++);
        const bool output = buffer.starts_zero() || buffer.access == proto::KernelBuffer::READ_WRITE;
        has_output |= output;
        uint64_t& most = output ? outputs : inputs;
        most = std::max(most, count);
    }
    uint64_t count = std::max<uint64_t>(1, outputs);
    if (!has_output || shared) count = std::max(count, inputs);
    const uint64_t area = uint64_t{code.workgroup[0]} * code.workgroup[1];
    const uint64_t total = (count + area - 1) / area;
    const auto active = static_cast<unsigned>(
        std::count_if(code.workgroup.begin(), code.workgroup.end(), [](uint32_t size) { return size > 1; }));
    if (active == 0) return {total, 1, 1};
    Grid grid{1, 1, 1};
    for (size_t axis = 0; axis < 3; ++axis)
        if (code.workgroup[axis] > 1) grid[axis] = root_above(total, active);
    return grid;
}

void check_grid(const Code& code, const Grid& grid) {
    if (code.tiles != nullptr && grid != Grid{1, 1, 1})
        throw UserError(
            fmt::format("kernel `{}` of rule set xla has one invocation. Fix: launch it without grid; its "
                        "loops are its grid.",
                        code.name()));
    for (size_t axis = 0; axis < 3; ++axis) {
        if (grid[axis] == 0)
            throw UserError(
                fmt::format("kernel `{}`: the grid has no workgroup along axis {}. Fix: launch at least "
                            "one.",
                            code.name(), axis));
        if (grid[axis] > UINT32_MAX / code.workgroup[axis])
            throw UserError(
                fmt::format("kernel `{}`: workgroup * dispatch dimensions overflow u32 global id. Fix: "
                            "reduce workgroup id or workgroup size so each global_invocation_id component "
                            "fits in u32.",
                            code.name()));
    }
    if (grid[2] > max_workgroups / grid[0] / grid[1])
        throw UserError(fmt::format("kernel `{}`: the grid has more than {} workgroups. Fix: launch fewer.",
                                    code.name(), max_workgroups));
}

LaunchWork::LaunchWork(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars,
                       const std::vector<Bytes>& storage, bool races)
    : code_(code), grid_(grid), scalars_(scalars), storage_(storage) {
    check(code, grid, scalars);
    const Memory memory(code, storage);  // throws where a buffer is too short
    workgroups_ = grid[0] * grid[1] * grid[2];
    clear_outputs(code, storage);
    watches_copies_ = races;
    if (races && code.tiles == nullptr) shadow_.emplace(code);
}

void LaunchWork::shuffle(uint64_t seed) {
    order_.resize(workgroups_);
    std::iota(order_.begin(), order_.end(), uint64_t{0});
    std::mt19937_64 random(seed);
    std::shuffle(order_.begin(), order_.end(), random);
}

LaunchResult LaunchWork::result() const {
    LaunchResult result;
    result.grid = grid_;
    result.steps = steps_;
    result.outside = outside_;
    result.races = copy_races_;
    result.workers = workers_;
    if (!shadow_) return result;
    result.races = shadow_->races();
    result.unwatched = shadow_->unwatched();
    return result;
}

LaunchWorker::LaunchWorker(LaunchWork& work) : work_(work) {
    if (work.code_.tiles == nullptr) {
        memory_.emplace(work.code_, work.storage_);
        batch_.emplace(work.code_, *memory_, work.scalars_);
    }
    if (work.shadow_) {
        watch_.emplace(work.code_, *memory_, *work.shadow_);
        batch_->observe(*watch_);
    }
    begin_next();
}

LaunchWorker::~LaunchWorker() {
    if (LaunchProbe* const probe = LaunchProbe::current()) probe->ended(*this);
}

void LaunchWorker::observe(StepObserver& observer) {
    if (tiles_)
        tiles_->observe(observer);
    else if (batch_)
        batch_->observe(observer);
}

/// The next workgroup that has a statement.
void LaunchWorker::begin_next() {
    if (!batch_) {
        if (!tiles_ && work_.left()) {
            work_.take();
            tiles_.emplace(work_.code_, work_.scalars_, work_.storage_, work_.watches_copies_);
            if (work_.without_values_) tiles_->without_values(*work_.without_values_);
        }
        if (!tiles_ || tiles_->done()) stop();
        return;
    }
    while (batch_->done() && work_.left()) {
        const uint64_t workgroup = work_.take();
        if (!took_) ++work_.workers_;
        took_ = true;
        if (watch_) watch_->begin(workgroup);
        batch_->begin(place_of(workgroup, work_.grid_));
    }
    if (batch_->done()) stop();
}

void LaunchWorker::stop() {
    if (done_) return;
    done_ = true;
    if (LaunchProbe* const probe = LaunchProbe::current()) probe->ended(*this);
    if (tiles_)
        work_.copy_races_.insert(work_.copy_races_.end(), tiles_->races().begin(), tiles_->races().end());
    if (!memory_) return;
    const std::vector<OutsideAccess> outside = memory_->outside();
    work_.outside_.insert(work_.outside_.end(), outside.begin(), outside.end());
}

void LaunchWorker::step() {
    work_.steps_ += active();
    LaunchProbe* const probe = LaunchProbe::current();
    if (probe == nullptr) return execute();
    probe->before_statement(*this);
    try {
        execute();
    } catch (const SimulationError& error) {
        probe->failed(*this, error.what());
        throw;
    }
}

void LaunchWorker::execute() {
    if (tiles_) {
        tiles_->step();
        if (tiles_->done()) stop();
        return;
    }
    batch_->step();
    if (batch_->done()) begin_next();
}

LaunchResult run_launch(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars,
                        const std::vector<Bytes>& storage, const LaunchLimits& limits) {
    const FloatEnvironment environment;
    LaunchWork work(code, grid, scalars, storage, limits.races);
    if (limits.order_seed != 0) work.shuffle(limits.order_seed);
    LaunchWorker worker(work);
    if (limits.observer != nullptr) worker.observe(*limits.observer);
    uint64_t left = limits.steps;
    bool complete = true;
    while (!worker.done()) {
        const uint64_t active = worker.active();
        complete = active <= left && !limits.interrupted();
        if (!complete) break;
        left -= active;
        worker.step();
    }
    worker.stop();
    LaunchResult result = work.result();
    result.complete = complete;
    return result;
}

LaunchResult run_reference(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars,
                           const std::vector<Bytes>& storage, const LaunchLimits& limits) {
    if (code.tiles != nullptr) return run_launch(code, grid, scalars, storage, limits);
    check(code, grid, scalars);
    const FloatEnvironment environment;
    Memory memory(code, storage);
    clear_outputs(code, storage);
    LaunchResult result;
    uint64_t steps = limits.steps;
    const uint64_t workgroups = grid[0] * grid[1] * grid[2];
    for (uint64_t number = 0; number < workgroups && result.complete; ++number)
        result.complete =
            !limits.interrupted() && run_workgroup(code, memory, place_of(number, grid), scalars, steps);
    result.steps = limits.steps - steps;
    result.grid = grid;
    result.outside = memory.outside();
    return result;
}

}  // namespace kpu::values::kernel
