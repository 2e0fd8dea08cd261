#include "traces/waveform.hpp"

#include <algorithm>
#include <array>

#include "traces/binned_signals.hpp"
#include "traces/component_activity.hpp"
#include "traces/sampled_waveform.hpp"

namespace kpu::traces {

namespace {

using Kind = WaveformSink::Kind;

constexpr size_t no_signal = ~size_t{0};
constexpr unsigned cause_bits = 5, counter_bits = 32;
constexpr size_t shown_counters = 2;  ///< queue_depth, tokens_in_flight

constexpr uint8_t hidden = cause_count;  ///< in place of a cause: the view does not show the state

/// A signal whose value changes only at the edges of bins.
struct BinnedSignal {
    std::string name;
    const std::vector<double>* values;  ///< per bin
    size_t signal = no_signal;
    double last = 0;
};

/// Numbers of a unit's signals, and their values: now, and as they were written last.
struct UnitSignals {
    size_t state = no_signal, cause = no_signal, task = no_signal, op = no_signal;
    std::array<size_t, shown_counters> counters{no_signal, no_signal};
    std::array<int64_t, shown_counters> counter_values{}, counter_shown{};
    uint8_t cause_now = static_cast<uint8_t>(Cause::idle_no_work), cause_shown = cause_now;
    uint32_t task_now = no_task, task_shown = no_task;  ///< statement index
    uint32_t op_now = background_op, op_shown = background_op;
    std::vector<size_t> binned;  ///< indices of its binned signals
    bool touched = false;
};

/// Texts of waveforms end at white space.
std::string word(std::string_view text) {
    std::string out(text);
    for (char& c : out) {
        if (static_cast<unsigned char>(c) <= ' ' || c == '\x7f') c = '_';
    }
    return out.empty() ? "-" : out;
}

/// Returns "name", or "name@tag" of a task with a profile tag.
std::string task_text(const RunInfo::Statement& statement) {
    return statement.profile.empty() ? statement.name : statement.name + "@" + statement.profile;
}

class WaveformWriter {
  public:
    WaveformWriter(const RunInfo& info, const Events& events, WaveformSink& sink)
        : info_(info),
          events_(events),
          sink_(sink),
          energy_(info.prices.not_modelled.empty()),
          bins_(info, events, energy_),
          width_(bins_.width),
          bin_count_(bins_.count),
          activity_(info.prices, info.clock(), info.end_ps),
          states_(info) {
        for (const RunInfo::Statement& statement : info.statements)
            task_text_.push_back(word(task_text(statement)));
        for (const RunInfo::Op& op : info.ops) op_text_.push_back(word(op.id));
        for (int cause = 0; cause < cause_count; ++cause)
            cause_text_.emplace_back(full_name_of(static_cast<Cause>(cause)));
        cause_text_.emplace_back("-");
    }

    void declare_only() {
        collect();
        declare();
    }

    void write() {
        declare_only();
        now_ = info_.from();
        while (next_bin_ < bin_count_ && (next_bin_ + 1) * width_ <= now_) ++next_bin_;
        for (const Event& event : events_) {
            if (event.time_ps >= info_.to()) break;
            if (event.kind == EventKind::issue && event.task < statement_of_.size())
                statement_of_[event.task] = event.op;
            const bool active = event.kind == EventKind::active && energy_;
            if (event.kind != EventKind::cause && event.kind != EventKind::counter && !active) continue;
            advance(event.time_ps);
            if (active) {
                activity_.active(event);
            } else if (shown_[event.unit]) {
                apply(event);
            }
        }
        advance(info_.to());
        if (shown_time_ == no_time) changes();
        if (shown_time_ != info_.to()) stamp();
    }

  private:
    /// Kinds of records that a unit has.
    struct Found {
        bool task = false, bytes = false;
        std::array<bool, shown_counters> counters{};
    };

    void collect() {
        units_.resize(info_.units.size());
        found_.resize(info_.units.size());
        for (const UnitInfo& unit : info_.units) shown_.push_back(info_.view.shows(unit.name));
        uint32_t serials = 0;
        for (const Event& event : events_) {
            if (event.kind == EventKind::issue && event.task < events_.size())
                serials = std::max(serials, event.task + 1);
            if (event.kind == EventKind::cause && event.task != no_task) found_.at(event.unit).task = true;
            if (event.kind != EventKind::counter) continue;
            if (event.cause == static_cast<uint8_t>(CounterId::bytes)) found_.at(event.unit).bytes = true;
            if (event.cause < shown_counters) found_.at(event.unit).counters[event.cause] = true;
        }
        statement_of_.assign(serials, no_task);
    }

