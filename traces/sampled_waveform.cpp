#include "traces/sampled_waveform.hpp"

namespace kpu::traces {

void SampledWaveform::declare(const std::string& name, Kind kind, unsigned bits) {
    sink_.declare(kind == Kind::real ? name : name + "_majority", kind, bits);
    signals_.emplace_back().kind = kind;
}

void SampledWaveform::time(Picoseconds time) {
    if (!begun_) {
        begun_ = true;
        start_ = now_ = time;
        end_ = (time / every_ + 1) * every_;
        return;
    }
    while (time >= end_ && (!open_.empty() || !reals_.empty())) close(end_);
    if (time >= end_) {  // nothing changed for a while
        start_ = time / every_ * every_;
        end_ = start_ + every_;
    }
    now_ = time;
}

void SampledWaveform::text(size_t signal, std::string_view value) {
    const auto [place, added] = places_.emplace(std::string(value), texts_.size());
    if (added) texts_.emplace_back(value);
    change(signal, place->second);
}

void SampledWaveform::change(size_t signal, Value value) {
    Signal& row = signals_[signal];
    const Picoseconds since = std::max(row.since, start_);
    if (row.now != no_value && now_ > since) row.held.add(row.now, now_ - since);
    row.now = value;
    row.since = now_;
    if (!row.open) open_.push_back(signal);
    row.open = true;
}

/// The interval ends there.
void SampledWaveform::close(Picoseconds end) {
    const auto at_start = [this] {
        if (sink_time_ != start_) sink_.time(start_);
        sink_time_ = start_;
    };
    std::vector<size_t> open;
    for (const size_t signal : open_) {
        Signal& row = signals_[signal];
        const Picoseconds since = std::max(row.since, start_);
        if (end > since || row.held.empty()) row.held.add(row.now, end - since);
        const Value value = row.held.take();
        if (value != row.shown) {
            at_start();
            row.shown = value;
            show(signal);
        }
        row.open = row.now != row.shown;
        if (row.open) open.push_back(signal);
    }
    open_ = std::move(open);
    for (const auto& [signal, value] : reals_) {
        at_start();
        sink_.real(signal, value);
    }
    reals_.clear();
    if (!first_shown_) sink_.end_first_values();
    first_shown_ = true;
    start_ = end;
    end_ = (end / every_ + 1) * every_;
}

void SampledWaveform::show(size_t signal) {
    const Signal& row = signals_[signal];
    if (row.shown == unknown_value) {
        sink_.unknown(signal);
    } else if (row.kind == Kind::text) {
        sink_.text(signal, texts_[row.shown]);
    } else {
        sink_.number(signal, static_cast<uint32_t>(row.shown));
    }
}

void SampledWaveform::finish() {
    if (now_ > start_ || !first_shown_) close(now_);
    if (sink_time_ != now_) sink_.time(now_);
}

}  // namespace kpu::traces
