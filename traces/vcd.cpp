#include <array>
#include <charconv>
#include <cstring>

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
    void end_first_values() override { put("$end\n"); }

    void time(Picoseconds time) override {
        char* at = room(most_digits + 2);
        *at++ = '#';
        at = std::to_chars(at, at + most_digits, time).ptr;
        *at++ = '\n';
        end_ = at;
        if (first_) put("$dumpvars\n");
        first_ = false;
    }
    void text(size_t signal, std::string_view value) override {
        *room(1) = 's';
        ++end_;
        put(value);
        put(codes_[signal]);
    }
    void number(size_t signal, uint32_t value) override {
        char* at = room(most_digits + 1);
        *at++ = 'b';
        end_ = std::to_chars(at, at + most_digits, value, 2).ptr;
        put(codes_[signal]);
    }
    void unknown(size_t signal) override {
        put("b" + std::string(bits_[signal], 'x'));
        put(codes_[signal]);
    }
    void real(size_t signal, double value) override {
        char* at = room(most_digits + 1);
        *at++ = 'r';
        end_ = std::to_chars(at, at + most_digits, value).ptr;
        put(codes_[signal]);
    }
    void flush() {
        output_.write({buffer_.data(), static_cast<size_t>(end_ - buffer_.data())});
        end_ = buffer_.data();
    }

  private:
    static constexpr size_t most_digits = 40;

    char* room(size_t bytes) {
        if (static_cast<size_t>(buffer_.data() + buffer_.size() - end_) < bytes) flush();
        return end_;
    }
    void put(std::string_view bytes) {
        if (bytes.size() > buffer_.size()) {
            flush();
            return output_.write(bytes);
        }
        std::memcpy(room(bytes.size()), bytes.data(), bytes.size());
        end_ += bytes.size();
    }

    Output& output_;
    std::vector<char> buffer_ = std::vector<char>(1 << 16);  ///< values, until end_
    char* end_ = buffer_.data();
    std::vector<std::string> codes_;  ///< ends of the changes of each signal
    std::vector<unsigned> bits_;
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
    sink.flush();
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
