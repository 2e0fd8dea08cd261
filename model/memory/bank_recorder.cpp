#include "model/memory/bank_recorder.hpp"

#include "model/memory/stream_state.hpp"

namespace kpu::model {

BankRecorder::BankRecorder(traces::EventSink& sink, const Clock& memory, const dram::Geometry& geometry,
                           const std::vector<uint16_t>& units)
    : sink_(sink), memory_(memory) {
    for (const uint16_t unit : units) channels_.emplace_back(geometry, *this, unit);
}

uint32_t BankRecorder::source_of(const StreamState& stream) {
    const uint64_t key = uint64_t{stream.task()} << 16 | stream.unit;
    const auto [place, added] = known_.try_emplace(key, static_cast<uint32_t>(sources_.size()));
    if (added) sources_.push_back({stream.task(), stream.op(), stream.unit});
    return place->second;
}

void BankRecorder::Channel::on_use(const traces::BankUse& use, const dram::IssuedCommand& command) {
    const Source& source = recorder_.sources_[command.source];
    traces::Event event;
    event.kind = traces::EventKind::bank;
    event.time_ps = recorder_.memory_.edge(command.time);
    event.unit = unit_;
    event.task = source.task;
    event.op = source.op;
    event.value = source.unit;
    event.cause = use.code();
    event.reserved = command.bank;
    recorder_.sink_.record(event);
}

}  // namespace kpu::model