    size_t signal(const std::string& name, Kind kind, unsigned bits = 1) {
        sink_.declare(name, kind, bits);
        return next_signal_++;
    }

    void binned(std::string name, const std::vector<double>& values) {
        const size_t number = signal(name, Kind::real, 64);
        binned_.push_back({std::move(name), &values, number});
    }

    void declare() {
        sink_.comment(fmt::format("program {} platform {}", word(info_.program), word(info_.platform)));
        std::string causes = "cause:";
        for (int cause = 0; cause < cause_count; ++cause)
            causes += fmt::format(" {}={}", cause, cause_text_[static_cast<size_t>(cause)]);
        sink_.comment(causes);
        sink_.comment(fmt::format("bin_ps={}", width_));
        if (info_.view.every > 0)
            sink_.comment(fmt::format("sampled every {} ps: *_majority held longest, reals are means",
                                      info_.view.every));
        sink_.begin_scope("kpusim");
        for (size_t i = 0; i < units_.size(); ++i)
            if (shown_[i]) declare_unit(i);
        if (info_.dram_burst_bytes > 0) {
            sink_.begin_scope("dram");
            binned("read_gbps", bins_.dram[0]);
            binned("write_gbps", bins_.dram[1]);
            sink_.end_scope();
        }
        if (energy_) declare_power();
        sink_.end_scope();
        sink_.begin_values();
    }

    void declare_power() {
        sink_.begin_scope("power");
        for (size_t row = 0; row < bins_.power.size(); ++row)
            binned(BinnedSignals::power_name(row), bins_.power[row]);
        for (size_t c = 0; c < ComponentActivity::count; ++c) {
            sink_.begin_scope(std::string(name_of(static_cast<Component>(c))));
            component_signals_.push_back(signal("state", Kind::text));
            sink_.end_scope();
        }
        component_shown_.resize(component_signals_.size());
        sink_.end_scope();
    }

    void declare_unit(size_t i) {
        UnitSignals& unit = units_[i];
        if (!states_.shows(unit.cause_now, background_op)) unit.cause_now = hidden;
        sink_.begin_scope(word(info_.units[i].name));
        unit.state = signal("state", Kind::text);
        unit.cause = signal("cause", Kind::bits, cause_bits);
        if (found_[i].task) unit.task = signal("task", Kind::text);
        if (found_[i].task || info_.units[i].kind == UnitKind::device) unit.op = signal("op", Kind::text);
        for (size_t c = 0; c < shown_counters; ++c) {
            if (found_[i].counters[c])
                unit.counters[c] =
                    signal(c == 0 ? "queue_depth" : "tokens_in_flight", Kind::bits, counter_bits);
        }
        const size_t first = binned_.size();
        if (found_[i].bytes) binned("bandwidth_gbps", bins_.bandwidth[i]);
        if (!bins_.unit_power[0].empty() && info_.units[i].kind != UnitKind::device) {
            binned("power_dynamic_w", bins_.unit_power[0][i]);
            binned("power_static_w", bins_.unit_power[1][i]);
        }
        for (size_t index = first; index < binned_.size(); ++index) unit.binned.push_back(index);
        sink_.end_scope();
    }

    /// Shows what changed at now_, and everything that happens by itself before `time`; then now_ is `time`.
    void advance(Picoseconds time) {
        if (time <= now_) return;
        changes();
        for (Picoseconds next = next_own(); next < time; next = next_own()) {
            now_ = std::max(now_, next);
            changes();
        }
        now_ = time;
    }
    /// Returns when a bin starts, or a component rests.
    Picoseconds next_own() const {
        const Picoseconds bin = next_bin_ < bin_count_ ? next_bin_ * width_ : no_time;
        return std::min(bin, activity_.next());
    }

    void apply(const Event& event) {
        UnitSignals& unit = units_[event.unit];
        if (event.kind == EventKind::cause) {
            const bool idle = event.cause == static_cast<uint8_t>(Cause::idle_no_work);
            const bool is_shown = states_.shows(event.cause, idle ? background_op : event.op);
            unit.cause_now = is_shown ? event.cause : hidden;
            unit.task_now =
                is_shown && event.task < statement_of_.size() ? statement_of_[event.task] : no_task;
            unit.op_now = is_shown && !idle ? event.op : background_op;
        } else if (event.cause < shown_counters) {
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
            stamp();
            for (size_t i = 0; i < units_.size(); ++i)
                if (shown_[i]) show(units_[i], true);
        }
        for (const uint16_t unit : touched_) {
            units_[unit].touched = false;
            show(units_[unit], false);
        }
        touched_.clear();
        show_bins(first);
        show_components(first);
        if (first) sink_.end_first_values();
    }

