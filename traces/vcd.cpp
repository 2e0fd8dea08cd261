#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "traces/binned_signals.hpp"
#include "traces/formats.hpp"
#include "traces/writers.hpp"

namespace kpu::traces {

namespace {

/// A signal whose value changes only at the edges of bins.
struct BinnedSignal {
    std::string name, code;
    const std::vector<double>* values;  ///< per bin
    double last = 0;
};

struct UnitSignals {
    std::string state, cause, task;        ///< VCD codes; "" = the unit has no such signal
    std::vector<std::string> state_lines;  ///< by Cause: the changes of state and cause, ready to write
    std::array<std::string, 2> counters;   ///< queue_depth, tokens_in_flight
    std::array<int64_t, 2> counter_values{};
    std::array<int64_t, 2> counter_shown{};
    uint8_t cause_now = static_cast<uint8_t>(Cause::idle_no_work), cause_shown = cause_now;
    uint32_t task_now = no_task, task_shown = no_task;  ///< statement index
    std::vector<size_t> binned;                         ///< indices of its binned signals
    bool touched = false;
};

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

/// VCD strings end at white space.
std::string word(std::string_view text) {
    std::string out(text);
    for (char& c : out) {
        if (static_cast<unsigned char>(c) <= ' ' || c == '\x7f') c = '_';
    }
    return out.empty() ? "-" : out;
}

/// "name", or "name@tag" of a task with a profile tag.
std::string task_text(const RunInfo::Statement& statement) {
    return statement.profile.empty() ? statement.name : statement.name + "@" + statement.profile;
}

class VcdWriter {
  public:
    VcdWriter(const RunInfo& info, const Events& events, Output& output)
        : info_(info),
          events_(events),
          output_(output),
          bins_(info, events, info.prices.not_modelled.empty()),
          width_(bins_.width),
          bin_count_(bins_.count) {
        for (const RunInfo::Statement& statement : info.statements)
            task_text_.push_back("s" + word(task_text(statement)) + " ");
    }

    void write() {
        collect();
        header();
        now_ = info_.from();
        while (next_bin_ < bin_count_ && (next_bin_ + 1) * width_ <= now_) ++next_bin_;
        for (const Event& event : events_) {
            if (event.time_ps >= info_.to()) break;
            if (event.kind == EventKind::issue && event.task < statement_of_.size())
                statement_of_[event.task] = event.op;
            if (event.kind != EventKind::cause && event.kind != EventKind::counter) continue;
            advance(event.time_ps);
            if (shown_[event.unit]) apply(event);
        }
        advance(info_.to());
        if (shown_time_ == no_time) changes();
        if (shown_time_ != info_.to()) stamp(info_.to());
    }

  private:
    /// Which units and tasks have which signals, and a code for each.
    void collect() {
        units_.resize(info_.units.size());
        for (const UnitInfo& unit : info_.units) shown_.push_back(info_.view.shows(unit.name));
        size_t next = 0;
        uint32_t serials = 0;
        std::vector<bool> has_task(units_.size()), has_bytes(units_.size());
        std::vector<std::array<bool, 2>> has_counter(units_.size());
        for (const Event& event : events_) {
            if (event.kind == EventKind::issue && event.task < events_.size())
                serials = std::max(serials, event.task + 1);
            if (event.kind == EventKind::cause && event.task != no_task) has_task.at(event.unit) = true;
            if (event.kind != EventKind::counter) continue;
            if (event.cause == static_cast<uint8_t>(CounterId::bytes)) has_bytes.at(event.unit) = true;
            if (event.cause < 2) has_counter.at(event.unit)[event.cause] = true;
        }
        statement_of_.assign(serials, no_task);
        for (size_t i = 0; i < units_.size(); ++i) {
            if (!shown_[i]) continue;
            UnitSignals& unit = units_[i];
            unit.state = code_of(next++);
            unit.cause = code_of(next++);
            for (int cause = 0; cause < cause_count; ++cause) {
                unit.state_lines.push_back(fmt::format("s{} {}\nb{:b} {}\n",
                                                       full_name_of(static_cast<Cause>(cause)), unit.state,
                                                       cause, unit.cause));
            }
            if (has_task[i]) unit.task = code_of(next++);
            for (size_t c = 0; c < 2; ++c) {
                if (has_counter[i][c]) unit.counters[c] = code_of(next++);
            }
            const auto binned = [&](const char* name, const std::vector<double>& values) {
                unit.binned.push_back(binned_.size());
                binned_.push_back({name, code_of(next++), &values});
            };
            if (has_bytes[i]) binned("bandwidth_gbps", bins_.bandwidth[i]);
            if (bins_.unit_power[0].empty() || info_.units[i].kind == UnitKind::device) continue;
            binned("power_dynamic_w", bins_.unit_power[0][i]);
            binned("power_static_w", bins_.unit_power[1][i]);
        }
        first_device_ = binned_.size();
        if (info_.dram_burst_bytes > 0) {
            binned_.push_back({"dram.read_gbps", code_of(next++), &bins_.dram[0]});
            binned_.push_back({"dram.write_gbps", code_of(next++), &bins_.dram[1]});
        }
        for (size_t row = 0; row < bins_.power.size() && info_.prices.not_modelled.empty(); ++row)
            binned_.push_back({BinnedSignals::power_name(row), code_of(next++), &bins_.power[row]});
    }

