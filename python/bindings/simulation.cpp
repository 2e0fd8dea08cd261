#include "runtime/simulation.hpp"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <set>

#include "execution/hazard_report.hpp"
#include "isa/opcodes.hpp"
#include "python/bindings/bindings.hpp"
#include "python/bindings/supervise.hpp"
#include "runtime/compare/sides.hpp"
#include "runtime/debug/debugger.hpp"
#include "runtime/host_boundary.hpp"
#include "runtime/save_run.hpp"
#include "traces/report.hpp"

namespace kpu::bindings {
namespace {

using runtime::RunStatus;

constexpr std::string_view status_names[] = {"finished", "paused", "deadlock", "limit_reached",
                                             "interrupted"};
std::string name_of(RunStatus status) { return std::string(status_names[static_cast<size_t>(status)]); }

/// A simulation that refuses to be used twice at the same time, by threads or by its own callbacks.
class Simulation {
  public:
    Simulation(const Program& program, const Platform* platform, runtime::SimulationOptions options,
               std::unique_ptr<values::ComputeBackend> backend)
        : backend_(std::move(backend)),
          simulation_(program.module, platform != nullptr ? &platform->resolved : nullptr,
                      with_backend(std::move(options), backend_.get())) {}

    /// Calls `use` with the simulation, which is nobody else's meanwhile.
    template <typename Use>
    auto with(Use use) {
        struct Lock {
            explicit Lock(std::atomic<bool>& flag) : in_use(flag) {
                if (in_use.exchange(true)) {
                    throw UserError(
                        "the simulation is running in another thread, or calls this from its own callback. "
                        "Fix: wait for it, or make a second Simulation.");
                }
            }
            ~Lock() { in_use = false; }
            std::atomic<bool>& in_use;
        };
        const Lock lock(in_use_);
        return use(simulation_);
    }

    std::string run(const py::object& callback, double timeout_s) {
        return with([&](runtime::Simulation& simulation) {
            std::atomic<bool> interrupt{false};
            std::exception_ptr failure;
            runtime::Progress progress;
            if (!callback.is_none()) {
                progress = [&](Cycles cycle, uint64_t tasks) {
                    const py::gil_scoped_acquire acquire;
                    if (failure) return;
                    try {
                        callback(cycle, tasks);
                    } catch (...) {
                        failure = std::current_exception();
                        interrupt = true;
                    }
                };
            }
            const RunStatus status =
                supervise(interrupt, timeout_s, [&] { return simulation.run(&interrupt, progress); });
            if (failure) std::rethrow_exception(failure);
            return name_of(status);
        });
    }

    std::string step(Cycles cycles) {
        return with([&](runtime::Simulation& simulation) {
            std::atomic<bool> interrupt{false};
            return name_of(supervise(interrupt, 0, [&] { return simulation.step(cycles, &interrupt); }));
        });
    }

    /// Runs a debugger's session: `next` takes the answer to a verb and gives the next one, or None.
    void debug(const py::object& next) {
        with([&](runtime::Simulation& simulation) {
            std::atomic<bool> interrupt{false};
            std::exception_ptr failure;
            const auto dialogue = [&](const std::string& answer) -> std::optional<std::string> {
                if (interrupt) return std::nullopt;
                const py::gil_scoped_acquire acquire;
                try {
                    const py::object verb = next(answer);
                    if (!verb.is_none()) return verb.cast<std::string>();
                } catch (...) {
                    failure = std::current_exception();
                }
                return std::nullopt;
            };
            supervise(interrupt, 0, [&] {
                runtime::Debugger(simulation, dialogue, &interrupt).run();
                return simulation.status();
            });
            if (failure) std::rethrow_exception(failure);
        });
    }

    py::tuple step_task() {
        return with([&](runtime::Simulation& simulation) -> py::tuple {
            std::atomic<bool> interrupt{false};
            runtime::Completion done;
            const std::string status =
                name_of(supervise(interrupt, 0, [&] { return simulation.step_task(&done, &interrupt); }));
            if (done.serial == runtime::Completion::none) return py::make_tuple(status, py::none());
            const SourcePos pos = simulation.program().pos_of(done.statement);
            py::dict row;
            row["serial"] = done.serial;
            row["name"] = done.name;
            row["iteration"] = done.iteration;
            row["unit"] = done.unit;
            row["place"] = place_of(pos);
            row["cycle"] = simulation.now();
            return py::make_tuple(status, row);
        });
    }

