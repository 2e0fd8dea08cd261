#include "model/memory/ddr_controllers.hpp"

#include <algorithm>

#include "base/diagnostics.hpp"
#include "model/memory/bank_recorder.hpp"

namespace kpu::model {

DdrController::DdrController(const dram::Config& config, const ClockCrossing& crossing)
    : channel_(config), crossing_(crossing), burst_bytes_(config.geometry.burst_bytes) {
    channel_.record_activities(&activities_);
}

void DdrController::take(const dram::Request& request) {
    advance(request.time);
    channel_.post(request);
    peak_queue_ = std::max<uint64_t>(peak_queue_, channel_.waiting());
}

void DdrController::advance(uint64_t until) {
    if (channel_.now() < until) channel_.advance(until);
    if (!activities_.empty()) account_activities();
}

/// Accounts for activities: work holds a channel from its arrival until the data of the last column command
/// has moved.
void DdrController::account_activities() {
    for (const dram::Activity& activity : activities_) {
        const Cycles from = crossing_.to_core(activity.from);
        account.busy.overhead(accounted_, std::max(accounted_, crossing_.to_core(activity.since)), from);
        account.busy.useful(accounted_, from, crossing_.to_core(activity.to));
        accounted_ = std::max(accounted_, crossing_.to_core(activity.last_command));
    }
    activities_.clear();
}

void DdrController::finish(uint64_t end) {
    advance(end);
    const dram::Counters at_end = channel_.counters(std::max(end, channel_.now()));
    channel_.record_activities(nullptr);
    account_activities();
    channel_.advance_to_idle(dram::never / 2);
    const dram::Counters all = channel_.counters(0);
    counters_.reads = all.reads;
    counters_.writes = all.writes;
    counters_.activates = all.activates;
    counters_.row_hits = all.row_hits;
    counters_.forwarded = all.forwarded;
    counters_.refreshes = at_end.refreshes;
    counters_.rank_times = at_end.rank_times;
    counters_.charged_activates = charged_activates;
    account.bytes_read = counters_.reads * burst_bytes_;
    account.bytes_written = counters_.writes * burst_bytes_;
}

DdrControllers::DdrControllers(const DdrConfig& config, const Clock& core)
    : crossing_(core, Clock(config.timing.clock_hz)),
      interleave_(config),
      load_(config.channels),
      burst_bytes_(config.timing.burst_bytes),
      memory_(config.timing.clock_hz),
      geometry_(config.controller->geometry) {
    const dram::Config& controller = *config.controller;
    for (uint32_t i = 0; i < config.channels; ++i)
        channels_.push_back(std::make_unique<DdrController>(controller, crossing_));
    const uint64_t least = uint64_t{controller.policy.request_nck} + controller.policy.response_nck;
    // one less: the edges of the two clocks are rounded to picoseconds
    least_time_ = std::max<Cycles>(2, least * (core.hz() / 1000) / (config.timing.clock_hz / 1000)) - 1;
}

DdrControllers::~DdrControllers() = default;

void DdrControllers::trace_banks_to(traces::EventSink& sink, const std::vector<uint16_t>& units) {
    recorder_ = std::make_unique<BankRecorder>(sink, memory_, geometry_, units);
    for (size_t c = 0; c < channels_.size(); ++c) channels_[c]->observe(recorder_->of_channel(c));
}

void DdrControllers::take(const DdrRequest& request, uint64_t address, uint32_t bytes, bool is_write) {
    const uint64_t place = interleave_.channel(address);
    DdrController& channel = *channels_[place];
    const uint64_t local = interleave_.local(address), arrival = crossing_.to_memory(request.arrival);
    const uint32_t tag = open_.take();
    open_[tag] = request;
    load_.count(place);
    open_[tag].camps = load_.camps();
    ++channel.requests;
    ++requests_;
    const uint64_t bursts = burst_bytes_.quotient(local + bytes - 1) - burst_bytes_.quotient(local) + 1;
    channel.take({arrival, local, is_write, tag, static_cast<uint32_t>(bursts),
                  recorder_ ? recorder_->source_of(*request.stream) : 0});
    collect(channel);
    if (channel.requests > 0) bound_ = std::min(bound_, crossing_.to_core(channel.bound()));
}

void DdrControllers::advance(Cycles until) {
    if (requests_ == 0) return;
    const uint64_t clock = crossing_.to_memory(until);
    if (clock <= advanced_) return;
    advanced_ = clock;
    bound_ = never;
    for (const auto& channel : channels_) {
        if (channel->requests == 0) continue;
        channel->advance(clock);
        collect(*channel);
        if (channel->requests > 0) bound_ = std::min(bound_, crossing_.to_core(channel->bound()));
    }
}

void DdrControllers::collect(DdrController& channel) {
    if (channel.completions().empty()) return;
    for (const dram::Completion& completion : channel.completions()) {
        channel.charged_activates += completion.activates;
        --channel.requests;
        --requests_;
        const auto tag = static_cast<uint32_t>(completion.tag);
        answer(open_[tag], completion);
        open_.give_back(tag);
    }
    channel.completions().clear();
    if (requests_ == 0) bound_ = never;
}

void DdrControllers::answer(const DdrRequest& request, const dram::Completion& completion) {
    const dram::Waits& waits = completion.waits;
    answers_.push_back({request, std::max(request.arrival + 1, crossing_.to_core(completion.done)),
                        crossing_.duration_in_core(waits.refresh), crossing_.duration_in_core(waits.row),
                        crossing_.duration_in_core(uint64_t{waits.busy} + waits.turn_around),
                        completion.bursts, completion.activates,
                        request.camps ? dram::Held::imbalance : completion.held});
}

void DdrControllers::finish(Cycles elapsed) {
    for (const auto& channel : channels_) channel->finish(crossing_.to_memory(elapsed));
}

}  // namespace kpu::model