    void show_bins(bool first) {
        if (first && bin_count_ == 0) {
            for (const BinnedSignal& binned : binned_) sink_.real(binned.signal, 0);
        }
        if (next_bin_ >= bin_count_ || (!first && next_bin_ * width_ != now_)) return;
        for (BinnedSignal& binned : binned_) {
            if (!first && (*binned.values)[next_bin_] == binned.last) continue;
            binned.last = (*binned.values)[next_bin_];
            stamp();
            sink_.real(binned.signal, binned.last);
        }
        ++next_bin_;
    }

    void show_components(bool first) {
        if (!first && activity_.next() > now_ && !activity_.changed()) return;
        activity_.advance(now_);
        for (size_t c = 0; c < component_signals_.size(); ++c) {
            const ClockState state = activity_.state(c);
            if (!first && state == component_shown_[c]) continue;
            component_shown_[c] = state;
            stamp();
            sink_.text(component_signals_[c], name_of(state));
        }
    }

    void show(UnitSignals& unit, bool always) {
        if (always || unit.cause_now != unit.cause_shown) {
            stamp();
            sink_.text(unit.state, cause_text_[unit.cause_now]);
            if (unit.cause_now == hidden) {
                sink_.unknown(unit.cause);
            } else {
                sink_.number(unit.cause, unit.cause_now);
            }
            unit.cause_shown = unit.cause_now;
        }
        show_text(unit.task, unit.task_now, unit.task_shown, task_text_, always);
        show_text(unit.op, unit.op_now, unit.op_shown, op_text_, always);
        for (size_t c = 0; c < shown_counters; ++c) {
            if (unit.counters[c] == no_signal || (!always && unit.counter_values[c] == unit.counter_shown[c]))
                continue;
            stamp();
            sink_.number(unit.counters[c],
                         static_cast<uint32_t>(std::clamp<int64_t>(unit.counter_values[c], 0, UINT32_MAX)));
            unit.counter_shown[c] = unit.counter_values[c];
        }
    }

    void show_text(size_t number, uint32_t now, uint32_t& shown, const std::vector<std::string>& texts,
                   bool always) {
        if (number == no_signal || (!always && now == shown)) return;
        stamp();
        sink_.text(number, now < texts.size() ? std::string_view(texts[now]) : "-");
        shown = now;
    }

    void stamp() {
        if (shown_time_ == now_) return;
        sink_.time(now_);
        shown_time_ = now_;
    }

    static constexpr Picoseconds no_time = ~Picoseconds{0};
    const RunInfo& info_;
    const Events& events_;
    WaveformSink& sink_;
    bool energy_;  ///< the device has an energy model
    BinnedSignals bins_;
    Picoseconds width_;
    size_t bin_count_;
    ComponentActivity activity_;
    ShownStates states_;
    Picoseconds now_ = 0, shown_time_ = no_time;
    std::vector<std::string> task_text_, op_text_, cause_text_;
    std::vector<UnitSignals> units_;
    std::vector<Found> found_;
    std::vector<bool> shown_;             ///< indexed by unit: the view has it
    std::vector<uint32_t> statement_of_;  ///< indexed by task serial
    std::vector<uint16_t> touched_;
    std::vector<BinnedSignal> binned_;
    std::vector<size_t> component_signals_;
    std::vector<ClockState> component_shown_;
    size_t next_signal_ = 0, next_bin_ = 0;
};

}  // namespace

void declare_waveform(const RunInfo& info, const Events& events, WaveformSink& sink) {
    SampledWaveform sampled(sink, info.view.every);
    WaveformWriter(info, events, info.view.every == 0 ? sink : sampled).declare_only();
}

void write_waveform(const RunInfo& info, const Events& events, WaveformSink& sink) {
    if (info.view.every == 0) {
        WaveformWriter(info, events, sink).write();
        return;
    }
    SampledWaveform sampled(sink, info.view.every);
    WaveformWriter(info, events, sampled).write();
    sampled.finish();
}

}  // namespace kpu::traces