  private:
    static runtime::SimulationOptions with_backend(runtime::SimulationOptions options,
                                                   values::ComputeBackend* backend) {
        options.backend = backend;
        return options;
    }

    std::unique_ptr<values::ComputeBackend> backend_;  ///< null: one of ours
    runtime::Simulation simulation_;
    std::atomic<bool> in_use_{false};
};

runtime::Mode mode_named(const std::string& name) {
    if (name == "values+timing") return runtime::Mode::values_timing;
    if (name == "timing") return runtime::Mode::timing;
    if (name == "functional") return runtime::Mode::functional;
    throw UserError("there is no mode `" + name + "`. Fix: give values+timing, timing or functional.");
}

std::unique_ptr<Simulation> make_simulation(const Program& program, const Platform* platform,
                                            const std::string& mode, ParamBindings params, bool strict,
                                            bool retarget, bool hazards, std::optional<uint64_t> random_order,
                                            uint64_t seed, std::optional<Cycles> max_cycles, bool events,
                                            bool accesses, bool reference, const py::object& backend) {
    runtime::SimulationOptions options;
    options.mode = mode_named(mode);
    options.params = std::move(params);
    options.strict = strict;
    options.retarget = retarget;
    options.hazards = hazards;
    options.random_order = random_order.has_value();
    options.seed = random_order.value_or(seed);
    if (max_cycles) options.max_cycles = *max_cycles;
    options.record_events = events;
    options.record_accesses = accesses;
    options.reference_values = reference;
    auto own = python_backend(backend);
    const py::gil_scoped_release release;
    return std::make_unique<Simulation>(program, platform, std::move(options), std::move(own));
}

py::list specs(const BoundProgram& program, const std::vector<TensorSpec>& list) {
    py::list rows;
    for (const TensorSpec& spec : list) {
        const BoundBuffer& buffer = program.buffers[spec.buffer];
        rows.append(py::make_tuple(spec.name, kpu::name_of(spec.elem), runtime::host_dtype(spec),
                                   py::tuple(py::cast(spec.shape)), spec.declared, kpu::name_of(buffer.level),
                                   runtime::host_type_name(spec)));
    }
    return rows;
}

/// Keys that start with `prefix`.
std::vector<std::string> keys(const traces::StatSet& stats, const std::string& prefix) {
    std::vector<std::string> found;
    for (auto row = stats.all().lower_bound(prefix); row != stats.all().end(); ++row) {
        if (row->first.compare(0, prefix.size(), prefix) != 0) break;
        found.push_back(row->first);
    }
    return found;
}

/// Returns (value, unit, meaning), or None.
py::object find(const traces::StatSet& stats, const std::string& key) {
    const auto row = stats.all().find(key);
    if (row == stats.all().end()) return py::none();
    return py::make_tuple(row->second.value, row->second.unit, row->second.meaning);
}

py::list to_python(const std::vector<traces::OpRow>& ops) {
    py::list rows;
    for (const traces::OpRow& op : ops) {
        py::dict causes, row;
        for (size_t cause = 0; cause < op.causes.size(); ++cause)
            causes[py::str(traces::full_name_of(static_cast<traces::Cause>(cause)))] = op.causes[cause];
        row["id"] = op.id;
        row["type"] = op.type;
        row["span_cycles"] = op.span_cycles;
        row["charged_cycles"] = op.charged_cycles;
        row["causes"] = causes;
        row["macs"] = op.macs;
        row["bytes_dram"] = op.bytes_dram;
        row["bytes_l2"] = op.bytes_l2;
        row["bytes_l1"] = op.bytes_l1;
        row["utilization"] = op.utilization;
        row["energy_pj"] = op.energy_modelled ? op.energy_pj : std::nan("");
        row["estimated_cycles"] = op.estimated_cycles;
        row["estimated_energy_pj"] = op.estimated_energy_pj;
        row["profile"] = op.profile;
        row["bound"] = op.bound;
        row["bound_cycles"] = op.bound_cycles;
        row["fused_into"] = op.fused_into;
        row["precision"] = op.precision;
        row["out_of_range"] = op.out_of_range;
        rows.append(row);
    }
    return rows;
}

py::list to_python(const execution::HazardLog& log) {
    py::list rows;
    for (const execution::HazardFinding& finding : log.findings()) {
        py::dict row;
        row["kind"] = execution::name_of(finding.kind);
        row["task"] = finding.task;
        row["other_task"] = finding.other_task;
        row["place"] = place_of(finding.pos);
        row["other_place"] = place_of(finding.other_pos);
        row["buffer"] = finding.buffer;
        row["level"] = kpu::name_of(finding.level);
        row["engine"] = finding.engine;
        row["first"] = finding.first;
        row["last"] = finding.last;
        row["count"] = finding.count;
        row["benign"] = finding.benign;
        row["message"] = execution::to_string(finding);
        rows.append(row);
    }
    return rows;
}

py::dict to_python(const runtime::State& state) {
    py::dict units, row;
    for (const auto& unit : state.units) units[py::str(unit.unit)] = unit.activity;
    py::list tasks;
    for (const auto& task : state.tasks)
        tasks.append(py::make_tuple(task.serial, task.statement, task.name, task.state,
                                    py::tuple(py::cast(task.missing))));
    row["cycle"] = state.cycle;
    row["completed"] = state.completed;
    row["units"] = units;
    row["tasks"] = tasks;
    row["ddr_bytes"] = state.ddr_bytes;
    row["l2_bytes"] = state.l2_bytes;
    row["l1_bytes"] = py::tuple(py::cast(state.l1_bytes));
    return row;
}

/// Variables of the loops around a statement, outermost first.
std::vector<std::string> loops_of(const BoundProgram& program, uint32_t statement) {
    std::vector<std::string> names;
    for (int32_t at = program.statements[statement].parent; at >= 0;
         at = program.statements[static_cast<size_t>(at)].parent) {
        names.push_back(program.loops[program.statements[static_cast<size_t>(at)].index].variable);
    }
    std::reverse(names.begin(), names.end());
    return names;
}

py::tuple region_names(const BoundProgram& program, const std::vector<uint32_t>& list) {
    py::list names;
    for (const uint32_t index : list) {
        const BoundRegion& region = program.regions[index];
        names.append(region.name.empty() ? program.buffers[region.buffer].name : region.name);
    }
    return py::tuple(names);
}

py::list tasks(const BoundProgram& program) {
    py::list rows;
    for (uint32_t statement = 0; statement < program.statements.size(); ++statement) {
        if (program.statements[statement].kind != BoundStatement::Kind::task) continue;
        const BoundTask& task = program.tasks[program.statements[statement].index];
        py::list deps;
        for (const uint32_t dep : task.deps) deps.append(program.tasks[program.statements[dep].index].name);
        py::list carried;
        for (const CarriedDep& dep : task.carried) {
            carried.append(fmt::format("{}[{}-{}]", program.tasks[program.statements[dep.task].index].name,
                                       program.loops[program.statements[dep.loop].index].variable,
                                       dep.distance));
        }
        py::dict row;
        row["statement"] = statement;
        row["name"] = task.name;
        row["opcode"] = operation_of(task);
        row["unit"] = kpu::name_of(task.unit);
        row["place"] = place_of(program.pos_of(statement));
        row["loops"] = py::tuple(py::cast(loops_of(program, statement)));
        row["deps"] = py::tuple(deps);
        row["carried"] = py::tuple(carried);
        row["inputs"] = region_names(program, task.inputs);
        row["outputs"] = region_names(program, task.outputs);
        rows.append(row);
    }
    return rows;
}

/// Returns named regions: with the loops around the first task that uses each, and by position those that it
/// moves with.
py::list regions(const BoundProgram& program) {
    std::vector<std::optional<uint32_t>> users(program.regions.size());
    for (uint32_t statement = 0; statement < program.statements.size(); ++statement) {
        if (program.statements[statement].kind != BoundStatement::Kind::task) continue;
        const BoundTask& task = program.tasks[program.statements[statement].index];
        for (const auto* list : {&task.inputs, &task.outputs}) {
            for (const uint32_t region : *list) {
                if (!users[region]) users[region] = statement;
            }
        }
    }
    py::list rows;
    for (size_t i = 0; i < program.regions.size(); ++i) {
        const BoundRegion& region = program.regions[i];
        if (region.name.empty()) continue;
        std::set<int64_t> moves;
        for (size_t token = 0; token < region.address.kinds.size(); ++token) {
            if (region.address.kinds[token] == proto::ExprToken::LOOP)
                moves.insert(region.address.values[token]);
        }
        py::dict row;
        row["name"] = region.name;
        row["buffer"] = program.buffers[region.buffer].name;
        row["element_type"] = region.typed() ? kpu::name_of(region.elem) : "";
        row["loops"] = users[i] ? loops_of(program, *users[i]) : std::vector<std::string>{};
        row["moves"] = std::vector<int64_t>(moves.begin(), moves.end());
        rows.append(row);
    }
    return rows;
}

std::string report(runtime::Simulation& simulation, size_t width) {
    traces::ReportOptions options;
    options.width = width;
    std::string text =
        traces::report(simulation.stats(), simulation.run_info(), simulation.op_rows(), options);
    for (const std::string& line : runtime::boundary_lines(simulation.program()))
        text += "host: " + line + "\n";
    return text;
}

/// Returns a method that converts what `use` returns of the simulation.
template <typename Use>
auto converted(Use use) {
    return [use](Simulation& self) {
        return self.with([&](runtime::Simulation& simulation) { return use(simulation); });
    };
}

}  // namespace

void bind_simulation(py::module_& module) {
    using py::arg;
    using runtime::Simulation;
    using Held = kpu::bindings::Simulation;
    using Release = py::call_guard<py::gil_scoped_release>;
    py::class_<traces::StatSet, std::shared_ptr<traces::StatSet>>(module, "StatSet")
        .def("keys", &keys, arg("prefix"))
        .def("find", &find, arg("key"));
    py::class_<Held>(module, "Simulation", py::release_gil_before_calling_cpp_dtor())
        .def(py::init(&make_simulation), arg("program"), arg("platform").none(true), py::kw_only(),
             arg("mode"), arg("params"), arg("strict"), arg("retarget"), arg("hazards"), arg("random_order"),
             arg("seed"), arg("max_cycles"), arg("events"), arg("accesses"), arg("reference"), arg("backend"))
        .def("findings", converted([](Simulation& s) {
                 Diagnostics all = s.diagnostics();
                 for (const Diagnostics& found : {s.run_findings(), s.value_findings()}) {
                     for (const auto& item : found.all()) all.add(item);
                 }
                 return rows_of(all);
             }))
        .def("inputs", converted([](Simulation& s) { return specs(s.program(), s.input_specs()); }))
        .def("outputs", converted([](Simulation& s) { return specs(s.program(), s.output_specs()); }))
        .def("missing_inputs", converted([](Simulation& s) { return s.missing_inputs(); }))
        .def(
            "set_input",
            [](Held& self, const std::string& name, const py::buffer& array, std::string dtype) {
                const NpyArray host = to_host(array, std::move(dtype));
                const py::gil_scoped_release release;
                self.with([&](Simulation& s) { s.set_input(name, host, "input `" + name + "`"); });
            },
            arg("name"), arg("array"), arg("dtype"))
        .def(
            "fill_zeros", [](Held& self) { self.with([](Simulation& s) { s.fill_inputs_zero(); }); },
            Release())
        .def(
            "fill_random",
            [](Held& self, uint64_t seed) { self.with([&](Simulation& s) { s.fill_inputs_random(seed); }); },
            arg("seed"), Release())
        .def("run", &Held::run, arg("progress"), arg("timeout_s"))
        .def("step", &Held::step, arg("cycles"))
        .def("step_task", &Held::step_task)
        .def("debug", &Held::debug, arg("next"))
        .def(
            "reset", [](Held& self) { self.with([](Simulation& s) { s.reset(); }); }, Release())
        .def("status", converted([](Simulation& s) { return name_of(s.status()); }))
        .def("complete", converted([](Simulation& s) { return s.complete(); }))
        .def("now", converted([](Simulation& s) { return s.now(); }))
        .def("state", converted([](Simulation& s) { return to_python(s.state()); }))
        .def("deadlock_report", converted([](Simulation& s) { return s.deadlock_report(); }))
        .def(
            "output",
            [](Held& self, const std::string& name) {
                return to_numpy(self.with([&](Simulation& s) { return s.output(name); }));
            },
            arg("name"))
        .def(
            "read",
            [](Held& self, const std::string& name) {
                return to_numpy(self.with([&](Simulation& s) { return s.read(name); }));
            },
            arg("name"))
        .def(
            "read_region",
            [](Held& self, const std::string& name, const std::vector<int64_t>& loop_values) {
                return to_numpy(self.with([&](Simulation& s) { return s.read_region(name, loop_values); }));
            },
            arg("name"), arg("loop_values"))
        .def(
            "write_region",
            [](Held& self, const std::string& name, const py::buffer& array, std::string dtype,
               const std::vector<int64_t>& loop_values) {
                const NpyArray host = to_host(array, std::move(dtype));
                self.with([&](Simulation& s) { s.write_region(name, host, loop_values); });
            },
            arg("name"), arg("array"), arg("dtype"), arg("loop_values"))
        .def("stored_names", converted([](Simulation& s) { return s.stored_names(); }))
        .def("place_inputs", converted([](Simulation& s) { s.place_inputs(); }))
        .def(
            "completions",
            [](Held& self, uint32_t statement) {
                return self.with([&](Simulation& s) { return s.completions(statement); });
            },
            arg("statement"))
        .def("tasks", converted([](Simulation& s) { return tasks(s.program()); }))
        .def("regions", converted([](Simulation& s) { return regions(s.program()); }))
        .def("stats", converted([](Simulation& s) {
                 return std::const_pointer_cast<traces::StatSet>(s.shared_stats());  // Python only reads it
             }))
        .def("ops", converted([](Simulation& s) { return to_python(s.op_rows()); }))
        .def("hazards", converted([](Simulation& s) { return to_python(s.hazards()); }))
        .def("hazard_summary", converted([](Simulation& s) {
                 return s.hazards().count() > 0 ? execution::summary(s.hazards()) : std::string();
             }))
        .def("hazards_limited", converted([](Simulation& s) { return s.hazards().limited(); }))
        .def(
            "report",
            [](Held& self, size_t width) {
                return self.with([&](Simulation& s) { return report(s, width); });
            },
            arg("width"), Release())
        .def(
            "take_recording",
            [](Held& self) { return self.with([](Simulation& s) { return s.take_recording(); }); }, Release())
        .def(
            "side",
            [](Held& self, const std::string& name,
               const std::vector<std::tuple<std::string, std::string>>& inputs,
               const std::shared_ptr<traces::Recording>& events, const std::string& events_advice) {
                traces::Manifest manifest;
                for (const auto& [input, digest] : inputs) manifest.inputs.push_back({input, "", digest});
                traces::DiffSide side = self.with(
                    [&](Simulation& s) { return compare::side_of(s, std::move(manifest), name, events); });
                side.events_advice = events_advice;
                return side;
            },
            arg("name"), arg("inputs"), arg("events"), arg("events_advice"), Release())
        .def(
            "save",
            [](Held& self, const std::string& folder, bool force, std::vector<std::string> command_line,
               const std::string& platform_source,
               const std::vector<std::tuple<std::string, std::string>>& inputs) {
                traces::Manifest manifest;
                manifest.command_line = std::move(command_line);
                manifest.platform.path = platform_source;
                for (const auto& [name, digest] : inputs) manifest.inputs.push_back({name, "", digest});
                self.with([&](Simulation& s) {
                    manifest.program.path = s.program().module->origin;
                    traces::RunFolder files(folder, force);
                    runtime::save_run(files, s, s.op_rows(), std::move(manifest));
                    runtime::finish_saved_run(files, s);
                });
            },
            arg("folder"), arg("force"), arg("command_line"), arg("platform_source"), arg("inputs"),
            Release());
}

}  // namespace kpu::bindings
