#include "runtime/simulation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "execution/functional.hpp"
#include "isa/iterations.hpp"
#include "isa/verify.hpp"
#include "model/device/device.hpp"
#include "runtime/functional_estimate.hpp"
#include "runtime/host_tensors.hpp"
#include "traces/event_log.hpp"
#include "values/compute.hpp"
#include "values/memory_image.hpp"

namespace kpu::runtime {
namespace {

constexpr Cycles progress_cycles = 1'000'000;  ///< between two looks at the clock

/// Everything that must hold before anything is allocated.
BoundProgram verify_and_bind(const std::shared_ptr<const Module>& module, const DeviceLimits& limits,
                             const SimulationOptions& options, Diagnostics& diagnostics) {
    VerifyOptions verify_options;
    verify_options.strict = options.strict;
    verify_options.params = options.params;
    std::optional<BoundProgram> program = verify(module, limits, verify_options, diagnostics);
    if (options.strict) diagnostics.promote_warnings();
    if (!program || diagnostics.has_errors()) throw UserError(diagnostics);
    return std::move(*program);
}

DeviceLimits limits_for(const Module& module, const platforms::Platform* platform, Mode mode) {
    if (platform != nullptr) return platforms::limits_of(*platform);
    if (mode != Mode::functional) {
        throw UserError(
            fmt::format("{}: no platform is known, so there is no time to model. Fix: give --platform NAME "
                        "(see `kpusim list platforms`), a device directive, or --mode functional.",
                        module.origin.empty() ? "program" : module.origin));
    }
    return platforms::agnostic_limits();
}

[[noreturn]] void no_values() {
    throw UserError("timing mode has no values. Fix: run with mode values+timing or functional.");
}

std::string_view name_of_state(execution::TaskState state) {
    static constexpr std::string_view names[] = {"waiting", "ready", "running", "complete"};
    return names[static_cast<size_t>(state)];
}

}  // namespace

RunStatus run_status(execution::FunctionalStatus status) {
    switch (status) {
        case execution::FunctionalStatus::finished:
            return RunStatus::finished;
        case execution::FunctionalStatus::paused:
            return RunStatus::paused;
        case execution::FunctionalStatus::deadlock:
            return RunStatus::deadlock;
        case execution::FunctionalStatus::limit_reached:
            return RunStatus::limit_reached;
        case execution::FunctionalStatus::interrupted:
            return RunStatus::interrupted;
    }
    throw InternalError("a functional run ended in no known way");
}

std::string iteration_suffix(const BoundProgram& program, const execution::TaskInstance& task) {
    const std::string iteration = execution::iteration_text(program, task);
    return iteration.empty() ? "" : " (" + iteration + ")";
}

/// The functional driver's live tasks; none is running, since it runs each at once.
std::vector<TaskStatus> live_tasks(const BoundProgram& program, const execution::Controller& controller) {
    std::vector<TaskStatus> tasks;
    for (const auto* task : controller.live()) {
        std::vector<uint32_t> missing;
        for (const uint32_t serial : task->producers) {
            if (controller.find(serial) != nullptr) missing.push_back(serial);
        }
        tasks.push_back({task->serial, task->statement, task->task->name + iteration_suffix(program, *task),
                         std::string(name_of_state(task->state)), std::move(missing)});
    }
    return tasks;
}

struct Simulation::Impl {
    std::shared_ptr<const Module> module;
    SimulationOptions options;
    std::optional<platforms::Platform> platform;
    DeviceLimits limits;
    Diagnostics diagnostics;
    BoundProgram program;
    HostTensors host;
    std::unique_ptr<values::MemoryImage> memory;
    std::unique_ptr<values::ComputeBackend> backend;
    std::unique_ptr<traces::EventLog> log;
    // Exactly one of the two exists between the first step and the next reset.
    std::unique_ptr<model::Device> device;
    std::unique_ptr<execution::FunctionalDriver> functional;
    RunStatus status = RunStatus::paused;
    bool closed = false;  ///< statistics are complete: the run cannot go on
    traces::StatSet stats;
    std::vector<traces::OpRow> ops;

