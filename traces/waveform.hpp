#pragma once

#include <string>
#include <string_view>

#include "traces/events.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// A file of waveforms while it is written. Signals have numbers, from 0 in the order of their declaration.
class WaveformSink {
  public:
    enum class Kind : uint8_t { text, bits, real };

    virtual ~WaveformSink() = default;
    virtual void comment(const std::string& text) = 0;
    virtual void begin_scope(const std::string& name) = 0;
    virtual void end_scope() = 0;
    virtual void declare(const std::string& name, Kind kind, unsigned bits) = 0;
    /// Ends the declarations; then come time() and the first value of every signal.
    virtual void begin_values() = 0;
    virtual void end_first_values() {}
    /// Sets the time of the changes that follow; times ascend.
    virtual void time(Picoseconds time) = 0;
    /// A word without white space.
    virtual void text(size_t signal, std::string_view value) = 0;
    /// `bits` of the signal, the highest first; nothing known of them: unknown().
    virtual void number(size_t signal, uint32_t value) = 0;
    virtual void unknown(size_t signal) = 0;
    virtual void real(size_t signal, double value) = 0;
};

/// The waveforms of a recording (writers.hpp says which signals), value for value the same in every kind of file.
void write_waveform(const RunInfo& info, const Events& events, WaveformSink& sink);
/// Writes its declarations alone, begin_values() the last.
void declare_waveform(const RunInfo& info, const Events& events, WaveformSink& sink);

}  // namespace kpu::traces
