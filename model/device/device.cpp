#include "model/device/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/diagnostics.hpp"
#include "model/array/array_unit.hpp"
#include "model/device/device_impl.hpp"
#include "model/dma/dma_unit.hpp"
#include "model/vector/vector_unit.hpp"
#include "platforms/platform.hpp"

namespace kpu::model {

using traces::UnitClass;

namespace {

/// The kernel is left this often to look for an interrupt.
constexpr Cycles slice_cycles = 1u << 24;

void add_units(std::vector<traces::UnitInfo>& units, const char* pattern, UnitClass unit_class, int engine,
               uint32_t count, double peak) {
    for (uint32_t i = 0; i < count; ++i) {
        units.push_back(
            {fmt::format(fmt::runtime(pattern), engine, i), unit_class, engine, static_cast<int>(i), peak});
    }
}

/// Bytes per core cycle of a memory resource at best.
double peak_of(const ResourceInfo& resource, const MemoryConfig& config) {
    const auto core = static_cast<double>(config.core.hz());
    const auto in_core = [&](double per_cycle, const std::optional<Clock>& own) {
        return own ? per_cycle * static_cast<double>(own->hz()) / core : per_cycle;
    };
    const auto sram = [&](const SramConfig& s) {
        const double ports = double(s.ports) * s.bytes_per_cycle,
                     banks = double(s.banks) * s.bank_width_bytes;
        return in_core(std::min(ports, banks), config.sram_clock);
    };
    const DramTiming& dram = config.ddr.timing;
    switch (resource.unit_class) {
        case UnitClass::ddr:
            return double(dram.burst_bytes) / dram.burst_nck * static_cast<double>(dram.clock_hz) / core;
        case UnitClass::link:
            return in_core(config.link.bytes_per_cycle, config.link_clock);
        case UnitClass::l2:
            return sram(config.l2);
        default:
            return sram(config.l1.at(static_cast<size_t>(resource.engine)));
    }
}

}  // namespace

std::vector<traces::UnitInfo> unit_table(const proto::Platform& platform) {
    std::vector<traces::UnitInfo> units;
    const std::vector<proto::Engine> engines = platforms::engines_of(platform);
    const double array_cycles = static_cast<double>(platforms::array_clock(platform).hz()) /
                                static_cast<double>(platforms::core_clock(platform).hz());
    for (size_t k = 0; k < engines.size(); ++k) {
        const int engine = static_cast<int>(k);
        const proto::SystolicArray& array = engines[k].array();
        const proto::Vector& vector = engines[k].vector();
        add_units(units, "e{}_nmu{}", UnitClass::nmu, engine, array.count(),
                  double(array.rows()) * array.cols() * array_cycles);
        add_units(units, "e{}_cstl{}", UnitClass::cstl, engine, vector.cstl_count(), vector.lanes());
        add_units(units, "e{}_vpu{}", UnitClass::vpu, engine, vector.vpu_count(), vector.lanes());
        add_units(units, "e{}_dma{}", UnitClass::dma, engine, engines[k].dma().channels(),
                  engines[k].dma().bytes_per_cycle());
        units.push_back({fmt::format("e{}_seq", k), UnitClass::sequencer, engine, 0, 0});
    }
    for (uint32_t i = 0; i < platform.system_dma().channels(); ++i) {
        units.push_back({fmt::format("sdma{}", i), UnitClass::sdma, -1, static_cast<int>(i),
                         double(platform.system_dma().bytes_per_cycle())});
    }
    const MemoryConfig config = memory_config(platform);
    const MemorySystem memory_system(config);
    for (const ResourceInfo& resource : memory_system.resources()) {
        units.push_back(
            {resource.name, resource.unit_class, resource.engine, resource.index, peak_of(resource, config)});
    }
    units.push_back({"device", UnitClass::device, -1, 0});
    return units;
}

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
    ledger = std::make_unique<traces::EnergyLedger>(platforms::energy_prices(platform), core,
                                                    program.ops.size(), options.sink);
    board = std::make_unique<TaskBoard>(program, units);
    Accounting::Parts parts;
    parts.program = &program;
    parts.platform = &platform;
    parts.units = &units;
    parts.board = board.get();
    parts.core = core;
    parts.sink = options.sink;
    parts.ledger = ledger.get();
    accounting = std::make_unique<Accounting>(parts);
    if (options.backend != nullptr || options.hazards) {
        data = std::make_unique<execution::DataPath>(program, options.backend != nullptr ? memory : nullptr,
                                                     options.backend, options.hazards);
    }
    build();
    execution::ControlOptions control_options;
    control_options.max_active_tokens = platform.sequencer().max_active_tokens();
    control_options.num_engines = static_cast<uint32_t>(engines.size());
    controller = std::make_unique<execution::Controller>(program, control_options, *arbiter);
    std::vector<Sequencer*> commanding;
    for (const auto& sequencer : sequencers) commanding.push_back(sequencer.get());
    arbiter->attach(*controller, std::move(commanding));
    accounting->attach(*controller);
}