    Impl(std::shared_ptr<const Module> module_in, const platforms::Platform* platform_in,
         SimulationOptions options_in)
        : module(std::move(module_in)),
          options(std::move(options_in)),
          limits(limits_for(*module, platform_in, options.mode)),
          program(verify_and_bind(module, limits, options, diagnostics)),
          host(program) {
        if (platform_in != nullptr) platform = *platform_in;
        if (options.mode == Mode::timing) return;
        memory = std::make_unique<values::MemoryImage>(program.ddr_bytes, program.l2_bytes, program.l1_bytes);
        backend = options.reference_values ? values::make_reference_backend() : values::make_fast_backend();
    }

    /// Null in timing mode.
    values::ComputeBackend* engine() const {
        return backend && options.backend != nullptr ? options.backend : backend.get();
    }
    bool started() const { return device || functional; }

    void start() {
        if (started()) return;
        if (memory) host.place(*memory);
        if (options.mode == Mode::functional) {
            execution::FunctionalOptions functional_options;
            functional_options.random_order = options.random_order;
            functional_options.seed = options.seed;
            functional_options.num_engines = limits.num_engines;
            functional_options.report_hazards = options.hazards;
            functional = std::make_unique<execution::FunctionalDriver>(program, *memory, *engine(),
                                                                       functional_options);
            return;
        }
        if (options.record_events && options.observer != nullptr)
            throw InternalError("events are kept or observed, not both");
        if (options.record_events) log = std::make_unique<traces::EventLog>();
        model::DeviceOptions device_options;
        device_options.oracle_stepper = options.oracle_stepper;
        device_options.sink = log ? log.get() : options.observer;
        device_options.accesses = options.record_accesses;
        device_options.backend = engine();
        device_options.hazards = options.hazards;
        device = std::make_unique<model::Device>(*platform, program, memory.get(), device_options);
    }

    void reset() {
        device.reset();
        functional.reset();
        log.reset();
        if (memory) memory->reset();
        status = RunStatus::paused;
        closed = false;
        stats = {};
        ops.clear();
    }

    /// Ends the run here and completes its statistics.
    void close() {
        if (closed) return;
        start();
        closed = true;
        if (functional) {
            functional_stats(program, *functional, platform, stats);
            return;
        }
        device->finish(stats);
        ops = device->op_rows();
    }

    Cycles now() const {
        if (device) return device->now();
        return functional ? estimate_cycles(program, *functional, platform) : 0;
    }

    /// To `until`, never past the limit of the run.
    RunStatus advance(Cycles until, bool stop_at_task, const std::atomic<bool>* interrupt) {
        using Stop = model::Device::Stop;
        if (closed || status != RunStatus::paused) reset();
        start();
        if (functional) return status = run_status(functional->run(until, interrupt));
        const Cycles end = std::min(until, options.max_cycles);
        const Stop stop = device->run(end, stop_at_task, interrupt);
        switch (stop) {
            case Stop::finished:
                return status = RunStatus::finished;
            case Stop::deadlock:
                return status = RunStatus::deadlock;
            case Stop::interrupted:
                return status = RunStatus::interrupted;
            case Stop::cycle_limit:
                return status =
                           device->now() >= options.max_cycles ? RunStatus::limit_reached : RunStatus::paused;
            case Stop::task_completed:
                break;
        }
        return status = RunStatus::paused;
    }

    RunStatus run(const std::atomic<bool>* interrupt, const Progress& progress) {
        if (closed || status != RunStatus::paused) reset();
        if (!progress) return advance(UINT64_MAX, false, interrupt);
        start();
        RunStatus result = RunStatus::paused;
        do {
            const Cycles until = functional ? progress_cycles : now() + progress_cycles;
            result = advance(until, false, interrupt);
            progress(now(), completed());
        } while (result == RunStatus::paused);
        return result;
    }

