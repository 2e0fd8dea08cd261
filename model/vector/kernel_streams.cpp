// Streams of launches: what a kernel asks of L1, and its copies.
#include <algorithm>

#include "model/vector/kernel_run.hpp"

namespace kpu::model {

/// Posts what was asked of L1 since the last time. Words that repeat are posted as whole walks over what they
/// lie in; the rest of them goes with the next window.
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

/// Posts copies, as many at once as the engine's DMA has channels.
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

uint64_t KernelUnit::workgroup_begin(const TaskCommand& given) const {
    const std::vector<uint64_t>& used = place().program->l1_bytes;
    const uint64_t free = place().engine < used.size() ? used[place().engine] : 0;
    return free + run_->room * given.task->task->launch->code->workgroup_bytes();
}

/// Returns the places: operands where they are, workgroup memory after what the program uses of L1.
std::vector<KernelBufferPlace> KernelUnit::places_of(const TaskCommand& given) const {
    const BoundTask& task = *given.task->task;
    std::vector<KernelBufferPlace> places;
    const uint64_t begin = workgroup_begin(given);
    uint64_t used = 0;
    size_t next = 0;
    for (const kernel::CodeBuffer& buffer : task.launch->code->buffers) {
        if (buffer.is_workgroup()) {
            used = task.launch->code->begin_of(buffer, used);
            places.push_back({Level::l1, place().engine, begin + used, buffer.declared_bytes()});
            used += buffer.declared_bytes();
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