Device::Impl::~Impl() {
    const SimContext::Entry entry(context);
    // events are cancelled with their modules, before the context goes
    sequencers.clear();
    workers.clear();
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
    add_workers(make, wire);
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

void Device::Impl::add_workers(Steps& make, Steps& wire) {
    workers.resize(units.size());
    unsigned ports = 0;
    for (size_t u = 0; u < units.size(); ++u) {
        if (!executes_tasks(units[u].unit_class)) continue;
        const unsigned port = ports++;
        make.push_back([this, u] { workers[u] = make_worker(static_cast<uint16_t>(u)); });
        wire.push_back([this, u, port] { bind(workers[u]->stream.socket, interconnect->port(port)); });
    }
    make.insert(make.begin(), [this, ports] {
        const auto stepping =
            options.oracle_stepper ? Interconnect::Stepping::oracle : Interconnect::Stepping::fast;
        interconnect =
            std::make_unique<Interconnect>("interconnect", memory_config(platform), ports, stepping);
    });
}

std::unique_ptr<Worker> Device::Impl::make_worker(uint16_t unit) {
    UnitPlace place;
    place.unit = unit;
    place.core = core;
    place.program = &program;
    place.platform = &platform;
    place.errors = &errors;
    if (units[unit].engine >= 0) {
        place.engine = static_cast<uint16_t>(units[unit].engine);
        place.engine_platform = &engines[place.engine];
    } else {
        place.command_ports = static_cast<uint32_t>(engines.size());  // every sequencer may command it
    }
    const char* name = units[unit].name.c_str();
    switch (units[unit].unit_class) {
        case UnitClass::nmu:
            return std::make_unique<ArrayUnit>(name, place);
        case UnitClass::cstl:
        case UnitClass::vpu:
            return std::make_unique<VectorUnit>(name, place);
        default:
            return std::make_unique<DmaUnit>(name, place);
    }
}

void Device::Impl::add_sequencers(Steps& make, Steps& wire) {
    sequencers.resize(engines.size());
    for (size_t k = 0; k < engines.size(); ++k) {
        std::vector<CommandRoute> routes;
        for (size_t u = 0; u < units.size(); ++u) {
            if (!executes_tasks(units[u].unit_class)) continue;
            const bool system = units[u].engine < 0;
            if (!system && units[u].engine != static_cast<int>(k)) continue;
            const auto socket = static_cast<uint32_t>(routes.size());
            routes.push_back({static_cast<uint16_t>(u), socket, system ? static_cast<uint32_t>(k) : 0});
        }
        for (const CommandRoute& route : routes) {
            wire.push_back([this, k, route] {
                bind(sequencers[k]->command[route.socket], workers[route.unit]->command[route.unit_port]);
            });
        }
        make.push_back([this, k, routes] {
            const std::string name = fmt::format("e{}_seq", k);
            sequencers[k] = std::make_unique<Sequencer>(name.c_str(), static_cast<uint32_t>(k), routes);
        });
    }
}

void Device::Impl::add_arbiter(Steps& make, Steps& wire) {
    make.push_back([this] {
        TaskArbiter::Parts parts;
        parts.units = &units;
        parts.core = core;
        parts.dispatch_cycles = platform.sequencer().dispatch_cycles();
        parts.board = board.get();
        parts.accounting = accounting.get();
        parts.data = data.get();
        parts.stop = &stop;
        parts.errors = &errors;
        for (const proto::Engine& engine : engines)
            parts.partner_bytes_per_cycle.push_back(engine.dma().bytes_per_cycle());
        for (size_t u = 0; u < units.size(); ++u) {
            if (units[u].unit_class == UnitClass::sequencer)
                parts.sequencer_units.push_back(static_cast<uint16_t>(u));
        }
        arbiter = std::make_unique<TaskArbiter>("arbiter", std::move(parts));
    });
    for (size_t k = 0; k < engines.size(); ++k)
        wire.push_back([this, k] { bind(sequencers[k]->arbiter, arbiter->requests); });
}

/// Unit ids, parallel to the resources of the memory system.
std::vector<uint16_t> Device::Impl::units_of_resources() const {
    std::vector<uint16_t> resource_units;
    for (size_t u = 0; u + 1 < units.size(); ++u) {
        const UnitClass c = units[u].unit_class;
        if (!executes_tasks(c) && c != UnitClass::sequencer)
            resource_units.push_back(static_cast<uint16_t>(u));
    }
    return resource_units;
}

void Device::Impl::trace_memories() {
    interconnect->trace_to(options.sink, units_of_resources());
    if (options.accesses) interconnect->trace_accesses_to(*options.sink);
}

Device::Stop Device::Impl::outcome(Cycles until_cycle) const {
    if (stop.finished) return Stop::finished;
    if (stop.interrupted) return Stop::interrupted;
    if (stop.task_completed) return Stop::task_completed;
    return now_ >= until_cycle ? Stop::cycle_limit : Stop::deadlock;
}

Device::Stop Device::Impl::run(Cycles until_cycle, bool stop_at_task, const std::atomic<bool>* interrupt) {
    if (ended_) throw InternalError("a device that was finished does not run");
    if (stop.finished) return Stop::finished;
    const SimContext::Entry entry(context);
    stop.at_task = stop_at_task;
    stop.interrupt = interrupt;
    stop.task_completed = stop.interrupted = false;
    for (;;) {
        const Cycles target = std::min(until_cycle, now_ + slice_cycles);
        // what happens at the edge of the limit still belongs to the step
        const Picoseconds end = core.edge(target) + 1;
        const Picoseconds begin = sc_core::sc_time_stamp().value();
        if (end > begin) {
            interconnect->set_step_end(core.edge(target));
            sc_core::sc_start(sc_core::sc_time::from_value(end - begin), sc_core::SC_EXIT_ON_STARVATION);
        }
        const bool paused = stop.finished || stop.task_completed || stop.interrupted;
        const bool starved = !paused && !sc_core::sc_pending_activity();
        // the kernel stays at its last event; the step goes on to its end
        now_ = paused || starved ? core.last_edge(sc_core::sc_time_stamp().value()) : target;
        if (errors.error) std::rethrow_exception(errors.error);
        if (paused) break;
        if (interrupt != nullptr && interrupt->load(std::memory_order_relaxed)) {
            stop.interrupted = true;
            break;
        }
        if (starved) return Stop::deadlock;
        if (target >= until_cycle) return Stop::cycle_limit;
    }
    return outcome(until_cycle);
}

std::string Device::Impl::task_name(const execution::TaskInstance& task) const {
    const std::string iteration = execution::iteration_text(program, task);
    return iteration.empty() ? task.task->name : fmt::format("{} ({})", task.task->name, iteration);
}

Device::State Device::Impl::state() const {
    State state;
    state.cycle = now_;
    state.issued = controller->issued_count();
    state.completed = controller->completed_count();
    for (size_t u = 0; u + 1 < units.size(); ++u) {
        const Accounting::Now unit = accounting->state_of(static_cast<uint16_t>(u), now_, arbiter->running());
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
    std::vector<uint16_t> resource_units = units_of_resources();
    std::vector<traces::TaskWork> works = accounting->work_table().works();
    for (traces::TaskWork& work : works) {
        for (traces::StreamWork& stream : work.streams) {
            for (const RouteHop& hop : interconnect->memory_system().route(request_like(stream)))
                stream.hops.push_back({resource_units[hop.resource], hop.latency});
        }
    }
    return works;
}

void Device::Impl::finish(traces::StatSet& stats) {
    if (ended_) throw InternalError("a device is finished once");
    ended_ = true;
    const SimContext::Entry entry(context);
    accounting->finish(now_, arbiter->running());
    interconnect->finish(now_);
    count_statistics(stats);
    unit_statistics(stats);
    array_statistics(stats);
    resource_statistics(stats);
    busy_statistics(stats);
    memory_statistics(stats);
    ledger->finish(now_, stats);
    op_rows = accounting->op_rows();
    for (size_t i = 0; i + 1 < op_rows.size(); ++i)
        op_rows[i].energy_pj = ledger->op_pj(static_cast<uint32_t>(i));
    op_rows.back().energy_pj = ledger->background_pj();
    for (traces::OpRow& row : op_rows) {
        const bool background = &row == &op_rows.back();
        const double ps = double(core.edge(background ? now_ : row.span_cycles));
        row.power_w = ps > 0 ? row.energy_pj / ps : 0;
    }
}

Device::Device(const proto::Platform& platform, const BoundProgram& program, values::MemoryImage* memory,
               const DeviceOptions& options)
    : impl_(std::make_unique<Impl>(platform, program, memory, options)) {}
Device::~Device() = default;

Device::Stop Device::run(Cycles until_cycle, bool stop_at_task, const std::atomic<bool>* interrupt) {
    return impl_->run(until_cycle, stop_at_task, interrupt);
}
Cycles Device::now() const { return impl_->now(); }
const std::vector<traces::UnitInfo>& Device::units() const { return impl_->units; }
const execution::HazardLog* Device::hazards() const {
    return impl_->data ? &impl_->data->hazards() : nullptr;
}
Device::Completed Device::last_completed() const {
    const CompletedTask& last = impl_->arbiter->last_completed();
    return {last.serial, last.statement, last.loops, last.unit, last.start, last.end};
}
uint64_t Device::completions(uint32_t statement) const { return impl_->arbiter->completions(statement); }
Device::State Device::state() const { return impl_->state(); }
std::string Device::explain_deadlock() const { return impl_->controller->explain_block(); }
void Device::finish(traces::StatSet& stats) { impl_->finish(stats); }
std::vector<traces::OpRow> Device::op_rows() const { return impl_->op_rows; }
std::vector<traces::TaskWork> Device::works() const { return impl_->works(); }
traces::EnergyLedger& Device::ledger() { return *impl_->ledger; }
std::string Device::module_list() const { return impl_->module_list(); }

std::string list_modules(const proto::Platform& platform) {
    const BoundProgram nothing;
    DeviceOptions options;
    options.hazards = false;
    return Device(platform, nothing, nullptr, options).module_list();
}

}  // namespace kpu::model
