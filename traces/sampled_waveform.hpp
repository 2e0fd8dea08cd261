#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "traces/majority.hpp"
#include "traces/waveform.hpp"

namespace kpu::traces {

/// Thins a waveform on its way to `sink`: of each interval of `every` picoseconds the texts and numbers that held longest,
/// as signals whose names end in _majority. Reals, which are means of such intervals, pass. Keeps the changes of one
/// interval.
class SampledWaveform final : public WaveformSink {
  public:
    SampledWaveform(WaveformSink& sink, Picoseconds every) : sink_(sink), every_(every) {}
    void comment(const std::string& text) override { sink_.comment(text); }
    void begin_scope(const std::string& name) override { sink_.begin_scope(name); }
    void end_scope() override { sink_.end_scope(); }
    void declare(const std::string& name, Kind kind, unsigned bits) override;
    void begin_values() override { sink_.begin_values(); }
    void time(Picoseconds time) override;
    void text(size_t signal, std::string_view value) override;
    void number(size_t signal, uint32_t value) override { change(signal, value); }
    void unknown(size_t signal) override { change(signal, unknown_value); }
    void real(size_t signal, double value) override { reals_.emplace_back(signal, value); }
    /// Shows what is open; the waveform ends where the last time() was.
    void finish();

  private:
    using Value = uint64_t;  ///< a number, the place of a text, unknown or none
    static constexpr Value unknown_value = ~Value{0}, no_value = unknown_value - 1;
    struct Signal {
        Kind kind = Kind::text;
        Value now = no_value, shown = no_value;
        Picoseconds since = 0;
        Majority<Value> held;  ///< in the interval, before `since`
        bool open = false;     ///< in open_
    };

    void change(size_t signal, Value value);
    void close(Picoseconds end);
    void show(size_t signal);

    WaveformSink& sink_;
    Picoseconds every_;
    bool begun_ = false, first_shown_ = false;
    Picoseconds now_ = 0, start_ = 0, end_ = 0,
                sink_time_ = ~Picoseconds{0};  ///< start_, end_: of the interval
    std::vector<Signal> signals_;
    std::vector<size_t> open_;  ///< signals that changed in the interval, or are not shown as they are
    std::vector<std::pair<size_t, double>> reals_;
    std::unordered_map<std::string, Value> places_;
    std::vector<std::string> texts_;
};

}  // namespace kpu::traces
