#include "runtime/simulation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "isa/bound_module.hpp"
#include "isa/iterations.hpp"
#include "isa/verify.hpp"
#include "platforms/area.hpp"
#include "runtime/driver.hpp"
#include "runtime/host_tensors.hpp"
#include "runtime/out_of_range.hpp"
#include "runtime/throughput.hpp"
#include "traces/event_log.hpp"
#include "values/compute.hpp"
#include "values/memory_image.hpp"

namespace kpu::runtime {
namespace {

constexpr uint64_t progress_steps = 1'000'000;  ///< between two looks at the clock

/// Checks everything that must hold before anything is allocated.
BoundProgram verify_and_bind(const std::shared_ptr<const Module>& module, const DeviceLimits& limits,
                             const SimulationOptions& options, Diagnostics& diagnostics) {
    VerifyOptions verify_options;
    verify_options.strict = options.strict;
    verify_options.retarget = options.retarget;
    verify_options.params = options.params;
    std::optional<BoundProgram> program = verify(module, limits, verify_options, diagnostics);
    if (options.strict) diagnostics.promote_warnings();
    if (!program || diagnostics.has_errors()) throw UserError(diagnostics);
    return std::move(*program);
}

std::shared_ptr<const DeviceLimits> limits_for(const Module& module, const platforms::Platform* platform,
                                               Mode mode) {
    if (platform != nullptr) return platforms::shared_limits_of(*platform);
    if (mode != Mode::functional) {
        throw UserError(
            fmt::format("{}: no platform is known, so there is no time to model. Fix: give --platform NAME "
                        "(see `kpusim list platforms`), a device directive, or --mode functional.",
                        module.origin.empty() ? "program" : module.origin));
    }
    return std::make_shared<const DeviceLimits>(platforms::agnostic_limits());
}

void add_precisions(std::vector<traces::OpRow>& ops, const KPUProgram& program) {
    std::map<std::string_view, std::string_view> known;
    for (const proto::Op& op : program.op()) {
        for (const proto::OpAttribute& attribute : op.attribute()) {
            if (attribute.name() == "precision") known.emplace(op.id(), attribute.s());
        }
    }
    for (traces::OpRow& row : ops) {
        if (const auto found = known.find(row.id); found != known.end()) row.precision = found->second;
    }
}

/// Adds rows of operations whose work another does; each points there: whoever looks for a node finds it.
void add_fused_rows(std::vector<traces::OpRow>& ops, const KPUProgram& program) {
    // many programs have many rows, and nothing that was fused
    const auto fuses = [](const proto::Op& op) { return op.fused_with_size() > 0; };
    if (std::none_of(program.op().begin(), program.op().end(), fuses)) return;
    std::set<std::string> known;
    std::map<std::string, const proto::Op*> by_id;
    for (const traces::OpRow& row : ops) known.insert(row.id);
    for (const proto::Op& op : program.op()) by_id.emplace(op.id(), &op);
    std::vector<traces::OpRow> all;
    for (traces::OpRow& row : ops) {
        const auto found = by_id.find(row.id);
        const bool modelled = row.energy_modelled, timed = row.timed;
        all.push_back(std::move(row));
        if (found == by_id.end()) continue;
        const proto::Op& op = *found->second;
        for (int i = 0; i < op.fused_with_size(); ++i) {
            if (!known.insert(op.fused_with(i)).second) continue;
            traces::OpRow fused;
            fused.id = op.fused_with(i);
            if (i < op.fused_type_size()) fused.type = op.fused_type(i);
            fused.energy_modelled = modelled;
            fused.timed = timed;
            fused.fused_into = op.id();
            all.push_back(std::move(fused));
        }
    }
    ops = std::move(all);
}

/// Refuses kernels whose control flow or addresses depend on values that the run does not have: their time is
/// unknown.
void refuse_unknown_time(const BoundProgram& program) {
    for (const BoundTask& task : program.tasks) {
        if (!task.launches()) continue;
        if (const auto statement = kernel::first_data_dependence(*task.launch->code))
            throw UserError(fmt::format(
                "task `{}`{}: {} depends on data, so its time is not known without values. Fix: run "
                "with --mode values+timing.",
                task.name, place_text(program, task), task.launch->code->where(*statement)));
    }
}

[[noreturn]] void no_values() {
    throw UserError("timing mode has no values. Fix: run with mode values+timing or functional.");
}

}  // namespace

struct Simulation::Impl {
    std::shared_ptr<const Module> module;
    SimulationOptions options;
    std::optional<platforms::Platform> platform;
    std::optional<traces::EnergyPrices> prices;  ///< prices of the platform, once it is asked for them
    std::shared_ptr<const DeviceLimits> limits;
    Diagnostics diagnostics;
    BoundProgram program;
    HostTensors host;
    std::unique_ptr<values::MemoryImage> memory;
    std::unique_ptr<values::ComputeBackend> backend;
    std::unique_ptr<traces::EventLog> log;
    std::unique_ptr<Driver> driver;  ///< between the first step and the next reset
    RunStatus status = RunStatus::paused;
    bool closed = false;  ///< statistics are complete: the run cannot go on
    std::shared_ptr<traces::StatSet> stats = std::make_shared<traces::StatSet>();
    std::optional<std::vector<traces::OpRow>> ops;  ///< once they are asked for: long programs have many

