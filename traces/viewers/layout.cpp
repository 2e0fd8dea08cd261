#include "traces/viewers/layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "traces/power_trace.hpp"
#include "traces/viewers/viewer_files.hpp"

namespace kpu::traces {
namespace {

/// Keeps declarations.
class SignalList final : public WaveformSink {
  public:
    std::vector<ViewerSignal> signals;

    void comment(const std::string& /*text*/) override {}
    void begin_scope(const std::string& name) override { scopes_.push_back(name); }
    void end_scope() override { scopes_.pop_back(); }
    void declare(const std::string& name, Kind kind, unsigned bits) override {
        std::string scope;
        for (size_t i = 1; i < scopes_.size(); ++i) scope += (i > 1 ? "." : "") + scopes_[i];
        signals.push_back({scope, name, kind, bits});
    }
    void begin_values() override {}
    void time(Picoseconds /*time*/) override {}
    void text(size_t /*signal*/, std::string_view /*value*/) override {}
    void number(size_t /*signal*/, uint32_t /*value*/) override {}
    void unknown(size_t /*signal*/) override {}
    void real(size_t /*signal*/, double /*value*/) override {}

  private:
    std::vector<std::string> scopes_;
};

CostliestOp costliest_op(const RunInfo& info, const Events& events) {
    struct Charged {
        Picoseconds total = 0, from = ~Picoseconds{0}, to = 0;
    };
    std::vector<Charged> ops(info.ops.size());
    uint32_t op = background_op;
    Picoseconds since = 0;
    const auto charge = [&](Picoseconds until) {
        const Picoseconds from = std::max(since, info.from()), to = std::min(until, info.to());
        if (op >= ops.size() || from >= to) return;
        ops[op].total += to - from;
        ops[op].from = std::min(ops[op].from, from);
        ops[op].to = to;
    };
    for (const Event& event : events) {
        if (event.kind != EventKind::cause || info.units[event.unit].kind != UnitKind::device) continue;
        charge(event.time_ps);
        op = event.op;
        since = event.time_ps;
    }
    charge(info.end_ps);
    const auto most = std::max_element(ops.begin(), ops.end(),
                                       [](const Charged& a, const Charged& b) { return a.total < b.total; });
    if (most == ops.end() || most->total == 0) return {};
    return {info.ops[static_cast<size_t>(most - ops.begin())].id, most->from, most->to};
}

}  // namespace

std::string ViewerSignal::plain_name() const { return name.substr(0, name.find("_majority")); }

Layout layout_of(const RunInfo& info, const Events& events) {
    SignalList list;
    declare_waveform(info, events, list);
    Layout layout;
    layout.costliest = costliest_op(info, events);
    layout.from = info.from();
    layout.to = info.to();
    const auto of_units = [&](const std::string& title, auto wanted) {
        ViewerGroup group{title, true, {}};
        for (const UnitInfo& unit : info.units) {
            for (const ViewerSignal& signal : list.signals)
                if (signal.scope == unit.name && wanted(unit, signal)) group.signals.push_back(signal);
        }
        if (!group.signals.empty()) layout.groups.push_back(std::move(group));
    };
    const auto is_real = [](const ViewerSignal& signal) { return signal.kind == WaveformSink::Kind::real; };
    of_units("device", [&](const UnitInfo& unit, const ViewerSignal& signal) {
        return unit.kind == UnitKind::device && signal.plain_name() != "task";
    });
    for (const ViewerSignal& signal : list.signals) {
        const bool total = signal.scope == "dram" || (signal.scope == "power" && signal.name == "total");
        if (total && !layout.groups.empty()) layout.groups.front().signals.push_back(signal);
    }
    for (const int engine : engines_of(info)) {
        const std::string title = engine < 0 ? "shared" : fmt::format("engine {}", engine);
        of_units(title, [&](const UnitInfo& unit, const ViewerSignal& signal) {
            return unit.engine == engine && unit.kind != UnitKind::device && !is_real(signal) &&
                   signal.plain_name() != "op";  // its tasks say more
        });
    }
    ViewerGroup bandwidth{"bandwidth", true, {}}, power{"power", true, {}}, clocks{"clocks", true, {}};
    for (const ViewerSignal& signal : list.signals) {
        if (signal.name == "bandwidth_gbps") bandwidth.signals.push_back(signal);
        if (signal.scope == "power" && signal.name != "total") power.signals.push_back(signal);
        if (signal.scope.rfind("power.", 0) == 0) clocks.signals.push_back(signal);
    }
    for (ViewerGroup* group : {&power, &bandwidth, &clocks})
        if (!group->signals.empty()) layout.groups.push_back(std::move(*group));
    of_units("power of each unit", [&](const UnitInfo&, const ViewerSignal& signal) {
        return is_real(signal) && signal.name != "bandwidth_gbps";
    });
    if (!layout.groups.empty() && layout.groups.back().title == "power of each unit")
        layout.groups.back().open = false;
    return layout;
}

std::vector<std::string> viewer_paths(const std::string& waveform) {
    return {waveform + ".gtkw", waveform + ".causes", waveform + ".sucl"};
}

std::vector<ViewerFile> viewer_files(const RunInfo& info, const Events& events, const std::string& waveform) {
    const Layout layout = layout_of(info, events);
    const std::vector<std::string> paths = viewer_paths(waveform);
    return {{paths[0], gtkwave_save_file(layout, paths[1])},
            {paths[1], gtkwave_causes()},
            {paths[2], surfer_commands(layout)}};
}

}  // namespace kpu::traces