    void header() {
        output_.print("$version kpusim VCD 1 $end\n$comment program {} platform {} $end\n",
                      word(info_.program), word(info_.platform));
        output_.print("$comment cause:");
        for (int cause = 0; cause < cause_count; ++cause) {
            output_.print(" {}={}", cause, full_name_of(static_cast<Cause>(cause)));
        }
        output_.print(" $end\n$comment bin_ps={} $end\n$timescale 1 ps $end\n$scope module kpusim $end\n",
                      width_);
        for (size_t i = 0; i < units_.size(); ++i) {
            if (!shown_[i]) continue;
            const UnitSignals& unit = units_[i];
            output_.print("$scope module {} $end\n", word(info_.units[i].name));
            output_.print("$var string 1 {} state $end\n$var reg 5 {} cause $end\n", unit.state, unit.cause);
            if (!unit.task.empty()) output_.print("$var string 1 {} task $end\n", unit.task);
            for (size_t c = 0; c < 2; ++c) {
                if (!unit.counters[c].empty()) {
                    output_.print("$var reg 32 {} {} $end\n", unit.counters[c],
                                  c == 0 ? "queue_depth" : "tokens_in_flight");
                }
            }
            for (const size_t index : unit.binned)
                output_.print("$var real 64 {} {} $end\n", binned_[index].code, binned_[index].name);
            output_.print("$upscope $end\n");
        }
        for (size_t i = first_device_; i < binned_.size(); ++i) {
            output_.print("$var real 64 {} {} $end\n", binned_[i].code, binned_[i].name);
        }
        output_.print("$upscope $end\n$enddefinitions $end\n");
    }

    /// Shows what changed at now_, and every bin that starts before `time`; then now_ is `time`.
    void advance(Picoseconds time) {
        if (time <= now_) return;
        changes();
        while (next_bin_ < bin_count_ && next_bin_ * width_ < time) {
            now_ = next_bin_ * width_;
            changes();
        }
        now_ = time;
    }

    void apply(const Event& event) {
        UnitSignals& unit = units_[event.unit];
        if (event.kind == EventKind::cause) {
            unit.cause_now = event.cause;
            unit.task_now = event.task < statement_of_.size() ? statement_of_[event.task] : no_task;
        } else if (event.cause < 2) {
            unit.counter_values[event.cause] = event.value;
        }
        if (!unit.touched) {
            unit.touched = true;
            touched_.push_back(event.unit);
        }
    }