    Impl(std::shared_ptr<const Module> module_in, const platforms::Platform* platform_in,
         SimulationOptions options_in)
        : module(std::move(module_in)),
          options(std::move(options_in)),
          limits(limits_for(*module, platform_in, options.mode)),
          program(verify_and_bind(module, *limits, options, diagnostics)),
          host(program) {
        if (options.sheds_text) shed_text(program, module);
        if (platform_in != nullptr) platform = *platform_in;
        if (options.mode == Mode::timing) {
            refuse_unknown_time(program);
            return;
        }
        memory = std::make_unique<values::MemoryImage>(program.ddr_bytes, program.l2_bytes, program.l1_bytes);
        backend = options.reference_values ? values::make_reference_backend() : values::make_fast_backend();
    }

    /// Returns the engine; null in timing mode.
    values::ComputeBackend* engine() const {
        return backend && options.backend != nullptr ? options.backend : backend.get();
    }
    /// Returns memory as a host sees it: with the inputs' bytes that no task reaches; of one buffer, or of
    /// all.
    values::MemoryImage& whole_memory(std::optional<uint32_t> buffer = std::nullopt) {
        host.place_rest(*memory, buffer);
        return *memory;
    }

    const traces::EnergyPrices& energy_prices() {
        if (prices) return *prices;
        prices = platforms::energy_prices(*platform);
        if (options.bin_ns > 0) prices->trace_bin_ns = options.bin_ns;
        traces::check_bin(prices->trace_bin_ns, platforms::core_clock(*platform));
        return *prices;
    }

    Driver& start() {
        if (driver) return *driver;
        if (memory) host.place(*memory);
        if (options.record_events && options.observer != nullptr)
            throw InternalError("events are kept or observed, not both");
        if (options.record_events) log = std::make_unique<traces::EventLog>();
        DriverParts parts{program, *limits, platform};
        parts.memory = memory.get();
        parts.backend = engine();
        parts.sink = log ? log.get() : options.observer;
        if (options.mode == Mode::functional) {
            driver = make_functional_driver(parts, options);
        } else {
            parts.prices = &energy_prices();
            driver = make_timed_driver(parts, options);
        }
        return *driver;
    }

    void reset() {
        driver.reset();
        log.reset();
        status = RunStatus::paused;
        closed = false;
        stats = std::make_shared<traces::StatSet>();  // the last one may be someone's
        ops.reset();
        if (memory) memory->reset();
    }

    /// Makes the driver ready to go on: a run that ended starts again.
    Driver& resume() {
        if (closed || status != RunStatus::paused) reset();
        return start();
    }

    /// Ends the run here and completes its statistics.
    void close() {
        if (closed) return;
        start().finish(*stats);
        if (const auto range = out_of_range()) range->fill_in(*stats);
        add_throughput(*stats, program, *driver);
        closed = true;
    }

    std::vector<traces::OpRow>& op_rows() {
        close();
        if (ops) return *ops;
        ops = driver->op_rows();
        if (const auto range = out_of_range()) range->fill_in(*ops);
        add_fused_rows(*ops, module->program);
        add_precisions(*ops, module->program);
        return *ops;
    }

    /// Returns nothing where no engine of ours computes.
    std::optional<OutOfRange> out_of_range() const {
        if (!driver || !backend || options.backend != nullptr) return {};
        return OutOfRange(program, driver->results(), host.out_of_range());
    }

    Cycles now() const { return driver ? driver->now() : 0; }
    uint64_t completed() const { return driver ? driver->completed() : 0; }

