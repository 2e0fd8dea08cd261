#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <functional>

#include "explain/explanation.hpp"
#include "python/bindings/bindings.hpp"
#include "runtime/compare/difference.hpp"
#include "runtime/compare/page.hpp"
#include "traces/corners.hpp"
#include "traces/dram_traffic.hpp"
#include "traces/event_file.hpp"
#include "traces/formats.hpp"
#include "traces/intervals.hpp"
#include "traces/power_trace.hpp"
#include "traces/report.hpp"
#include "traces/viewers/viewer_files.hpp"

namespace kpu::bindings {
namespace {

using traces::Recording;

/// Returns the records. Those in memory without a copy: the array keeps the recording alive; those on disk as
/// a copy.
py::array records(const py::object& self) {
    const auto& events = self.cast<const Recording&>().events;
    using traces::Event;
    static_assert(offsetof(Event, op) == 20 && offsetof(Event, kind) == 26 &&
                  offsetof(Event, reserved) == 28);
    const py::list names = py::cast(
        std::vector<std::string>{"time_ps", "value", "task", "op", "unit", "kind", "cause", "reserved"});
    const py::list formats =
        py::cast(std::vector<std::string>{"<u8", "<i8", "<u4", "<u4", "<u2", "|u1", "|u1", "<u4"});
    const py::list offsets = py::cast(std::vector<size_t>{0, 8, 16, 20, 24, 26, 27, 28});
    const Event* first = events.data();
    py::object owner = self;
    if (first == nullptr && !events.empty()) {
        auto copy = std::make_unique<std::vector<Event>>(events.to_vector());
        first = copy->data();
        owner =
            py::capsule(copy.release(), [](void* held) { delete static_cast<std::vector<Event>*>(held); });
    }
    py::array array(py::dtype(names, formats, offsets, sizeof(Event)), {events.size()},
                    static_cast<const void*>(first), owner);
    array.attr("flags").attr("writeable") = false;
    return array;
}

void write_trace(const Recording& recording, const std::string& name, const std::string& path,
                 const traces::ViewText& view, bool viewer_files, const GivenOptions& options) {
    const traces::Format& format = traces::find_format(name);
    const OptionValues values(format.options, options);
    traces::RunInfo info = recording.info;
    traces::show_view(info, view);
    traces::check_format(format, info.view, values);
    if (viewer_files && !format.is_waveform)
        throw UserError(fmt::format("viewer_files: {} is not a waveform. Fix: write vcd or fst.", name));
    auto output = Output::to_file(path);
    format.write(info, recording.events, values, output);
    output.finish();
    if (!viewer_files) return;
    for (const auto& beside : traces::viewer_files(info, recording.events, path))
        write_file(beside.path, beside.text);
}

/// Returns (name, file kind, meaning, options, needs accesses) of every kind of trace.
py::list format_table() {
    py::list rows;
    for (const traces::Format* row : traces::formats())
        rows.append(py::make_tuple(row->name, row->file_kind, row->meaning, rows_of(row->options),
                                   row->needs_accesses));
    return rows;
}

/// Stretches of one state, as columns: unit and cause are indices into units() and causes().
py::dict intervals(const Recording& recording) {
    std::vector<uint16_t> unit;
    std::vector<uint8_t> cause;
    std::vector<uint64_t> start, end, cycles;
    std::vector<std::string> task, iteration, op, blamed;
    {
        const py::gil_scoped_release release;
        const traces::TaskTable tasks(recording.info, recording.events);
        traces::for_each_interval(recording.info, recording.events,
                                  [&](const traces::StateInterval& interval) {
                                      unit.push_back(interval.unit);
                                      cause.push_back(static_cast<uint8_t>(interval.cause));
                                      start.push_back(interval.start);
                                      end.push_back(interval.end);
                                      cycles.push_back(interval.cycles);
                                      task.push_back(tasks.name(interval.task));
                                      iteration.push_back(tasks.iteration(interval.task));
                                      op.emplace_back(recording.info.op_name(interval.op));
                                      blamed.push_back(tasks.blamed(interval.blame));
                                  });
    }
    py::dict columns;
    columns["unit"] = py::array(py::cast(unit));
    columns["cause"] = py::array(py::cast(cause));
    columns["start_ps"] = py::array(py::cast(start));
    columns["end_ps"] = py::array(py::cast(end));
    columns["cycles"] = py::array(py::cast(cycles));
    columns["task"] = task;
    columns["iteration"] = iteration;
    columns["operation"] = op;
    columns["blamed"] = blamed;
    return columns;
}

using traces::EnergyColumn;
using traces::PowerTrace;

py::array_t<double> doubles(size_t count, const std::function<double(size_t)>& value_of) {
    py::array_t<double> values(static_cast<py::ssize_t>(count));
    for (size_t bin = 0; bin < count; ++bin) values.mutable_at(static_cast<py::ssize_t>(bin)) = value_of(bin);
    return values;
}

/// Returns the mean power of each bin, W, dynamic and static; and the energies in yoctojoules, as Python's
/// integers.
py::tuple power_columns(const PowerTrace& trace, const EnergyColumn& column) {
    py::list arrays, energies;
    for (const auto* part : {&column.dynamic, &column.statics}) {
        arrays.append(doubles(trace.count, [&](size_t bin) { return trace.watts(bin, (*part)[bin]); }));
        py::list whole;
        for (const traces::Yoctojoules energy : *part) {
            constexpr uint64_t half = 1'000'000'000'000'000'000;
            whole.append(py::int_(static_cast<uint64_t>(energy / half)) * py::int_(half) +
                         py::int_(static_cast<uint64_t>(energy % half)));
        }
        energies.append(whole);
    }
    return py::make_tuple(arrays[0], arrays[1], energies[0], energies[1]);
}

/// The description of the run with bins of another width.
traces::RunInfo with_bins(const Recording& recording, std::optional<double> bin_ns) {
    traces::require_energy(recording.info.prices);
    traces::RunInfo info = recording.info;
    if (bin_ns) traces::check_bin(*bin_ns, info.clock());
    info.bin_ns = bin_ns.value_or(info.bin_ns);
    return info;
}

/// Bins of the power trace as columns: start and width in ns, mean power of each source in W.
py::dict power(const Recording& recording, std::optional<double> bin_ns) {
    const traces::RunInfo info = with_bins(recording, bin_ns);
    const PowerTrace trace = traces::power_trace(info, recording.events, info.bin_ps());
    py::dict columns;
    const auto column = [&](const std::string& name, const std::function<double(size_t)>& value_of) {
        columns[py::str(name)] = doubles(trace.count, value_of);
    };
    column("time_ns", [&](size_t bin) { return static_cast<double>(trace.start(bin)) / 1000.0; });
    column("dt_ns", [&](size_t bin) { return static_cast<double>(trace.real_width(bin)) / 1000.0; });
    using traces::Component;
    const auto of = [&](Component component) -> const EnergyColumn& {
        return trace.components[static_cast<size_t>(component)];
    };
    const auto watts = [&](const std::string& name, const std::vector<traces::Yoctojoules>& energies) {
        column(name, [&](size_t bin) { return trace.watts(bin, energies[bin]); });
    };
    for (size_t c = 0; c < static_cast<size_t>(Component::dram); ++c)
        watts(std::string(traces::name_of(static_cast<Component>(c))), trace.components[c].dynamic);
    watts("dram_dyn", of(Component::dram).dynamic);
    watts("phy_dyn", of(Component::phy).dynamic);
    watts("dram_bg", of(Component::dram).statics);
    watts("phy_static", of(Component::phy).statics);
    column("static", [&](size_t bin) {
        traces::Yoctojoules sum = 0;
        for (size_t c = 0; c < static_cast<size_t>(Component::dram); ++c)
            sum += trace.components[c].statics[bin];
        return trace.watts(bin, sum);
    });
    column("total", [&](size_t bin) { return trace.watts(bin, trace.total(bin)); });
    py::list ops;
    for (size_t bin = 0; bin < trace.count; ++bin) ops.append(recording.info.op_name(trace.op[bin]));
    columns["op"] = ops;
    return columns;
}

/// Returns power by component, engine or unit: name -> (W dynamic, W static, yJ dynamic, yJ static), each by
/// bin. By op: name -> (W, yJ).
py::dict power_by(const Recording& recording, std::optional<double> bin_ns, const std::string& by) {
    const traces::RunInfo info = with_bins(recording, bin_ns);
    const PowerTrace trace = traces::power_trace(info, recording.events, info.bin_ps(),
                                                 {by == "engine" || by == "unit", by == "op"});
    py::dict columns;
    const auto add = [&](const std::string& name, const EnergyColumn& column) {
        columns[py::str(name)] = power_columns(trace, column);
    };
    if (by == "component") {
        for (size_t c = 0; c < traces::component_count; ++c)
            add(std::string(traces::name_of(static_cast<traces::Component>(c))), trace.components[c]);
    } else if (by == "engine") {
        for (const int engine : traces::engines_of(info))
            add(engine < 0 ? "device" : "e" + std::to_string(engine), trace.engine(info, engine));
    } else if (by == "unit") {
        for (size_t u = 0; u < info.units.size(); ++u)
            if (info.units[u].kind != UnitKind::device) add(info.units[u].name, trace.units[u]);
    } else if (by == "corner") {
        for (const traces::EnergyCorner& corner : info.prices.corners) {
            traces::RunInfo at = info;
            at.prices = traces::at_corner(info.prices, corner);
            const PowerTrace other = traces::power_trace(at, recording.events, info.bin_ps());
            EnergyColumn sum{std::vector<traces::Yoctojoules>(other.count),
                             std::vector<traces::Yoctojoules>(other.count)};
            for (const EnergyColumn& component : other.components) {
                for (size_t bin = 0; bin < other.count; ++bin) {
                    sum.dynamic[bin] += component.dynamic[bin];
                    sum.statics[bin] += component.statics[bin];
                }
            }
            add(corner.name, sum);
        }
    } else {
        for (const auto& [name, column] : trace.by_op(info)) add(name, column);
    }
    return columns;
}

/// Edges of the core before each time.
py::array_t<uint64_t> cycles_of(const Recording& recording, const py::array_t<uint64_t>& time_ps) {
    const Clock clock = recording.info.clock();
    py::array_t<uint64_t> cycles(time_ps.size());
    const auto times = time_ps.unchecked<1>();
    for (py::ssize_t i = 0; i < times.shape(0); ++i) cycles.mutable_at(i) = clock.edges_before(times(i));
    return cycles;
}

using traces::BankCounts;
constexpr uint64_t BankCounts::*bank_counts[] = {
    &BankCounts::reads,     &BankCounts::writes,    &BankCounts::hits,        &BankCounts::misses,
    &BankCounts::conflicts, &BankCounts::activates, &BankCounts::turn_arounds};

/// Starts of bins and their width in ns, channels, counts by (bin, channel, bank); who asked, with counts.
py::tuple bank_traffic(const Recording& recording) {
    const traces::DramTraffic traffic = traces::dram_traffic(recording.info, recording.events);
    const auto bins = traffic.bins(), channels = traffic.channels().size(), banks = traffic.banks();
    py::list counts;
    for (const auto count : bank_counts) {
        py::array_t<uint64_t> values({bins, channels, banks});
        auto at = values.mutable_unchecked<3>();
        for (size_t bin = 0; bin < bins; ++bin)
            for (size_t c = 0; c < channels; ++c)
                for (size_t b = 0; b < banks; ++b)
                    at(static_cast<py::ssize_t>(bin), static_cast<py::ssize_t>(c),
                       static_cast<py::ssize_t>(b)) = traffic.at(bin, c, b).*count;
        counts.append(std::move(values));
    }
    py::list streams;
    for (const traces::DramTraffic::Stream& stream : traffic.streams()) {
        py::list sums;
        for (const auto count : bank_counts) sums.append(stream.counts.*count);
        streams.append(py::make_tuple(stream.unit, stream.task, stream.operation, sums));
    }
    const double width = static_cast<double>(traffic.width()) / 1000;
    return py::make_tuple(
        doubles(
            bins,
            [&](size_t bin) { return static_cast<double>(traffic.from() + bin * traffic.width()) / 1000; }),
        width, traffic.channels(), counts, streams);
}

std::vector<std::string> cause_names() {
    std::vector<std::string> names;
    for (int cause = 0; cause < traces::cause_count; ++cause)
        names.emplace_back(traces::full_name_of(static_cast<traces::Cause>(cause)));
    return names;
}

/// Returns label and causes of each kind of time that the report's bars show.
std::vector<std::pair<std::string, std::vector<std::string>>> cause_bands() {
    std::vector<std::pair<std::string, std::vector<std::string>>> rows;
    for (const traces::Band& band : traces::bands()) {
        auto& [label, causes] = rows.emplace_back(band.label, std::vector<std::string>());
        for (const traces::Cause cause : band.causes) causes.emplace_back(traces::full_name_of(cause));
    }
    return rows;
}

std::vector<std::string> unit_names(const Recording& recording) {
    std::vector<std::string> names;
    for (const auto& unit : recording.info.units) names.push_back(unit.name);
    return names;
}

std::vector<std::string> op_names(const Recording& recording) {
    std::vector<std::string> names;
    for (const auto& op : recording.info.ops) names.push_back(op.id);
    return names;
}

std::string explain(const Recording& recording, const std::string& name) {
    return text_of(explain::RunGraph(recording, "the run"), name, {});
}

std::string explain_data(const Recording& recording) {
    const explain::RunGraph graph(recording, "the run");
    return json_of(explain::Explanation(graph));
}

/// Returns the text and JSON of what differs between two runs.
std::pair<std::string, std::string> diff(traces::DiffSide& a, traces::DiffSide& b, double threshold,
                                         size_t top) {
    traces::DiffOptions options;
    options.threshold = threshold;
    options.top = top;
    const compare::Difference found = compare::difference_of(a, b, options);
    return {found.empty() ? "" : to_text(found, a, b, options), to_json(found, a, b)};
}

/// Writes the page of two runs into a file.
void write_diff_page(traces::DiffSide& a, traces::DiffSide& b, double threshold, const std::string& path) {
    traces::DiffOptions options;
    options.threshold = threshold;
    const compare::Difference found = compare::difference_of(a, b, options);
    compare::Page page(a);
    page.add(b, a, found);
    write_file(path, page.html());
}

}  // namespace

void bind_recording(py::module_& module) {
    using py::arg;
    using Release = py::call_guard<py::gil_scoped_release>;
    module.def("cause_names", &cause_names);
    module.def("cause_bands", &cause_bands);
    module.def("format_table", &format_table);
    module.def("diff", &diff, arg("a"), arg("b"), arg("threshold"), arg("top"), Release());
    module.def("write_diff_page", &write_diff_page, arg("a"), arg("b"), arg("threshold"), arg("path"),
               Release());
    module.def("read_event_file", &traces::read_event_file, arg("path"), Release());
    py::class_<traces::DiffSide>(module, "DiffSide");
    module.def("read_side", &compare::read_side, arg("folder"), Release());
    py::class_<Recording, std::shared_ptr<Recording>>(module, "Recording")
        .def("records", &records)
        .def("units", &unit_names)
        .def("ops", &op_names)
        .def("intervals", &intervals)
        .def("explain", &explain, arg("name"), Release())
        .def("explain_data", &explain_data, Release())
        .def("power", &power, arg("bin_ns"))
        .def("power_by", &power_by, arg("bin_ns"), arg("by"))
        .def("core_hz", [](const Recording& self) { return self.info.core_hz; })
        .def("cycles_of", &cycles_of, arg("time_ps"))
        .def("bank_traffic", &bank_traffic)
        .def("accesses", [](const Recording& self) { return self.info.accesses; })
        .def(
            "write_events",
            [](const Recording& self, const std::string& path) {
                auto output = Output::to_file(path);
                traces::write_event_file(self.info, self.events, output);
                output.finish();
            },
            arg("path"), Release())
        .def(
            "write_trace",
            [](const Recording& self, const std::string& name, const std::string& path,
               const std::string& window, const std::vector<std::string>& units,
               const std::vector<std::string>& causes, const std::vector<std::string>& ops,
               const std::string& every, bool viewer_files, const GivenOptions& options) {
                write_trace(self, name, path, {window, units, causes, ops, every}, viewer_files, options);
            },
            arg("name"), arg("path"), arg("window"), arg("units"), arg("causes"), arg("ops"), arg("every"),
            arg("viewer_files"), arg("options"), Release());
}

}  // namespace kpu::bindings
