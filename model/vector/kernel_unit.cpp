#include "model/vector/kernel_unit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_set>

#include "values/kernel/task.hpp"

namespace kpu::model {

using traces::Cause;
using values::kernel::LaunchOperands;

namespace {

/// What a kernel asks of L1 is carried out as streams, a window of time after the other. Windows of long kernels
/// grow, so that a launch has a bounded number of streams.
constexpr Cycles first_window_cycles = 256;
constexpr uint64_t windows_of_a_length = 256;

size_t take_room(std::vector<bool>& rooms) {
    const auto free = std::find(rooms.begin(), rooms.end(), false);
    const auto room = static_cast<size_t>(free - rooms.begin());
    if (free == rooms.end()) rooms.push_back(false);
    rooms[room] = true;
    return room;
}

/// A stream of a launch: words that a window of it asked for, or a copy.
struct LaunchStream {
    std::unique_ptr<StreamTransaction> transaction;
    KernelCopy copy;
    bool is_copy = false;
};

}  // namespace

struct KernelUnit::Run {
    TaskCommand* command = nullptr;
    TaskPlan plan;
    std::shared_ptr<values::kernel::SharedLaunch> shared;
    std::unique_ptr<KernelCost> cost;
    std::unique_ptr<values::kernel::LaunchWorker> launch;
    size_t room = 0;  ///< place of its workgroup memory
    bool began = false, draining = false, ended = false;
    bool working = false, stalled = false;  ///< neither: not begun, or draining
    Cycles at = 0;                          ///< the next statement begins
    Cycles work_begin = 0, drained_at = 0;
    uint64_t useful_booked = 0;  ///< cycles
    Cycles window_begin = 0, window_cycles = first_window_cycles;
    uint64_t windows = 0;
    std::vector<std::unique_ptr<LaunchStream>> streams;
    size_t words_open = 0, copies_open = 0;               ///< streams on their way
    std::deque<LaunchStream*> waiting;                    ///< copies without a channel
    std::vector<bool> pending;                            ///< copies that have not arrived, by tag and lane
    std::unordered_set<uint64_t> tiles_pending;           ///< those of tiles, by number
    Cause limiter = Cause::stalled_operand_interconnect;  ///< of the stream that ended last