    RunStatus run(const std::atomic<bool>* interrupt, const Progress& progress) {
        Driver& running = resume();
        if (!progress) return status = running.advance(Driver::no_end, interrupt);
        do {
            status = running.advance(progress_steps, interrupt);
            progress(now(), completed());
        } while (status == RunStatus::paused);
        return status;
    }

    const execution::HazardLog& hazards() const {
        static const execution::HazardLog none;
        return driver ? driver->hazards() : none;
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
    return impl_->driver ? impl_->driver->findings() : Diagnostics();
}

Diagnostics Simulation::value_findings() const {
    Diagnostics found;
    if (!impl_->driver) return found;
    const auto range = impl_->out_of_range();
    if (const std::string warning = range ? range->warning() : std::string(); !warning.empty())
        found.warning({}, warning);
    if (!impl_->memory || impl_->status != RunStatus::finished) return found;
    const Diagnostics cut = integers_cut(impl_->program, *impl_->memory);
    for (const Diagnostic& finding : cut.all()) found.add(finding);
    const Diagnostics numbers = numbers_not_finite(impl_->program, *impl_->memory);
    if (numbers.all().empty() || !impl_->host.finite()) return found;
    for (const Diagnostic& finding : numbers.all()) found.add(finding);
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
void Simulation::check_input(std::string_view name, const NpyArray& array, const std::string& origin) const {
    impl_->host.check(name, array, origin);
}
void Simulation::fill_inputs_zero() { impl_->host.fill_zero(); }
void Simulation::fill_inputs_random(uint64_t seed) { impl_->host.fill_random(seed); }
std::vector<std::string> Simulation::missing_inputs() const { return impl_->host.missing(); }

RunStatus Simulation::run(const std::atomic<bool>* interrupt, const Progress& progress) {
    return impl_->run(interrupt, progress);
}

RunStatus Simulation::step(Cycles cycles, const std::atomic<bool>* interrupt) {
    return impl_->status = impl_->resume().advance(cycles, interrupt);
}

RunStatus Simulation::step_task(Completion* completed, const std::atomic<bool>* interrupt, Cycles most) {
    Driver& driver = impl_->resume();
    const uint64_t before = driver.completed();
    impl_->status = driver.advance_task(most, interrupt);
    if (completed != nullptr)
        *completed = driver.completed() > before ? driver.last_completion() : Completion{};
    return impl_->status;
}

void Simulation::pause() {
    if (impl_->driver) impl_->driver->pause();
}

void Simulation::reset() { impl_->reset(); }
RunStatus Simulation::status() const { return impl_->status; }
bool Simulation::complete() const { return impl_->status == RunStatus::finished; }
Cycles Simulation::now() const { return impl_->now(); }

State Simulation::state() const {
    State state;
    state.ddr_bytes = impl_->program.ddr_bytes;
    state.l2_bytes = impl_->program.l2_bytes;
    state.l1_bytes = impl_->program.l1_bytes;
    state.cycle = impl_->now();
    state.completed = impl_->completed();
    if (impl_->driver) impl_->driver->describe(state);
    return state;
}

std::string Simulation::deadlock_report() const {
    return impl_->driver ? impl_->driver->deadlock_report() : "";
}

NpyArray Simulation::output(std::string_view name) const {
    if (!impl_->memory) no_values();
    for (const auto& spec : impl_->program.outputs) {
        if (spec.name == name) return read_tensor(impl_->program, spec, impl_->whole_memory(spec.buffer));
    }
    std::vector<std::string> names;
    for (const auto& spec : impl_->program.outputs) names.push_back(spec.name);
    throw UserError(fmt::format("`{}` is not an output of the program. Fix: name one of: {}.", name,
                                fmt::join(names, ", ")));
}

NpyArray Simulation::read(std::string_view name) const {
    if (!impl_->memory) no_values();
    for (const TensorSpec& spec : stored_tensors(impl_->program)) {
        if (spec.name == name) return read_tensor(impl_->program, spec, impl_->whole_memory(spec.buffer));
    }
    throw UserError(fmt::format("`{}` is not a tensor or buffer of the program. Fix: name one of: {}.", name,
                                fmt::join(stored_names(), ", ")));
}

std::vector<std::string> Simulation::stored_names() const {
    std::vector<std::string> names;
    for (const TensorSpec& spec : stored_tensors(impl_->program)) names.push_back(spec.name);
    return names;
}

uint64_t Simulation::completions(uint32_t statement) const {
    return impl_->driver ? impl_->driver->completions(statement) : 0;
}

void Simulation::place_inputs() { impl_->start(); }

std::vector<uint8_t> Simulation::read_bytes(Level level, unsigned engine, uint64_t address,
                                            uint64_t count) const {
    impl_->check_range(level, engine, address, count);
    const uint8_t* begin = impl_->whole_memory().level(level, engine).data() + address;
    return {begin, begin + count};
}

void Simulation::write_bytes(Level level, unsigned engine, uint64_t address,
                             const std::vector<uint8_t>& bytes) {
    impl_->check_range(level, engine, address, bytes.size());
    impl_->start();
    impl_->whole_memory().level(level, engine).write(address, bytes.data(), bytes.size());
}

NpyArray Simulation::read_region(std::string_view name, const std::vector<int64_t>& loop_values) const {
    const auto view = impl_->view_of(name, loop_values);
    return read_view(impl_->whole_memory(), view);
}

void Simulation::write_region(std::string_view name, const NpyArray& array,
                              const std::vector<int64_t>& loop_values) {
    impl_->start();
    const auto view = impl_->view_of(name, loop_values);
    write_view(impl_->whole_memory(), view, array, "array");
}

std::shared_ptr<const traces::StatSet> Simulation::shared_stats() {
    impl_->close();
    return impl_->stats;
}

const traces::StatSet& Simulation::stats() {
    impl_->close();
    return *impl_->stats;
}

const std::vector<traces::OpRow>& Simulation::op_rows() { return impl_->op_rows(); }

void Simulation::prepare() { impl_->resume(); }

std::vector<traces::OpRow> Simulation::take_op_rows() {
    std::vector<traces::OpRow> rows = std::move(impl_->op_rows());
    impl_->ops.reset();
    return rows;
}

std::vector<traces::KernelRow> Simulation::kernel_rows() {
    impl_->close();
    return impl_->driver ? impl_->driver->kernel_rows() : std::vector<traces::KernelRow>{};
}

const execution::HazardLog& Simulation::hazards() const { return impl_->hazards(); }

std::vector<traces::UnitInfo> Simulation::units() const {
    return impl_->driver ? impl_->driver->units() : std::vector<traces::UnitInfo>{};
}

std::string_view Simulation::mode_name() const {
    static constexpr std::string_view modes[] = {"values+timing", "timing", "functional"};
    return modes[static_cast<size_t>(impl_->options.mode)];
}

traces::EnergyPrices Simulation::energy_prices() const {
    return impl_->platform ? impl_->energy_prices() : traces::EnergyPrices{};
}

traces::RunInfo Simulation::run_info() {
    impl_->close();
    auto info = traces::describe(impl_->program);
    info.program = impl_->program.name;
    info.mode = mode_name();
    info.complete = impl_->status == RunStatus::finished;
    if (impl_->platform) {
        info.platform = impl_->platform->name();
        info.core_hz = platforms::core_clock(*impl_->platform).hz();
        info.prices = energy_prices();
        if (info.prices.not_modelled.empty())
            info.prices.corners = platforms::energy_corners(*impl_->platform);
        info.bin_ns = info.prices.trace_bin_ns;
        const proto::Ddr& ddr = impl_->platform->ddr();
        if (ddr.fidelity() == "burst")
            info.dram_posted_bytes = uint64_t{ddr.channels()} * ddr.controller().write_queue() *
                                     platforms::ddr_device(*impl_->platform).burst_bytes();
        info.dispatch_cycles = impl_->platform->sequencer().dispatch_cycles();
        info.dram_burst_bytes = platforms::ddr_device(*impl_->platform).burst_bytes();
        info.dram_interleave_bytes = impl_->platform->ddr().channel_interleave_bytes();
    }
    info.accesses = impl_->log && impl_->options.record_accesses;
    if (info.accesses && impl_->platform && impl_->platform->ddr().fidelity() == "burst") {
        const proto::DdrDevice device = platforms::ddr_device(*impl_->platform);
        info.dram_banks = impl_->platform->ddr().ranks() * device.bank_groups() * device.banks_per_group();
    }
    impl_->driver->describe(info);
    if (impl_->platform) platforms::set_areas(*impl_->platform, info.prices.node_nm, info.units);
    return info;
}

traces::Recording Simulation::take_recording() {
    traces::Recording recording{run_info(), {}};
    if (impl_->log) recording.events = impl_->log->take_sorted();
    return recording;
}

}  // namespace kpu::runtime
