#include "model/device/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/diagnostics.hpp"
#include "model/device/device_impl.hpp"
#include "model/unit/unit_module.hpp"
#include "platforms/platform.hpp"

namespace kpu::model {

namespace {

/// The kernel is left this often to look for an interrupt.
constexpr Cycles slice_cycles = 1u << 24;

/// Values and hazards of a timed run. A task's bytes go through the memory socket of its unit.
class DataObserver : public TaskObserver {
  public:
    explicit DataObserver(execution::DataPath& data) : data_(data) {}
    void started(const TaskCommand& command) override {
        if (command.first()) data_.task_started(*command.task, command.memory);
    }
    void completed(const TaskCommand& command) override {
        if (command.last) data_.task_completed(*command.task, command.report.launch.get());
    }

  private:
    execution::DataPath& data_;
};

}  // namespace

Device::Impl::Impl(const proto::Platform& p, const BoundProgram& bound, values::MemoryImage* image,
                   const DeviceOptions& o)
    : platform(p),
      program(bound),
      options(o),
      core(platforms::core_clock(platform)),
      engines(platforms::engines_of(platform)),
      units(unit_table(platform)),
      memory(image) {
    if (options.backend != nullptr && memory == nullptr) throw InternalError("values need a memory image");
    const SimContext::Entry entry(context);
    ledger = std::make_unique<traces::EnergyLedger>(
        options.prices != nullptr ? *options.prices : platforms::energy_prices(platform), core,
        program.ops.size(), options.sink);
    board = std::make_unique<TaskBoard>(program, units);
    Accounting::Parts parts;
    parts.program = &program;
    parts.units = &units;
    parts.board = board.get();
    parts.core = core;
    parts.sink = options.sink;
    accounting = std::make_unique<Accounting>(parts);
    work = std::make_unique<WorkCounts>(program);
    energy = std::make_unique<EnergyBooking>(*ledger);
    kernels = std::make_unique<KernelProfile>(program);
    if (options.sink != nullptr) trace = std::make_unique<TaskTrace>(*options.sink, core, *board, units);
    // values first: what a task computes may fail
    if (options.backend != nullptr || options.hazards) {
        data = std::make_unique<execution::DataPath>(program, options.backend != nullptr ? memory : nullptr,
                                                     options.backend, options.hazards);
        data_observer = std::make_unique<DataObserver>(*data);
        observers.push_back(data_observer.get());
    }
    for (TaskObserver* observer :
         TaskObservers{accounting.get(), trace.get(), work.get(), energy.get(), kernels.get()})
        if (observer != nullptr) observers.push_back(observer);
    build();
    if (options.sink != nullptr)
        energy->attach(std::make_unique<EnergyPlaces>(units, interconnect->memory_system()));
    execution::ControlOptions control_options;
    control_options.max_active_tokens = platform.sequencer().max_active_tokens();
    control_options.num_engines = static_cast<uint32_t>(engines.size());
    controller = std::make_unique<execution::Controller>(program, control_options, *arbiter);
    std::vector<Sequencer*> commanding;
    for (const auto& sequencer : sequencers) commanding.push_back(sequencer.get());
    arbiter->attach(*controller, std::move(commanding));
    accounting->attach(*controller);
    if (trace) trace->attach(*controller);
}

Device::Impl::~Impl() {
    const SimContext::Entry entry(context);
    // events are cancelled with their modules, before the context goes
    sequencers.clear();
    task_units.clear();
    arbiter.reset();
    memories.clear();
    interconnect.reset();
}

template <class Initiator, class Target>
void Device::Impl::bind(Initiator& initiator, Target& target) {
    initiator.bind(target);
    bindings.emplace_back(initiator.name(), target.name());
}

/// Modules are made first and bound then, each in the platform's order unless a test asks for another.
void Device::Impl::build() {
    if (memory == nullptr) {
        // without values the memories hold an image that nothing touches
        own_memory = std::make_unique<values::MemoryImage>(program.ddr_bytes, program.l2_bytes,
                                                           std::vector<uint64_t>(engines.size(), 0));
        memory = own_memory.get();
    }
    Steps make, wire;
    add_task_units(make, wire);
    add_memories(make, wire);
    add_sequencers(make, wire);
    add_arbiter(make, wire);
    in_order(make);
    in_order(wire);
    if (options.sink != nullptr) trace_memories();
}

void Device::Impl::in_order(Steps& steps) const {
    if (options.construction_seed != 0) {
        std::mt19937_64 random(options.construction_seed);
        std::shuffle(steps.begin(), steps.end(), random);
    }
    for (const auto& step : steps) step();
}

void Device::Impl::add_memories(Steps& make, Steps& wire) {
    const auto add = [&](const std::string& name, Level level, unsigned engine, auto socket) {
        const size_t index = memories.size();
        memories.emplace_back();
        make.push_back([this, name, level, engine, index] {
            memories[index] = std::make_unique<MemoryTarget>(name.c_str(), memory->level(level, engine));
        });
        wire.push_back([this, index, socket] { bind(socket(*interconnect), memories[index]->socket); });
    };
    add(
        "l2", Level::l2, 0, [](Interconnect & i) -> auto& { return i.l2(); });
    for (unsigned k = 0; k < engines.size(); ++k)
        add(
            fmt::format("e{}_l1", k), Level::l1, k, [k](Interconnect & i) -> auto& { return i.l1(k); });
    for (unsigned c = 0; c < platform.ddr().channels(); ++c)
        add(
            fmt::format("ddr{}", c), Level::ddr, 0, [c](Interconnect & i) -> auto& { return i.ddr(c); });
}

void Device::Impl::add_task_units(Steps& make, Steps& wire) {
    task_units.resize(units.size());
    unsigned ports = 0;
    for (size_t u = 0; u < units.size(); ++u) {
        if (!executes_tasks(units[u].kind)) continue;
        const unsigned port = ports++;
        make.push_back([this, u] { task_units[u] = make_task_unit(static_cast<uint16_t>(u)); });
        wire.push_back([this, u, port] { bind(task_units[u]->stream.socket, interconnect->port(port)); });
    }
    make.insert(make.begin(), [this, ports] {
        const auto stepping =
            options.oracle_stepper ? Interconnect::Stepping::oracle : Interconnect::Stepping::fast;
        interconnect =
            std::make_unique<Interconnect>("interconnect", memory_config(platform), ports, stepping);
    });
}

std::unique_ptr<Unit> Device::Impl::make_task_unit(uint16_t unit) {
    UnitPlace place;
    place.unit = unit;
    place.core = core;
    place.program = &program;
    place.platform = &platform;
    place.errors = &errors;
    place.step_end = &step_end_;
    place.hazards = options.hazards && options.backend != nullptr;
    if (units[unit].engine >= 0) {
        place.engine = static_cast<uint16_t>(units[unit].engine);
        place.engine_platform = &engines[place.engine].get();
    } else {
        place.command_ports = static_cast<uint32_t>(engines.size());  // every sequencer may command it
    }
    return module_of(units[unit].kind).make(units[unit].name.c_str(), place);
}

void Device::Impl::add_sequencers(Steps& make, Steps& wire) {
    sequencers.resize(engines.size());
    for (size_t k = 0; k < engines.size(); ++k) {
        std::vector<CommandRoute> routes;
        for (size_t u = 0; u < units.size(); ++u) {
            if (!executes_tasks(units[u].kind)) continue;
            const bool system = units[u].engine < 0;
            if (!system && units[u].engine != static_cast<int>(k)) continue;
            const auto socket = static_cast<uint32_t>(routes.size());
            routes.push_back({static_cast<uint16_t>(u), socket, system ? static_cast<uint32_t>(k) : 0});
        }
        for (const CommandRoute& route : routes) {
            wire.push_back([this, k, route] {
                bind(sequencers[k]->command[route.socket], task_units[route.unit]->command[route.unit_port]);
            });
        }
        make.push_back([this, k, routes] {
            const std::string name = fmt::format("e{}_seq", k);
            sequencers[k] = std::make_unique<Sequencer>(name.c_str(), static_cast<uint32_t>(k), routes);
        });
        for (const CommandRoute& route : routes) {
            if (units[route.unit].engine < 0) continue;
            wire.push_back([this, k, route] {
                if (CommandInitiatorSocket* products = task_units[route.unit]->product_socket())
                    bind(*products, sequencers[k]->products);
            });
        }
    }
}

void Device::Impl::add_arbiter(Steps& make, Steps& wire) {
    make.push_back([this] {
        TaskArbiter::Parts parts;
        parts.units = &units;
        parts.core = core;
        parts.dispatch_cycles = platform.sequencer().dispatch_cycles();
        parts.launch_cycles = platform.sequencer().launch_cycles();
        parts.program = &program;
        parts.board = board.get();
        parts.observers = observers;
        parts.stop = &stop;
        parts.errors = &errors;
        for (const proto::Engine& engine : engines)
            parts.partner_bytes_per_cycle.push_back(engine.dma().bytes_per_cycle());
        for (size_t u = 0; u < units.size(); ++u) {
            if (row_of(units[u].kind).role == UnitRole::sequencer)
                parts.sequencer_units.push_back(static_cast<uint16_t>(u));
        }
        arbiter = std::make_unique<TaskArbiter>("arbiter", std::move(parts));
    });
    for (size_t k = 0; k < engines.size(); ++k)
        wire.push_back([this, k] { bind(sequencers[k]->arbiter, arbiter->requests); });
}

/// Returns unit ids, parallel to the resources of the memory system.
std::vector<uint16_t> Device::Impl::units_of_resources() const {
    std::vector<uint16_t> resource_units;
    for (size_t u = 0; u + 1 < units.size(); ++u) {
        if (carries_bytes(units[u].kind)) resource_units.push_back(static_cast<uint16_t>(u));
    }
    return resource_units;
}

void Device::Impl::trace_memories() {
    interconnect->trace_to(options.sink, units_of_resources());
    if (options.accesses) interconnect->trace_accesses_to(*options.sink, units_of_resources());
}

RunStatus Device::Impl::run(Cycles until_cycle, bool stop_at_task, const std::atomic<bool>* interrupt) {
    if (ended_) throw InternalError("a device that was finished does not run");
    if (stop.finished) return RunStatus::finished;
    if (data && !data->prepare(interrupt)) return RunStatus::interrupted;
    const SimContext::Entry entry(context);
    stop.at_task = stop_at_task;
    stop.interrupt = interrupt;
    stop.task_completed = stop.interrupted = stop.asked = false;
    for (;;) {
        const Cycles target = std::min(until_cycle, now_ + slice_cycles);
        // what happens at the edge of the limit still belongs to the step
        const Picoseconds end = core.edge(target) + 1;
        const Picoseconds begin = sc_core::sc_time_stamp().value();
        if (end > begin) {
            interconnect->set_step_end(core.edge(target));
            step_end_ = target;
            inside_ = true;
            sc_core::sc_start(sc_core::sc_time::from_value(end - begin), sc_core::SC_EXIT_ON_STARVATION);
            inside_ = false;
        }
        const bool paused = stop.finished || stop.task_completed || stop.interrupted || stop.asked;
        const bool starved = !paused && !sc_core::sc_pending_activity();
        // the kernel stays at its last event; the step goes on to its end
        now_ = paused || starved ? core.last_edge(sc_core::sc_time_stamp().value()) : target;
        if (errors.error) std::rethrow_exception(errors.error);
        if (stop.finished) return RunStatus::finished;
        if (stop.interrupted) return RunStatus::interrupted;
        if (stop.task_completed || stop.asked) return RunStatus::paused;
        if (interrupt != nullptr && interrupt->load(std::memory_order_relaxed)) return RunStatus::interrupted;
        if (starved) return RunStatus::deadlock;
        if (target >= until_cycle) return RunStatus::paused;
    }
}

Cycles Device::Impl::now() const { return inside_ ? core.last_edge(sc_core::sc_time_stamp().value()) : now_; }

void Device::Impl::pause() {
    stop.asked = true;
    sc_core::sc_pause();
}

std::string Device::Impl::task_name(const execution::TaskInstance& task) const {
    const std::string iteration = execution::iteration_text(program, task);
    return iteration.empty() ? task.task->name : fmt::format("{} ({})", task.task->name, iteration);
}

Device::State Device::Impl::state() const {
    State state;
    state.cycle = now();
    state.issued = controller->issued_count();
    state.completed = controller->completed_count();
    for (size_t u = 0; u + 1 < units.size(); ++u) {
        const Accounting::Now unit =
            accounting->state_of(static_cast<uint16_t>(u), now(), arbiter->running());
        state.units.push_back({static_cast<uint16_t>(u), unit.cause, unit.task});
    }
    for (const execution::TaskInstance* task : controller->live()) {
        TaskStatus status;
        status.serial = task->serial;
        status.statement = task->statement;
        status.name = task_name(*task);
        status.state = task->state;
        for (const TaskCommand* command : arbiter->running()) {
            if (command->serial == task->serial) status.unit = command->unit;
        }
        for (const uint32_t producer : task->producers) {
            if (controller->find(producer) != nullptr) status.missing.push_back(producer);
        }
        state.tasks.push_back(std::move(status));
    }
    return state;
}

std::vector<traces::TaskWork> Device::Impl::works() const {
    if (!trace) return {};
    const std::vector<uint16_t> resource_units = units_of_resources();
    std::vector<traces::TaskWork> done = trace->work_table().works();
    for (traces::TaskWork& task : done) {
        for (traces::StreamWork& stream_work : task.streams) {
            for (const RouteHop& hop : interconnect->memory_system().route(request_like(stream_work)))
                stream_work.hops.push_back({resource_units[hop.resource], hop.latency});
        }
    }
    return done;
}

void Device::Impl::finish(traces::StatSet& stats) {
    if (ended_) throw InternalError("a device is finished once");
    ended_ = true;
    const SimContext::Entry entry(context);
    for (TaskCommand* command : arbiter->running()) command->report.end = now_;
    for (TaskObserver* observer : observers) observer->finished(now_, arbiter->running());
    interconnect->finish(now_);
    count_statistics(stats);
    std::vector<uint64_t> busy(units.size(), 0);  // core cycles, by unit
    unit_statistics(stats, busy);
    array_statistics(stats);
    resource_statistics(stats, busy);
    busy_statistics(stats, busy);
    memory_statistics(stats);
    ledger->finish(now_, stats);
    energy_modelled_ = !stats.contains("energy.not_modelled");
}

std::vector<traces::OpRow> Device::Impl::op_rows() const {
    std::vector<traces::OpRow> rows = accounting->op_rows(*work);
    for (size_t i = 0; i + 1 < rows.size(); ++i) rows[i].energy_pj = ledger->op_pj(static_cast<uint32_t>(i));
    rows.back().energy_pj = ledger->background_pj();
    for (traces::OpRow& row : rows) {
        const bool background = &row == &rows.back();
        const double ps = double(core.edge(background ? now_ : row.span_cycles));
        row.power_w = ps > 0 ? row.energy_pj / ps : 0;
        row.energy_modelled = energy_modelled_;
    }
    return rows;
}

Device::Device(const proto::Platform& platform, const BoundProgram& program, values::MemoryImage* memory,
               const DeviceOptions& options)
    : impl_(std::make_unique<Impl>(platform, program, memory, options)) {}
Device::~Device() = default;

RunStatus Device::run(Cycles until_cycle, bool stop_at_task, const std::atomic<bool>* interrupt) {
    return impl_->run(until_cycle, stop_at_task, interrupt);
}
void Device::pause() { impl_->pause(); }
Cycles Device::now() const { return impl_->now(); }
const std::vector<traces::UnitInfo>& Device::units() const { return impl_->units; }
std::vector<values::Executor::Results> Device::results() const {
    return impl_->data ? impl_->data->results() : std::vector<values::Executor::Results>();
}
Diagnostics Device::findings() const { return impl_->data ? impl_->data->findings() : Diagnostics(); }
const execution::HazardLog* Device::hazards() const {
    return impl_->data ? &impl_->data->hazards() : nullptr;
}
Device::Completed Device::last_completed() const {
    const CompletedTask& last = impl_->arbiter->last_completed();
    return {last.serial, last.statement, last.loops, last.unit, last.start, last.end};
}
uint64_t Device::completions(uint32_t statement) const { return impl_->arbiter->completions(statement); }
Cycles Device::completed_at(uint32_t statement) const { return impl_->arbiter->completed_at(statement); }
Device::State Device::state() const { return impl_->state(); }
std::string Device::explain_deadlock() const { return impl_->controller->explain_block(); }
void Device::finish(traces::StatSet& stats) { impl_->finish(stats); }
std::vector<traces::OpRow> Device::op_rows() const { return impl_->op_rows(); }
std::vector<traces::KernelRow> Device::kernel_rows() const { return impl_->kernels->rows(); }
std::vector<traces::TaskWork> Device::works() const { return impl_->works(); }
traces::EnergyLedger& Device::ledger() { return *impl_->ledger; }
Device::SocketBytes Device::socket_bytes(uint16_t unit) const {
    SocketBytes bytes;
    const Unit* module = impl_->task_units.at(unit).get();
    for (const Level level : {Level::ddr, Level::l2, Level::l1}) {
        if (module == nullptr) continue;
        bytes.read[static_cast<size_t>(level)] = module->stream.bytes(level, true);
        bytes.written[static_cast<size_t>(level)] = module->stream.bytes(level, false);
    }
    return bytes;
}
std::string Device::module_list() const { return impl_->module_list(); }

std::string list_modules(const proto::Platform& platform) {
    const BoundProgram nothing;
    DeviceOptions options;
    options.hazards = false;
    return Device(platform, nothing, nullptr, options).module_list();
}

}  // namespace kpu::model