    const kernel::Code& code() const { return launch->code(); }
    const kernel::CodeStatement& next() const { return code().statements[launch->statement()]; }
    size_t pending_index(uint32_t tag, uint32_t lane) const {
        return size_t{tag} * code().invocations() + lane;
    }
};

KernelUnit::KernelUnit(const sc_core::sc_module_name& name, const UnitPlace& place)
    : FormulaUnit(name, place) {}
KernelUnit::~KernelUnit() = default;

void KernelUnit::start(TaskCommand& task_command) {
    if (!task_command.task->task->launches()) return FormulaUnit::start(task_command);
    if (run_ != nullptr)
        for (const auto& old : run_->streams)
            if (old->transaction != nullptr) recycle(std::move(old->transaction));
    run_ = std::make_unique<Run>();
    run_->command = &task_command;
    run_->shared = task_command.launch;
    ++run_->shared->workers;
    run_->plan.course = TaskPlan::Course::steps;
    run_->plan.peak_q16 = uint64_t{place().engine_platform->vector().lanes()} << 16;
    task_command.plan = &run_->plan;
    task_command.report.steps.push_back({now_cycle(), Cause::stalled_operand_interconnect});
    if (idle()) wake_at(now_cycle());
}

/// Tasks with a formula that came before are through.
void KernelUnit::drained() {
    if (run_ != nullptr && !run_->began) wake_at(now_cycle());
}

void KernelUnit::wake() {
    if (run_ == nullptr || run_->ended || !idle()) return FormulaUnit::wake();
    try {
        if (!run_->began) begin();
        go_on();
    } catch (const UserError& error) {
        throw UserError(in_task(error));
    } catch (const SimulationError& error) {
        throw SimulationError(in_task(error));
    }
}

std::string KernelUnit::in_task(const std::exception& error) const {
    return fmt::format("program `{}`, task `{}`: {}", place().program->name, run_->command->task->task->name,
                       error.what());
}

void KernelUnit::begin() {
    Run& run = *run_;
    const execution::TaskInstance& instance = *run.command->task;
    const BoundTask& task = *instance.task;
    const kernel::Code& code = *task.launch->code;
    run.began = true;
    values::kernel::SharedLaunch& shared = *run.shared;
    if (!shared.work) {
        shared.operands.emplace(*run.command->memory, task, instance.inputs, instance.outputs, instance.loops,
                                LaunchOperands::Access::in_place);
        shared.work.emplace(code, shared.operands->grid(), shared.operands->scalars(),
                            shared.operands->storage(), place().hazards);
    }
    run.room = take_room(shared.rooms[place().engine]);
    run.launch = std::make_unique<values::kernel::LaunchWorker>(*shared.work);
    run.cost = std::make_unique<KernelCost>(code, *place().engine_platform, places_of(*run.command));
    run.launch->observe(*run.cost);
    run.pending.assign(code.tags.size() * code.invocations(), false);
    run.at = run.window_begin = now_cycle();
    run.command->report.statements.assign(code.statements.size(), {});
}

/// Executes statements whose time has come, and later ones as long as nothing else of the device happens before.
void KernelUnit::go_on() {
    const values::FloatEnvironment environment;
    Run& run = *run_;
    const Cycles now = now_cycle();
    Cycles until = horizon();
    while (!run.launch->done()) {
        if (waits_for_time(now, until) || is_held(now)) return;
        if (!run.working) work_from(run.at);
        execute();
        if (!run.cost->started_copies().empty()) {
            queue_copies();
            until = now;
        }
    }
    if (run.at > now) return wake_at(run.at);
    if (!run.draining) return drain(now);
    if (now < run.drained_at) return;
    if (run.words_open == 0) return complete(now);
    if (!run.stalled) stall(now, Cause::stalled_backpressure);
}

/// Until when the unit may go ahead alone.
Cycles KernelUnit::horizon() const {
    const Cycles now = now_cycle();
    if (sc_core::sc_pending_activity_at_current_time()) return now;
    if (!sc_core::sc_pending_activity_at_future_time()) return *place().step_end + 1;
    const Picoseconds next = (sc_core::sc_time_stamp() + sc_core::sc_time_to_pending_activity()).value();
    return std::min(place().core.edges_before(next), *place().step_end + 1);
}

/// Copies and streams are posted, and waited for, in their own cycle.
bool KernelUnit::waits_for_time(Cycles now, Cycles& until) {
    Run& run = *run_;
    if (run.at <= now) return false;
    const kernel::Kind kind = run.next().kind;
    const bool meets_others = kind == kernel::Kind::async_load || kind == kernel::Kind::async_store ||
                              kind == kernel::Kind::async_wait || kind == kernel::Kind::async_copy ||
                              kind == kernel::Kind::wait || run.at - run.window_begin >= run.window_cycles;
    if (!meets_others && run.at < until) return false;
    wake_at(run.at);
    return true;
}

/// It waits for a copy, or for what an earlier window asked of L1.
bool KernelUnit::is_held(Cycles now) {
    Run& run = *run_;
    const kernel::Kind kind = run.next().kind;
    bool held = (kind == kernel::Kind::async_wait || kind == kernel::Kind::wait) && !copies_arrived();
    if (now >= run.window_begin + run.window_cycles) {
        if (run.words_open > 0)
            held = true;
        else
            post_traffic(false);
    }
    if (held && !run.stalled) stall(now, Cause::stalled_operand_interconnect);
    if (!held && run.stalled) {
        run.command->report.steps.back().cause = run.limiter;
        run.command->report.statements[run.launch->statement()].stalled +=
            now - run.command->report.steps.back().from;
        run.stalled = false;
        run.at = std::max(run.at, now);
    }
    return held;
}

bool KernelUnit::copies_arrived() const {
    if (run_->launch->has_tiles()) {
        const std::vector<uint64_t> awaited = run_->launch->tiles().awaited();
        return std::none_of(awaited.begin(), awaited.end(),
                            [&](uint64_t number) { return run_->tiles_pending.count(number) > 0; });
    }
    const uint32_t tag = run_->next().tag;
    const std::vector<uint32_t>& lanes = run_->launch->batch().lanes();
    return std::none_of(lanes.begin(), lanes.end(),
                        [&](uint32_t lane) { return run_->pending[run_->pending_index(tag, lane)]; });
}

void KernelUnit::execute() {
    Run& run = *run_;
    StatementCost& cost = run.command->report.statements[run.launch->statement()];
    ++cost.executions;
    cost.lanes += run.launch->active();
    run.launch->step();
    cost.busy += run.cost->cycles();
    run.at += run.cost->cycles();
}

void KernelUnit::work_from(Cycles now) {
    run_->working = true;
    run_->work_begin = now;
    run_->command->report.steps.push_back({now, Cause::busy_useful});
}

/// Of the cycles since it began to work, those that all lanes had something to do in were useful.
void KernelUnit::stop_work() {
    Run& run = *run_;
    if (!run.working) return;
    run.working = false;
    const uint64_t lanes = std::max<uint64_t>(place().engine_platform->vector().lanes(), 1);
    const Cycles useful = std::min(run.cost->useful() / lanes - run.useful_booked, run.at - run.work_begin);
    run.useful_booked += useful;
    std::vector<StepChange>& steps = run.command->report.steps;
    if (useful == 0) {
        steps.back().cause = Cause::busy_padding;
    } else if (run.work_begin + useful < run.at) {
        steps.push_back({run.work_begin + useful, Cause::busy_padding});
    }
    book();
}

void KernelUnit::stall(Cycles now, Cause cause) {
    stop_work();
    run_->command->report.steps.push_back({now, cause});
    run_->limiter = cause;
    run_->stalled = true;
}

void KernelUnit::drain(Cycles now) {
    Run& run = *run_;
    stop_work();
    post_traffic(true);
    run.draining = true;
    run.command->report.steps.push_back({now, Cause::busy_fill_drain});
    run.drained_at = now + std::max<Cycles>(place().engine_platform->vector().pipeline_latency_cycles(), 1);
    wake_at(run.drained_at);
}

void KernelUnit::complete(Cycles now) {
    Run& run = *run_;
    TaskReport& report = run.command->report;
    if (run.stalled) report.steps.back().cause = run.limiter;
    values::kernel::SharedLaunch& shared = *run.shared;
    shared.rooms[place().engine][run.room] = false;
    if (--shared.workers == 0 && !shared.work->left()) {
        std::vector<values::PendingWrite> results = shared.operands->take_results();
        values::Executor::commit(*run.command->memory, results);
    }
    report.launch = std::make_shared<values::kernel::LaunchResult>(shared.work->result());
    report.end = now;
    report.own_cycles = now - report.start;
    run.ended = true;
    answer_complete(*run.command);
}

/// Work and energy so far.
void KernelUnit::book() {
    constexpr std::pair<kernel::CostClass, const char*> actions[] = {
        {kernel::CostClass::integer, "op.i32"},
        {kernel::CostClass::floating, "op.f32"},
        {kernel::CostClass::special, "op.transcendental"},
        {kernel::CostClass::permute, "op.i32"},
        {kernel::CostClass::reduce, "op.f32"},
        {kernel::CostClass::atomic, "op.i32"}};
    Run& run = *run_;
    run.plan.work = run.cost->useful();
    run.plan.energy.clear();
    for (const auto& [cost_class, action] : actions)
        run.plan.energy.push_back({traces::Component::vector, action, run.cost->operations(cost_class)});
}

void KernelUnit::stream_completed(StreamTransaction& transaction) {
    if (run_ == nullptr || !run_->began || run_->ended) return FormulaUnit::stream_completed(transaction);
    Run& run = *run_;
    const auto& ended = *static_cast<LaunchStream*>(transaction.context);
    note_completed(*run.command, transaction);
    run.limiter =
        dominant_limiter(transaction.extension.result,
                         run.draining ? Cause::stalled_backpressure : Cause::stalled_operand_interconnect);
    if (ended.is_copy) {
        if (ended.copy.of_tiles)
            run.tiles_pending.erase(ended.copy.number);
        else
            run.pending[run.pending_index(ended.copy.tag, ended.copy.lane)] = false;
        --run.copies_open;
        post_copies();
    } else {
        --run.words_open;
    }
    if (run.stalled) wake_at(now_cycle());
}

/// What was asked of L1 since the last time. Of words that repeat, whole walks over what they lie in; the rest of them
/// goes with the next window.
void KernelUnit::post_traffic(bool all) {
    Run& run = *run_;
    for (uint32_t buffer = 0; buffer < run.cost->traffic().size(); ++buffer) {
        KernelTraffic& traffic = run.cost->traffic()[buffer];
        for (const bool read : {true, false}) {
            uint64_t& bytes = read ? traffic.read : traffic.written;
            const uint64_t span = std::max<uint64_t>(traffic.high - std::min(traffic.low, traffic.high), 1);
            const uint64_t walks = std::min<uint64_t>(bytes / span, UINT32_MAX);
            if (walks > 0) post_words(buffer, read, walks * span);
            bytes -= walks * span;
            if (bytes > 0 && (all || walks == 0)) {
                post_words(buffer, read, bytes);
                bytes = 0;
            }
        }
        if (traffic.read == 0 && traffic.written == 0) traffic = {};
    }
    run.window_begin = now_cycle();
    if (++run.windows % windows_of_a_length == 0) run.window_cycles *= 2;
}

void KernelUnit::post_words(uint32_t buffer, bool read, uint64_t bytes) {
    Run& run = *run_;
    const KernelTraffic& traffic = run.cost->traffic()[buffer];
    const KernelBufferPlace& where = run.cost->places()[buffer];
    const uint64_t span = std::max<uint64_t>(traffic.high - traffic.low, 1);
    const proto::Vector& vector = place().engine_platform->vector();
    PlannedStream planned = port_stream(
        run.command->task->task->op, side_of(buffer, traffic.low - where.address, std::min(bytes, span)),
        read, read ? vector.operand_bytes_per_cycle() : vector.result_bytes_per_cycle());
    (read ? planned.request.source : planned.request.destination).repeat =
        static_cast<uint32_t>(std::max<uint64_t>(bytes / span, 1));
    auto posted = std::make_unique<LaunchStream>();
    posted->transaction = post(planned, *run.command, posted.get());
    run.command->report.streams.back().is_result = !read;
    run.streams.push_back(std::move(posted));
    ++run.words_open;
}

void KernelUnit::queue_copies() {
    Run& run = *run_;
    for (const KernelCopy& copy : run.cost->started_copies()) {
        if (copy.bytes == 0) continue;
        auto posted = std::make_unique<LaunchStream>();
        posted->is_copy = true;
        posted->copy = copy;
        if (copy.of_tiles)
            run.tiles_pending.insert(copy.number);
        else
            run.pending[run.pending_index(copy.tag, copy.lane)] = true;
        run.waiting.push_back(posted.get());
        run.streams.push_back(std::move(posted));
    }
    run.cost->started_copies().clear();
    post_copies();
}

/// As many at once as the engine's DMA has channels.
void KernelUnit::post_copies() {
    Run& run = *run_;
    const size_t channels = std::max<size_t>(place().engine_platform->dma().channels(), 1);
    while (!run.waiting.empty() && run.copies_open < channels) {
        LaunchStream& first = *run.waiting.front();
        run.waiting.pop_front();
        ++run.copies_open;
        first.transaction = post(descriptor_of(first.copy), *run.command, &first);
    }
}

PlannedStream KernelUnit::descriptor_of(const KernelCopy& copy) const {
    const proto::Dma& dma = place().engine_platform->dma();
    const KernelBufferPlace& from = run_->cost->places()[copy.source];
    PlannedStream planned;
    StreamRequest& request = planned.request;
    request.unit = place().unit;
    request.op = run_->command->task->task->op;
    request.port_bytes_per_cycle = dma.bytes_per_cycle();
    use_dma(request, dma);
    if (copy.of_tiles) {
        request.source = side_of(copy.source, copy.source_pattern);
        request.destination = side_of(copy.destination, copy.destination_pattern);
        return planned;
    }
    request.destination = side_of(copy.destination, copy.destination_byte, copy.bytes);
    request.source.engine = place().engine;
    if (copy.source_byte < from.bytes)  // else it moves zeros
        request.source =
            side_of(copy.source, copy.source_byte, std::min(copy.bytes, from.bytes - copy.source_byte));
    return planned;
}

StreamSide KernelUnit::side_of(uint32_t buffer, uint64_t byte, uint64_t bytes) const {
    Footprint pattern;
    pattern.address = byte;
    pattern.run_bytes = bytes;
    return side_of(buffer, pattern);
}

/// `pattern`: from the start of the buffer.
StreamSide KernelUnit::side_of(uint32_t buffer, const Footprint& pattern) const {
    const KernelBufferPlace& where = run_->cost->places()[buffer];
    StreamSide side;
    side.is_memory = true;
    side.level = where.level;
    side.engine = where.engine;
    side.pattern = pattern;
    side.pattern.address += where.address;
    return side;
}

/// Operands where they are, workgroup memory behind what the program uses of L1.
std::vector<KernelBufferPlace> KernelUnit::places_of(const TaskCommand& given) const {
    const BoundTask& task = *given.task->task;
    std::vector<KernelBufferPlace> places;
    uint64_t free =
        place().engine < place().program->l1_bytes.size() ? place().program->l1_bytes[place().engine] : 0;
    free += run_->room * task.launch->code->workgroup_bytes();
    size_t next = 0;
    for (const kernel::CodeBuffer& buffer : task.launch->code->buffers) {
        if (buffer.is_workgroup()) {
            const uint64_t bytes = uint64_t{buffer.count} * kernel::storage_bits(buffer.type) / 8;
            places.push_back({Level::l1, place().engine, free, bytes});
            free += task.launch->code->room_of(buffer);
            continue;
        }
        const BoundLaunch::Operand& operand = task.launch->operands[next++];
        const values::RegionView& view = operand.input >= 0
                                             ? given.task->inputs[static_cast<size_t>(operand.input)]
                                             : given.task->outputs[static_cast<size_t>(operand.output)];
        places.push_back({view.region->level, view.region->engine, view.address, view.region->extent});
    }
    return places;
}

}  // namespace kpu::model
