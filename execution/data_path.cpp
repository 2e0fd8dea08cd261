#include "execution/data_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/diagnostics.hpp"
#include "isa/footprint_runs.hpp"
#include "isa/iterations.hpp"
#include "isa/reach.hpp"
#include "values/kernel/task.hpp"

namespace kpu::execution {
namespace {

using values::RegionView;

bool same_memory(const BoundRegion& a, const BoundRegion& b) {
    return a.level == b.level && (a.level != Level::l1 || a.engine == b.engine);
}

HazardSide side_of(const TaskInstance& instance) { return {instance.statement, instance.loops}; }

/// Returns the bytes from a tensor's first to its last element.
uint64_t span_bytes(const TensorSpec& tensor) {
    uint64_t elements = 1;
    if (tensor.strides.empty()) {
        for (const int64_t extent : tensor.shape) elements *= static_cast<uint64_t>(extent);
    } else {
        for (size_t d = 0; d < tensor.shape.size(); ++d) {
            elements += static_cast<uint64_t>((tensor.shape[d] - 1) * tensor.strides[d]);
        }
    }
    return packed_bytes(tensor.elem, elements);
}

}  // namespace

bool DataPath::prepare(const std::atomic<bool>* interrupt) {
    if (prepared_) return true;
    try {
        if (report_) follow_races(interrupt);
    } catch (const OrderInterrupted&) {
        return false;
    }
    prepared_ = true;
    return true;
}

void DataPath::follow_races(const std::atomic<bool>* interrupt) {
    if (const size_t tasks = ScheduleOrder::tasks_in_loops(program_); tasks > ScheduleOrder::max_tasks) {
        return log_.limit(
            fmt::format("the program has {} tasks in loops, their order is followed for {} at most", tasks,
                        ScheduleOrder::max_tasks));
    }
    history_.emplace(program_, interrupt);
    const uint32_t* const loop = history_->loop_too_large();
    if (loop == nullptr) return;
    log_.limit(fmt::format("the loop over `{}` carries more tokens than are followed",
                           program_.loops[program_.statements[*loop].index].variable));
    history_.reset();
}

DataPath::DataPath(const BoundProgram& program, values::MemoryImage* memory, values::ComputeBackend* backend,
                   bool report_hazards)
    : program_(program), memory_(memory), report_(report_hazards) {
    if ((memory == nullptr) != (backend == nullptr))
        throw InternalError("values need both memory and arithmetic");
    shapes_.reserve(program.regions.size());
    for (const BoundRegion& region : program.regions) shapes_.push_back(values::footprint_of({&region, 0}));
    if (memory) {
        executor_.emplace(program, *backend);
        executor_->watch_kernels(report_hazards);
        return;
    }
    shadow_.emplace(program.ddr_bytes, program.l2_bytes, program.l1_bytes);
    const auto mark = [this](uint32_t index, uint64_t offset, uint64_t bytes) {
        const BoundBuffer& buffer = program_.buffers[index];
        shadow_->level(buffer.level, buffer.engine).mark_written(buffer.base + offset, bytes);
    };
    const auto reach = reach_of_buffers(program);
    for (const TensorSpec& tensor : program.inputs) {
        for (const ByteRange& range :
             inside(reach[tensor.buffer], tensor.offset, tensor.offset + span_bytes(tensor)))
            mark(tensor.buffer, range.first, range.last - range.first);
    }
    for (const DataImage& image : program.data) mark(image.buffer, image.offset, image.bytes->size());
}

DataPath::~DataPath() = default;

void DataPath::fill(std::vector<Operand>& operands, const std::vector<RegionView>& views) const {
    operands.clear();
    for (const RegionView& view : views) {
        Operand operand;
        operand.region = view.region;
        operand.bytes = shapes_[static_cast<size_t>(view.region - program_.regions.data())];
        operand.bytes.address += view.address;
        operand.end = operand.bytes.end();
        operands.push_back(operand);
    }
}

void DataPath::task_started(const TaskInstance& instance, values::MemoryMap* through) {
    prepare(nullptr);
    if (spare_.empty()) spare_.push_back(std::make_unique<InFlight>());
    std::unique_ptr<InFlight> task = std::move(spare_.back());
    spare_.pop_back();
    task->instance = &instance;
    task->memory = through != nullptr ? through : memory_;
    task->conflicts.clear();
    task->contended = task->evaluated = false;
    task->elsewhere = through != nullptr && executor_ && instance.task->launches();
    fill(task->inputs, instance.inputs);
    fill(task->outputs, instance.outputs);
    for (const auto& earlier : running_) check_against(*task, *earlier);
    if (report_) {
        if (history_) find_races(*task);
        if (history_ && history_->full()) {
            history_.reset();
            log_.limit(fmt::format("from task `{}`{} on regions touch more than {} runs of bytes",
                                   instance.task->name, place_text(program_, *instance.task),
                                   RaceHistory::max_pieces / 3));
        }
        for (const Operand& input : task->inputs) check_written(*task, input);
    }
    if (executor_) fix_inputs(*task);
    running_.push_back(std::move(task));
}

bool DataPath::reads_of(const InFlight& reader, const InFlight& writer) {
    return std::any_of(reader.inputs.begin(), reader.inputs.end(), [&](const Operand& input) {
        return std::any_of(writer.outputs.begin(), writer.outputs.end(), [&](const Operand& output) {
            return same_memory(*output.region, *input.region) && values::overlap(input.bytes, output.bytes);
        });
    });
}

/// A kernel that its unit executes changes bytes from now on: who reads them reads them now.
void DataPath::fix_inputs(InFlight& task) {
    for (const auto& other : running_) {
        if (task.elsewhere && !other->elsewhere && reads_of(*other, task)) evaluate(*other);
        if (other->elsewhere && !task.elsewhere && reads_of(task, *other)) evaluate(task);
    }
}

/// Finds what the task that starts now has in common with one in flight: one finding per pair and kind.
void DataPath::check_against(InFlight& later, InFlight& earlier) {
    const auto check = [&](HazardKind kind, const std::vector<Operand>& ours,
                           const std::vector<Operand>& theirs) {
        for (const Operand& a : ours) {
            for (const Operand& b : theirs) {
                if (a.bytes.address >= b.end || b.bytes.address >= a.end ||
                    !same_memory(*a.region, *b.region)) {
                    continue;
                }
                if (values::overlap(a.bytes, b.bytes)) return note(kind, later, earlier, a, b);
            }
        }
    };
    check(HazardKind::raw, later.inputs, earlier.outputs);
    check(HazardKind::war, later.outputs, earlier.inputs);
    check(HazardKind::waw, later.outputs, earlier.outputs);
}

void DataPath::note(HazardKind kind, InFlight& later, InFlight& earlier, const Operand& a, const Operand& b) {
    if (kind != HazardKind::war) earlier.contended = true;
    if (kind != HazardKind::raw) later.contended = true;
    if (!report_ || history_) return;
    const HazardSide other = side_of(*earlier.instance);
    const size_t finding = log_.add(program_, kind, side_of(*later.instance), &other, *a.region,
                                    std::max(a.bytes.address, b.bytes.address), std::min(a.end, b.end) - 1);
    const bool both = kind == HazardKind::waw;
    if (kind != HazardKind::war) earlier.conflicts.push_back({finding, later.instance->serial, both});
    if (kind != HazardKind::raw) later.conflicts.push_back({finding, earlier.instance->serial, both});
}

/// Races with whatever ran before. Whether the bytes differ is known once they are written: by the later
/// writer, or by an earlier one that is still in flight.
void DataPath::find_races(InFlight& task) {
    const auto operands = [](const std::vector<Operand>& from, std::vector<RaceHistory::Operand>& to) {
        to.clear();
        for (const Operand& operand : from) to.push_back({operand.region, &operand.bytes});
    };
    operands(task.inputs, reads_);
    operands(task.outputs, writes_);
    const TaskInstance& instance = *task.instance;
    history_->begin({instance.serial, instance.statement, instance.loops}, reads_, writes_, races_);
    for (const Race& race : races_) {
        const HazardSide other{race.other.statement, race.other.loops};
        const size_t finding =
            log_.add(program_, race.kind, side_of(instance), &other, *race.region, race.first, race.last);
        const bool both = race.kind == HazardKind::waw;
        if (race.kind != HazardKind::raw) {
            task.conflicts.push_back({finding, race.other.serial, both});
            task.contended = true;
        }
        const auto writer = std::find_if(running_.begin(), running_.end(), [&](const auto& other_task) {
            return other_task->instance->serial == race.other.serial;
        });
        if (writer != running_.end() && (both || race.kind == HazardKind::raw))
            (*writer)->conflicts.push_back({finding, instance.serial, both});
    }
}

void DataPath::check_written(const InFlight& task, const Operand& input) {
    const values::MemoryLevel& level = written().level(input.region->level, input.region->engine);
    uint64_t first = 0, last = 0;
    bool found = false;
    for_each_run(input.bytes, [&](uint64_t address, uint64_t bytes) {
        const uint64_t hole = level.first_unwritten(address, bytes);
        if (hole == address + bytes) return true;
        first = hole;
        last = address + bytes - 1;
        found = true;
        return false;
    });
    if (!found) return;
    // What a task in flight is about to write is reported as raw already.
    for (const auto& other : running_) {
        for (const Operand& output : other->outputs) {
            if (same_memory(*output.region, *input.region) && values::overlap(output.bytes, input.bytes))
                return;
        }
    }
    log_.add(program_, HazardKind::unwritten, side_of(*task.instance), nullptr, *input.region, first, last);
}

void DataPath::task_completed(const TaskInstance& instance, const values::kernel::LaunchResult* launch) {
    const auto it = std::find_if(running_.begin(), running_.end(),
                                 [&](const auto& task) { return task->instance == &instance; });
    if (it == running_.end())
        throw InternalError(fmt::format("task {} completed but never started", instance.serial));
    std::unique_ptr<InFlight> task = std::move(*it);
    running_.erase(it);
    if (launch != nullptr && executor_) {
        executor_->note_launch(*instance.task, *launch);
        note_races(instance, launch);
    }
    try {
        publish(*task);
    } catch (const values::kernel::LaunchInterrupted&) {
        running_.push_back(std::move(task));
        throw;
    }
    task->instance = nullptr;
    spare_.push_back(std::move(task));
}

void DataPath::publish(InFlight& task) {
    const TaskInstance& instance = *task.instance;
    if (!executor_ || task.elsewhere) {
        settle_conflicts(task, false);
        for (const Operand& output : task.outputs) mark_written(output);
        return;
    }
    if (!task.contended) {
        if (!task.evaluated) {
            executor_->execute(*task.memory, *instance.task, instance.inputs, instance.outputs,
                               instance.loops);
            return note_races(instance, executor_->take_launch().get());
        }
        return executor_->commit(*task.memory, task.pending);
    }
    for (const auto& reader : running_) {
        if (!reader->elsewhere && reads_of(*reader, task)) evaluate(*reader);
    }
    evaluate(task);
    const bool benign = !task.conflicts.empty() && changes_nothing(task);
    settle_conflicts(task, benign);
    executor_->commit(*task.memory, task.pending);
}

void DataPath::evaluate(InFlight& task) {
    if (task.evaluated) return;
    const TaskInstance& instance = *task.instance;
    executor_->evaluate(*task.memory, *instance.task, instance.inputs, instance.outputs, task.pending,
                        instance.loops);
    task.evaluated = true;
    note_races(instance, executor_->take_launch().get());
}

void DataPath::note_races(const TaskInstance& instance, const values::kernel::LaunchResult* launch) {
    if (launch == nullptr) return;
    for (const values::kernel::KernelRace& race : launch->races)
        log_.add_kernel(program_, side_of(instance), *launch, race);
}

/// True if the commit would leave every byte as it is and as written as it is.
bool DataPath::changes_nothing(const InFlight& task) {
    for (size_t i = 0; i < task.pending.size(); ++i) {
        const values::PendingWrite& write = task.pending[i];
        const Operand& output = task.outputs[i];
        const values::MemoryLevel& level = memory_->level(output.region->level, output.region->engine);
        bool all_written = true;
        for_each_run(output.bytes, [&](uint64_t address, uint64_t bytes) {
            return all_written = level.all_written(address, bytes);
        });
        if (!all_written) return false;
        if (write.raw) {
            if (std::memcmp(level.data() + write.view.address, write.bytes.data(), write.bytes.size()) != 0) {
                return false;
            }
            continue;
        }
        scratch_.resize(write.bytes.size());
        values::gather(*memory_, write.view, scratch_.data());
        if (scratch_ != write.bytes) return false;
    }
    return true;
}

void DataPath::settle_conflicts(const InFlight& task, bool benign) {
    for (const Conflict& conflict : task.conflicts) {
        const bool other_runs = std::any_of(running_.begin(), running_.end(), [&](const auto& other) {
            return other->instance->serial == conflict.other;
        });
        // Of two writers the second to commit decides whether the bytes come out the same.
        if (benign && !(conflict.both_write && other_runs)) log_.mark_benign(conflict.finding);
    }
}

void DataPath::mark_written(const Operand& output) {
    values::MemoryLevel& level = written().level(output.region->level, output.region->engine);
    for_each_run(output.bytes, [&](uint64_t address, uint64_t bytes) {
        level.mark_written(address, bytes);
        return true;
    });
}

TaskTraffic traffic_of(const BoundProgram& program, const BoundTask& task) {
    TaskTraffic traffic;
    traffic.macs = task.macs;
    for (const uint32_t index : task.inputs) {
        const BoundRegion& region = program.regions[index];
        traffic.read[static_cast<size_t>(region.level)] += values::footprint_of({&region, 0}).total_bytes();
    }
    for (const uint32_t index : task.outputs) {
        const BoundRegion& region = program.regions[index];
        traffic.written[static_cast<size_t>(region.level)] +=
            values::footprint_of({&region, 0}).total_bytes();
    }
    return traffic;
}

}  // namespace kpu::execution
