#include <array>
#include <charconv>

#include "traces/formats.hpp"
#include "traces/waveform.hpp"
#include "traces/writers.hpp"

namespace kpu::traces {

namespace {

/// Printable VCD identifiers: !, ", ..., ~, !!, ...
std::string code_of(size_t index) {
    constexpr size_t first = 33, radix = 94;
    std::string code;
    do {
        code += static_cast<char>(first + index % radix);
        index /= radix;
    } while (index-- > 0);
    return code;
}

class VcdSink final : public WaveformSink {
  public:
    explicit VcdSink(Output& output) : output_(output) { output_.print("$version kpusim VCD 1 $end\n"); }

    void comment(const std::string& text) override { output_.print("$comment {} $end\n", text); }
    void begin_scope(const std::string& name) override {
        if (!timed_) output_.print("$timescale 1 ps $end\n");
        timed_ = true;
        output_.print("$scope module {} $end\n", name);
    }
    void end_scope() override { output_.print("$upscope $end\n"); }
    void declare(const std::string& name, Kind kind, unsigned bits) override {
        static constexpr std::array<const char*, 3> types = {"string", "reg", "real"};
        const std::string code = code_of(codes_.size());
        output_.print("$var {} {} {} {} $end\n", types[static_cast<size_t>(kind)], bits, code, name);
        codes_.push_back(" " + code + "\n");
        bits_.push_back(bits);
    }
    void begin_values() override { output_.print("$enddefinitions $end\n"); }
    void end_first_values() override { output_.write("$end\n"); }

    void time(Picoseconds time) override {
        put_number('#', time, 10, "\n");
        if (first_) output_.write("$dumpvars\n");
        first_ = false;
    }
    void text(size_t signal, std::string_view value) override {
        line_.assign(1, 's');
        line_ += value;
        line_ += codes_[signal];
        output_.write(line_);
    }
    void number(size_t signal, uint32_t value) override { put_number('b', value, 2, codes_[signal]); }
    void unknown(size_t signal) override {
        output_.write("b" + std::string(bits_[signal], 'x') + codes_[signal]);
    }
    void real(size_t signal, double value) override {
        std::array<char, 40> text;
        text[0] = 'r';
        char* const end = std::to_chars(text.data() + 1, text.data() + text.size(), value).ptr;
        put({text.data(), static_cast<size_t>(end - text.data())}, codes_[signal]);
    }

  private:
    void put(std::string_view value, const std::string& rest) {
        line_.assign(value);
        line_ += rest;
        output_.write(line_);
    }
    void put_number(char kind, uint64_t value, int base, const std::string& rest) {
        std::array<char, 40> text;
        text[0] = kind;
        char* const end = std::to_chars(text.data() + 1, text.data() + text.size(), value, base).ptr;
        put({text.data(), static_cast<size_t>(end - text.data())}, rest);
    }

    Output& output_;
    std::vector<std::string> codes_;  ///< what ends a change of each signal
    std::vector<unsigned> bits_;
    std::string line_;  ///< kept for its storage
    bool timed_ = false, first_ = true;
};

uint64_t vcd_size(const RunInfo& /*info*/, const RecordCounts& counts) {
    constexpr uint64_t state = 31, counter = 8;
    return counts.of(EventKind::cause) * state + counts.of(EventKind::counter) * counter;
}

}  // namespace

void write_vcd(const RunInfo& info, const Events& events, Output& output) {
    VcdSink sink(output);
    write_waveform(info, events, sink);
}

extern const Format vcd_format;
const Format vcd_format{"vcd",
                        "VCD",
                        "unit states, queues, bandwidth and power as waveforms",
                        {},
                        false,
                        vcd_size,
                        [](const RunInfo& info, const Events& events, const OptionValues& /*options*/,
                           Output& output) { write_vcd(info, events, output); },
                        false,
                        true};

}  // namespace kpu::traces