    const execution::HazardLog& hazards() const {
        static const execution::HazardLog none;
        if (functional) return functional->hazards();
        const auto* found = device ? device->hazards() : nullptr;
        return found != nullptr ? *found : none;
    }

    uint64_t completed() const {
        if (functional) return functional->completed();
        return device ? device->state().completed : 0;
    }

    /// After at least one.
    Completion last_completion() const {
        const auto describe = [&](const auto& last) {
            return Completion{last.serial, last.statement,
                              program.tasks[program.statements[last.statement].index].name,
                              kpu::iteration_text(program, last.statement, last.loops), ""};
        };
        if (functional) return describe(functional->last_completed());
        const auto last = device->last_completed();
        Completion completion = describe(last);
        if (last.unit != traces::no_unit) completion.unit = device->units()[last.unit].name;
        return completion;
    }

    const BoundRegion& region_named(std::string_view name) const {
        std::vector<std::string_view> names;
        for (const auto& region : program.regions) {
            if (region.name == name && !name.empty()) return region;
            names.push_back(region.name);
        }
        throw UserError(
            fmt::format("the program has no region `{}`. Fix: name one of its `let` regions.", name));
    }

    values::RegionView view_of(std::string_view name, const std::vector<int64_t>& loop_values) const {
        const BoundRegion& region = region_named(name);
        LoopValues loops;
        for (const int64_t value : loop_values) loops.push(value);
        for (size_t i = 0; i < region.address.kinds.size(); ++i) {
            if (region.address.kinds[i] == proto::ExprToken::LOOP &&
                region.address.values[i] >= static_cast<int64_t>(loop_values.size())) {
                throw UserError(
                    fmt::format("region `{}` moves with {} loop variables, {} values were given. Fix: give "
                                "one value per loop, outermost first.",
                                name, region.address.values[i] + 1, loop_values.size()));
            }
        }
        const auto address = region.address.eval(loops);
        const values::RegionView view{&region, static_cast<uint64_t>(address)};
        check_range(region.level, region.engine, view.address, region.extent);
        if (!region.typed()) {
            throw UserError(fmt::format("region `{}` has no element type. Fix: read its bytes.", name));
        }
        return view;
    }