    void changes() {
        const bool first = shown_time_ == no_time;
        if (first) {
            stamp(now_);
            output_.write("$dumpvars\n");
            for (size_t i = 0; i < units_.size(); ++i)
                if (shown_[i]) show(units_[i], true);
        }
        for (const uint16_t unit : touched_) {
            units_[unit].touched = false;
            show(units_[unit], false);
        }
        touched_.clear();
        if (first && bin_count_ == 0) {
            for (const BinnedSignal& signal : binned_) real(0, signal.code);
        }
        if (next_bin_ < bin_count_ && (first || next_bin_ * width_ == now_)) {
            for (BinnedSignal& signal : binned_) {
                if (!first && (*signal.values)[next_bin_] == signal.last) continue;
                signal.last = (*signal.values)[next_bin_];
                stamp(now_);
                real(signal.last, signal.code);
            }
            ++next_bin_;
        }
        if (first) output_.write("$end\n");
    }

    void show(UnitSignals& unit, bool always) {
        if (always || unit.cause_now != unit.cause_shown) {
            stamp(now_);
            output_.write(unit.state_lines[unit.cause_now]);
            unit.cause_shown = unit.cause_now;
        }
        if (!unit.task.empty() && (always || unit.task_now != unit.task_shown)) {
            put(unit.task_now < task_text_.size() ? std::string_view(task_text_[unit.task_now]) : "s- ",
                unit.task);
            unit.task_shown = unit.task_now;
        }
        for (size_t c = 0; c < 2; ++c) {
            if (unit.counters[c].empty() || (!always && unit.counter_values[c] == unit.counter_shown[c]))
                continue;
            const auto value =
                static_cast<uint32_t>(std::clamp<int64_t>(unit.counter_values[c], 0, UINT32_MAX));
            std::array<char, 40> text;
            text[0] = 'b';
            char* end = std::to_chars(text.data() + 1, text.data() + text.size() - 1, value, 2).ptr;
            *end++ = ' ';
            put({text.data(), static_cast<size_t>(end - text.data())}, unit.counters[c]);
            unit.counter_shown[c] = unit.counter_values[c];
        }
    }

    void put(std::string_view value, std::string_view code) {
        stamp(now_);
        line_.assign(value);
        line_ += code;
        line_ += '\n';
        output_.write(line_);
    }
    void real(double value, std::string_view code) {
        std::array<char, 40> text;
        text[0] = 'r';
        char* end = std::to_chars(text.data() + 1, text.data() + text.size() - 1, value).ptr;
        *end++ = ' ';
        output_.write({text.data(), static_cast<size_t>(end - text.data())});
        output_.write(code);
        output_.write("\n");
    }
    void stamp(Picoseconds time) {
        if (shown_time_ == time) return;
        std::array<char, 32> text;
        text[0] = '#';
        char* end = std::to_chars(text.data() + 1, text.data() + text.size() - 1, time).ptr;
        *end++ = '\n';
        output_.write({text.data(), static_cast<size_t>(end - text.data())});
        shown_time_ = time;
    }

    static constexpr Picoseconds no_time = ~Picoseconds{0};
    const RunInfo& info_;
    const Events& events_;
    Output& output_;
    BinnedSignals bins_;
    Picoseconds width_;
    size_t bin_count_;
    Picoseconds now_ = 0, shown_time_ = no_time;
    std::vector<std::string> task_text_;
    std::string line_;  ///< of put(), kept for its storage
    std::vector<UnitSignals> units_;
    std::vector<bool> shown_;             ///< by unit: the view has it
    std::vector<uint32_t> statement_of_;  ///< by task serial
    std::vector<uint16_t> touched_;
    std::vector<BinnedSignal> binned_;
    size_t first_device_ = 0, next_bin_ = 0;
};

}  // namespace

void write_vcd(const RunInfo& info, const Events& events, Output& output) {
    VcdWriter(info, events, output).write();
}

namespace {

uint64_t vcd_size(const RunInfo& /*info*/, const RecordCounts& counts) {
    constexpr uint64_t state = 31, counter = 8;
    return counts.of(EventKind::cause) * state + counts.of(EventKind::counter) * counter;
}

}  // namespace

extern const Format vcd_format;
const Format vcd_format{"vcd",
                        "VCD",
                        "unit states, queues, bandwidth and power as waveforms",
                        {},
                        false,
                        vcd_size,
                        [](const RunInfo& info, const Events& events, const OptionValues& /*options*/,
                           Output& output) { write_vcd(info, events, output); }};

}  // namespace kpu::traces
