#include "model/fabric/ddr_controllers.hpp"

#include <algorithm>

#include "isa/diagnostics.hpp"

namespace kpu::model {

DdrController::DdrController(const dram::Config& config, const ClockCrossing& crossing)
    : channel_(config),
      crossing_(crossing),
      timing_(config.timing),
      burst_bytes_(config.geometry.burst_bytes) {
    channel_.observe(this);
}

void DdrController::take(uint64_t arrival, uint64_t first, uint32_t bursts, bool is_write, uint32_t tag) {
    advance(arrival);
    if (channel_.idle()) busy_since_ = crossing_.to_core(arrival);
    for (uint64_t address = first; bursts > 0; --bursts, address += burst_bytes_)
        channel_.post({arrival, address, is_write, tag});
    peak_queue_ = std::max<uint64_t>(peak_queue_, channel_.waiting());
}

void DdrController::advance(uint64_t until) {
    if (channel_.now() < until) channel_.advance(until);
}

/// Work holds a channel from its arrival until the data of the last column command has moved.
void DdrController::on_command(const dram::IssuedCommand& command) {
    const bool is_write = command.command == dram::Command::write;
    if (is_write || command.command == dram::Command::read) {
        const uint64_t data = command.time + (is_write ? timing_.cwl : timing_.cl);
        if (moves_.from == moves_.to || data != moves_.to) {
            account_moves();
            moves_.worked_since = std::max(accounted_, busy_since_);
            moves_.from = data;
        }
        moves_.to = data + timing_.burst;  // back to back: nothing else holds the bus between
        moves_.last_command = command.time;
    } else if (command.command == dram::Command::refresh) {
        account_moves();
        const Cycles now = accounted_, at = crossing_.to_core(command.time);
        account.busy.overhead(now, channel_.idle() ? std::max(now, at) : std::max(now, busy_since_),
                              crossing_.to_core(command.time + timing_.trfc));
        accounted_ = std::max(now, at);
    }
}

void DdrController::account_moves() {
    if (moves_.from == moves_.to) return;
    const Cycles from = crossing_.to_core(moves_.from);
    account.busy.overhead(accounted_, moves_.worked_since, from);
    account.busy.useful(accounted_, from, crossing_.to_core(moves_.to));
    accounted_ = std::max(accounted_, crossing_.to_core(moves_.last_command));
    moves_.from = moves_.to;
}

void DdrController::finish(uint64_t end) {
    advance(end);
    const dram::Counters at_end = channel_.counters(std::max(end, channel_.now()));
    account_moves();
    channel_.observe(nullptr);
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
      burst_bytes_(config.timing.burst_bytes) {
    const dram::Config& controller = *config.controller;
    for (uint32_t i = 0; i < config.channels; ++i)
        channels_.push_back(std::make_unique<DdrController>(controller, crossing_));
    const uint64_t least = uint64_t{controller.policy.request_nck} + controller.policy.response_nck;
    // one less: the edges of the two clocks are rounded to picoseconds
    least_time_ = std::max<Cycles>(2, least * (core.hz() / 1000) / (config.timing.clock_hz / 1000)) - 1;
}

void DdrControllers::take(const DdrRequest& request, uint64_t address, uint32_t bytes, bool is_write) {
    DdrController& channel = *channels_[interleave_.channel(address)];
    const uint64_t local = interleave_.local(address), arrival = crossing_.to_memory(request.arrival);
    if (free_.empty()) {
        free_.push_back(static_cast<uint32_t>(open_.size()));
        open_.emplace_back();
    }
    const uint32_t tag = free_.back();
    free_.pop_back();
    Open& open = open_[tag];
    open = {};
    open.request = request;
    open.arrival = arrival;
    open.busy_wait = ~uint64_t{0};
    const uint64_t first = local & ~(burst_bytes_ - 1);
    open.left = static_cast<uint32_t>((local + bytes - first + burst_bytes_ - 1) / burst_bytes_);
    ++channel.requests;
    ++requests_;
    channel.take(arrival, first, open.left, is_write, tag);
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
    for (const dram::Completion& completion : channel.completions()) {
        Open& open = open_[completion.tag];
        const uint64_t queued = completion.arrival - open.arrival;
        open.done = std::max(open.done, completion.done);
        open.row_wait = std::max<uint64_t>(open.row_wait, completion.waits.row);
        open.refresh_wait = std::max<uint64_t>(open.refresh_wait, completion.waits.refresh);
        // the others wait for the bursts of their own request, too
        open.busy_wait =
            std::min<uint64_t>(open.busy_wait, queued + completion.waits.busy + completion.waits.turn_around);
        open.bursts += completion.forwarded ? 0 : 1;
        if (!completion.is_write && !completion.row_hit) ++open.activates;
        if (--open.left > 0) continue;
        channel.charged_activates += open.activates;
        --channel.requests;
        --requests_;
        answer(open);
        free_.push_back(static_cast<uint32_t>(completion.tag));
    }
    channel.completions().clear();
    if (requests_ == 0) bound_ = never;
}

void DdrControllers::answer(const Open& open) {
    answers_.push_back({open.request, std::max(open.request.arrival + 1, crossing_.to_core(open.done)),
                        crossing_.duration_in_core(open.refresh_wait),
                        crossing_.duration_in_core(open.row_wait), crossing_.duration_in_core(open.busy_wait),
                        open.bursts, open.activates});
}

void DdrControllers::finish(Cycles elapsed) {
    for (const auto& channel : channels_) channel->finish(crossing_.to_memory(elapsed));
}

}  // namespace kpu::model