    void check_range(Level level, unsigned engine, uint64_t address, uint64_t count) const {
        if (!memory) no_values();
        if (level == Level::l1 && engine >= program.l1_bytes.size()) {
            throw UserError(fmt::format("there is no engine {}. Fix: engines are 0 to {}.", engine,
                                        program.l1_bytes.size() - 1));
        }
        const uint64_t size = level == Level::ddr  ? program.ddr_bytes
                              : level == Level::l2 ? program.l2_bytes
                                                   : program.l1_bytes[engine];
        if (address > size || count > size - address) {
            throw UserError(fmt::format(
                "bytes {} to {} are outside the {} bytes that the program has in {}. Fix: stay inside.",
                address, address + count, size, name_of(level)));
        }
    }
};

Simulation::Simulation(std::shared_ptr<const Module> module, const platforms::Platform* platform,
                       SimulationOptions options)
    : impl_(std::make_unique<Impl>(std::move(module), platform, std::move(options))) {}
Simulation::~Simulation() = default;
Simulation::Simulation(Simulation&&) noexcept = default;
Simulation& Simulation::operator=(Simulation&&) noexcept = default;

Diagnostics Simulation::run_findings() const {
    Diagnostics found;
    const uint32_t entries = impl_->limits.max_active_tokens;
    if (!impl_->functional || entries == 0) return found;
    const std::vector<uint32_t>& peaks = impl_->functional->peak_tokens();
    for (size_t engine = 0; engine < peaks.size(); ++engine) {
        if (peaks[engine] <= entries) continue;
        found.warning(
            {impl_->module->origin, 0, 0},
            fmt::format("engine {} had {} tasks in flight, but `{}` has max_active_tokens = {}: with timing "
                        "issue stalls there. Fix: narrow @max_in_flight, or accept the stalls.",
                        engine, peaks[engine], impl_->limits.name, entries));
    }
    return found;
}

const Diagnostics& Simulation::diagnostics() const { return impl_->diagnostics; }
const BoundProgram& Simulation::program() const { return impl_->program; }
const SimulationOptions& Simulation::options() const { return impl_->options; }
const platforms::Platform* Simulation::platform() const {
    return impl_->platform ? &*impl_->platform : nullptr;
}
const std::vector<TensorSpec>& Simulation::input_specs() const { return impl_->program.inputs; }
const std::vector<TensorSpec>& Simulation::output_specs() const { return impl_->program.outputs; }

void Simulation::set_input(std::string_view name, const NpyArray& array, const std::string& origin) {
    impl_->host.set(name, array, origin);
}
void Simulation::fill_inputs_zero() { impl_->host.fill_zero(); }
void Simulation::fill_inputs_random(uint64_t seed) { impl_->host.fill_random(seed); }
std::vector<std::string> Simulation::missing_inputs() const { return impl_->host.missing(); }

RunStatus Simulation::run(const std::atomic<bool>* interrupt, const Progress& progress) {
    return impl_->run(interrupt, progress);
}

RunStatus Simulation::step(Cycles cycles, const std::atomic<bool>* interrupt) {
    if (impl_->functional || impl_->options.mode == Mode::functional)
        return impl_->advance(cycles, false, interrupt);
    const bool again = impl_->closed || impl_->status != RunStatus::paused;
    return impl_->advance((again ? 0 : impl_->now()) + cycles, false, interrupt);
}

RunStatus Simulation::step_task(Completion* completed, const std::atomic<bool>* interrupt) {
    const bool again = impl_->closed || impl_->status != RunStatus::paused;
    const uint64_t before = again ? 0 : impl_->completed();
    const RunStatus status =
        impl_->advance(impl_->options.mode == Mode::functional ? 1 : UINT64_MAX, true, interrupt);
    if (completed == nullptr) return status;
    *completed = {};
    if (impl_->completed() > before) *completed = impl_->last_completion();
    return status;
}

void Simulation::reset() { impl_->reset(); }
RunStatus Simulation::status() const { return impl_->status; }
bool Simulation::complete() const {
    return impl_->status == RunStatus::finished && !(impl_->options.strict && hazards().count() > 0);
}
Cycles Simulation::now() const { return impl_->now(); }

State Simulation::state() const {
    State state;
    state.ddr_bytes = impl_->program.ddr_bytes;
    state.l2_bytes = impl_->program.l2_bytes;
    state.l1_bytes = impl_->program.l1_bytes;
    state.cycle = impl_->now();
    state.completed = impl_->completed();
    if (impl_->functional) state.tasks = live_tasks(impl_->program, impl_->functional->controller());
    if (!impl_->device) return state;
    const auto device_state = impl_->device->state();
    const auto& units = impl_->device->units();
    for (const auto& unit : device_state.units) {
        state.units.push_back({units[unit.unit].name, std::string(traces::full_name_of(unit.cause))});
    }
    for (const auto& task : device_state.tasks) {
        state.tasks.push_back(
            {task.serial, task.statement, task.name, std::string(name_of_state(task.state)), task.missing});
    }
    return state;
}

std::string Simulation::deadlock_report() const {
    if (impl_->functional) return impl_->functional->controller().explain_block();
    return impl_->device ? impl_->device->explain_deadlock() : "";
}

NpyArray Simulation::output(std::string_view name) const {
    if (!impl_->memory) no_values();
    for (const auto& spec : impl_->program.outputs) {
        if (spec.name == name) return read_tensor(impl_->program, spec, *impl_->memory);
    }
    std::vector<std::string> names;
    for (const auto& spec : impl_->program.outputs) names.push_back(spec.name);
    throw UserError(fmt::format("`{}` is not an output of the program. Fix: name one of: {}.", name,
                                fmt::join(names, ", ")));
}

NpyArray Simulation::read(std::string_view name) const {
    if (!impl_->memory) no_values();
    for (const TensorSpec& spec : stored_tensors(impl_->program)) {
        if (spec.name == name) return read_tensor(impl_->program, spec, *impl_->memory);
    }
    throw UserError(fmt::format("`{}` is no tensor or buffer of the program. Fix: name one of: {}.", name,
                                fmt::join(stored_names(), ", ")));
}

std::vector<std::string> Simulation::stored_names() const {
    std::vector<std::string> names;
    for (const TensorSpec& spec : stored_tensors(impl_->program)) names.push_back(spec.name);
    return names;
}

uint64_t Simulation::completions(uint32_t statement) const {
    if (impl_->functional) return impl_->functional->executions()[impl_->program.statements[statement].index];
    return impl_->device ? impl_->device->completions(statement) : 0;
}

void Simulation::place_inputs() { impl_->start(); }

std::vector<uint8_t> Simulation::read_bytes(Level level, unsigned engine, uint64_t address,
                                            uint64_t count) const {
    impl_->check_range(level, engine, address, count);
    const uint8_t* begin = impl_->memory->level(level, engine).data() + address;
    return {begin, begin + count};
}

void Simulation::write_bytes(Level level, unsigned engine, uint64_t address,
                             const std::vector<uint8_t>& bytes) {
    impl_->check_range(level, engine, address, bytes.size());
    impl_->start();
    impl_->memory->level(level, engine).write(address, bytes.data(), bytes.size());
}

NpyArray Simulation::read_region(std::string_view name, const std::vector<int64_t>& loop_values) const {
    return read_view(*impl_->memory, impl_->view_of(name, loop_values));
}

void Simulation::write_region(std::string_view name, const NpyArray& array,
                              const std::vector<int64_t>& loop_values) {
    impl_->start();
    write_view(*impl_->memory, impl_->view_of(name, loop_values), array, "array");
}

const traces::StatSet& Simulation::stats() {
    impl_->close();
    return impl_->stats;
}

const std::vector<traces::OpRow>& Simulation::op_rows() {
    impl_->close();
    return impl_->ops;
}

const execution::HazardLog& Simulation::hazards() const { return impl_->hazards(); }

uint64_t Simulation::recorded() const { return impl_->log ? impl_->log->size() : 0; }

std::vector<traces::UnitInfo> Simulation::units() const {
    return impl_->device ? impl_->device->units() : std::vector<traces::UnitInfo>{};
}

traces::RunInfo Simulation::run_info() {
    impl_->close();
    auto info = traces::describe(impl_->program);
    info.program = impl_->program.name;
    static constexpr std::string_view modes[] = {"values+timing", "timing", "functional"};
    info.mode = modes[static_cast<size_t>(impl_->options.mode)];
    info.complete = impl_->status == RunStatus::finished;
    if (impl_->platform) {
        info.platform = impl_->platform->name();
        info.core_hz = platforms::core_clock(*impl_->platform).hz();
        info.prices = platforms::energy_prices(*impl_->platform);
        info.bin_ns = impl_->platform->energy().trace_bin_ns();
        const proto::Ddr& ddr = impl_->platform->ddr();
        if (ddr.fidelity() == "burst")
            info.dram_posted_bytes = uint64_t{ddr.channels()} * ddr.controller().write_queue() *
                                     platforms::ddr_device(*impl_->platform).burst_bytes();
        info.dispatch_cycles = impl_->platform->sequencer().dispatch_cycles();
        info.dram_burst_bytes = platforms::ddr_device(*impl_->platform).burst_bytes();
    }
    info.accesses = impl_->log && impl_->options.record_accesses;
    if (impl_->device) {
        info.units = impl_->device->units();
        info.works = impl_->device->works();
        info.total_cycles = impl_->device->now();
        info.end_ps = info.clock().edge(info.total_cycles);
    }
    return info;
}

traces::Recording Simulation::take_recording() {
    traces::Recording recording{run_info(), {}};
    if (impl_->log) recording.events = impl_->log->take_sorted();
    return recording;
}

}  // namespace kpu::runtime
