// dram: replays a trace of bursts on the DRAM controller alone.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.hpp"
#include "base/text_output.hpp"
#include "model/dram/energy.hpp"
#include "model/dram/replay.hpp"
#include "platforms/ddr.hpp"
#include "platforms/platform.hpp"
#include "platforms/schema.hpp"
#include "runtime/cli/command.hpp"
#include "runtime/cli/dram_traffic.hpp"
#include "runtime/cli/ending.hpp"

namespace kpu::cli {
namespace {

using Json = nlohmann::ordered_json;

struct DramOptions {
    std::string trace, device = "DDR4-3200", mapping = "bank_group_interleaved", commands;
    std::vector<std::string> sets;
    std::optional<double> core_mhz;
    std::string form = "auto";
    int64_t channels = 1, ranks = 1, interleave = 256, outstanding = 32;
    uint32_t data_rate = 0;
    bool json = false;
    DramTrafficFiles traffic;
};

/// Sets one field of the device or the controller, by its name in the platform schema.
void set_field(const std::string& text, proto::DdrDevice& device, proto::DdrController& controller) {
    const auto [name, value] = split_assignment(text, "--set");
    const auto merge = [&, field = name, given = value](auto& message) {
        std::remove_reference_t<decltype(message)> one;
        Diagnostics diagnostics;
        platforms::schema::parse_text(field + ": " + given, "--set " + text, one, diagnostics);
        if (diagnostics.has_errors()) throw UserError(std::move(diagnostics));
        message.MergeFrom(one);
    };
    std::vector<std::string_view> known;
    for (const auto* type : {proto::DdrDevice::descriptor(), proto::DdrController::descriptor()}) {
        for (int i = 0; i < type->field_count(); ++i) known.push_back(type->field(i)->name());
    }
    if (proto::DdrDevice::descriptor()->FindFieldByName(name) != nullptr) {
        merge(device);
    } else if (proto::DdrController::descriptor()->FindFieldByName(name) != nullptr) {
        merge(controller);
    } else {
        throw UserError(
            fmt::format("--set {}: a DRAM device and its controller have no `{}`. Fix: did you mean `{}`?",
                        text, name, nearest_name(name, known)));
    }
}

proto::DdrDevice device_of(const DramOptions& options) {
    const proto::DdrDevice* device = platforms::find_ddr_device(options.device);
    if (device == nullptr) {
        const auto names = platforms::ddr_device_names();
        throw UserError(fmt::format("there is no DRAM device `{}`. Fix: use one of {}.", options.device,
                                    fmt::join(names, ", ")));
    }
    if (options.data_rate == 0) return *device;
    if (options.data_rate < 100 || options.data_rate > device->data_rate_mtps()) {
        throw UserError(
            fmt::format("--data-rate {}: {} runs at 100 to {} MT/s. Fix: give a rate in that range.",
                        options.data_rate, device->name(), device->data_rate_mtps()));
    }
    return platforms::at_data_rate(*device, options.data_rate);
}

uint32_t count_option(const char* option, int64_t value) {
    if (value < 1 || value > (int64_t{1} << 30)) {
        throw UserError(fmt::format("{} {}: there must be at least one{}. Fix: give a count from 1.", option,
                                    value, value < 1 ? "" : ", and no more than 2^30"));
    }
    return static_cast<uint32_t>(value);
}

/// Ends the trace when partial results are wanted.
class Interruptible final : public dram::TraceSource {
  public:
    explicit Interruptible(dram::TraceSource& trace) : trace_(trace) {}
    std::optional<dram::TraceRequest> next() override {
        if (interrupted) return std::nullopt;
        return trace_.next();
    }
    const std::string& name() const override { return trace_.name(); }

  private:
    dram::TraceSource& trace_;
};

/// Thrown out of a replay between two of its commands: an idle memory has refreshes alone, so many that
/// nobody waits for the next request.
struct Ended {};

/// clock,command,rank,bank,row
class CommandFile final : public dram::CommandObserver {
  public:
    explicit CommandFile(Output& output) : output_(output) { output_.write("clock,command,rank,bank,row\n"); }
    void on_command(const dram::IssuedCommand& c) override {
        static constexpr const char* names[] = {"ACT", "PRE", "PREA", "RD",  "WR",    "REF",
                                                "PDE", "PDX", "SRE",  "SRX", "PREsb", "REFsb"};
        const bool of_bank = c.command == dram::Command::activate || c.command == dram::Command::precharge ||
                             c.command == dram::Command::read || c.command == dram::Command::write ||
                             c.command == dram::Command::precharge_same ||
                             c.command == dram::Command::refresh_same;
        output_.write(fmt::format("{},{},{},{},{}\n", c.time, names[static_cast<size_t>(c.command)], c.rank,
                                  of_bank ? std::to_string(c.bank) : "",
                                  c.command == dram::Command::activate ? std::to_string(c.row) : ""));
    }

  private:
    Output& output_;
};

/// Several observers of a channel as one, which ends the replay when partial results are wanted.
class Observers final : public dram::CommandObserver {
  public:
    void add(dram::CommandObserver* observer) { observers_.push_back(observer); }
    void on_command(const dram::IssuedCommand& command) override {
        if (interrupted) throw Ended();
        for (dram::CommandObserver* observer : observers_) observer->on_command(command);
    }

  private:
    std::vector<dram::CommandObserver*> observers_;
};

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

Json report(const DramOptions& options, const dram::ReplayConfig& config, const proto::DdrDevice& device,
            const dram::ReplayResult& result) {
    const dram::Counters& c = result.counters;
    const double tck = config.channel.timing.tck_ns;
    const double ns = static_cast<double>(result.cycles) * tck;
    const auto bursts = static_cast<double>(result.requested_reads + result.requested_writes);
    const auto on_bus = static_cast<double>(c.reads + c.writes);
    // supply currents are those of the rated device: a lower clock takes longer, a burst costs the same
    const auto prices = platforms::dram_energy(*platforms::find_ddr_device(options.device), 0);
    const dram::Energy energy = dram::energy_of(c, prices, tck);
    Json out;
    out["complete"] = !interrupted;
    out["device"] = device.name();
    out["mapping"] = config.channel.map.text();
    out["channels"] = config.channels;
    out["ranks"] = config.channel.geometry.ranks;
    out["cycles"] = result.cycles;
    out["time_ns"] = ns;
    out["bandwidth_gbps"] = ratio(bursts * config.channel.geometry.burst_bytes, ns);
    out["bus_utilization"] =
        ratio(static_cast<double>(c.data_clocks), static_cast<double>(result.cycles) * config.channels);
    out["reads"] = result.requested_reads;
    out["writes"] = result.requested_writes;
    out["forwarded_reads"] = c.forwarded;
    out["read_latency_avg_cycles"] = result.read_latency.average;
    out["read_latency_min_cycles"] = result.read_latency.least;
    out["read_latency_median_cycles"] = result.read_latency.median;
    out["read_latency_p90_cycles"] = result.read_latency.p90;
    out["read_latency_p99_cycles"] = result.read_latency.p99;
    out["read_latency_max_cycles"] = result.read_latency.most;
    out["read_wait_row_cycles"] = result.waits.row;
    out["read_wait_refresh_cycles"] = result.waits.refresh;
    out["read_wait_turn_around_cycles"] = result.waits.turn_around;
    out["read_wait_busy_cycles"] = result.waits.busy;
    out["back_pressure_cycles"] = result.back_pressure;
    out["activates"] = c.activates;
    out["precharges"] = c.precharges;
    out["refreshes"] = c.refreshes;
    out["row_hit_rate"] = ratio(static_cast<double>(c.row_hits), on_bus);
    static constexpr const char* states[] = {
        "active", "precharged", "active_power_down", "precharge_power_down", "refreshing", "self_refresh"};
    for (size_t s = 0; s < dram::rank_state_count; ++s) out["rank_cycles"][states[s]] = c.rank_times[s];
    out["energy_pj"] = {{"activate", energy.activate}, {"read", energy.read},
                        {"write", energy.write},       {"io", energy.io},
                        {"refresh", energy.refresh},   {"background", energy.background},
                        {"total", energy.total()}};
    out["average_power_mw"] = ratio(energy.total(), ns);
    return out;
}

std::string as_text(const Json& report) {
    std::string text;
    const auto line = [&text](const std::string& key, const Json& value) {
        const std::string shown = value.is_number_float() ? fmt::format("{:.4f}", value.get<double>())
                                  : value.is_string()     ? value.get<std::string>()
                                                          : value.dump();
        text += fmt::format("{:<34}{}\n", key, shown);
    };
    for (const auto& [key, value] : report.items()) {
        if (!value.is_object()) {
            line(key, value);
            continue;
        }
        for (const auto& [inner, number] : value.items()) line(fmt::format("{}.{}", key, inner), number);
    }
    return text;
}

/// Replays the trace. Returns nothing when it ended while commands were observed: what was seen of them is
/// written.
std::optional<dram::ReplayResult> replay(DramOptions& options, const dram::ReplayConfig& config,
                                         dram::TraceSource& trace) {
    const std::vector<dram::CommandObserver*> banks = options.traffic.observe(config);
    if (options.commands.empty() && banks.empty()) return dram::replay(config, trace);
    std::optional<Output> output;
    std::optional<CommandFile> commands;
    std::vector<Observers> observers(config.channels);
    std::vector<dram::CommandObserver*> of_channels;
    for (size_t c = 0; c < observers.size(); ++c) {
        if (!banks.empty()) observers[c].add(banks[c]);
        of_channels.push_back(&observers[c]);
    }
    if (!options.commands.empty()) {
        output.emplace(Output::to_file(options.commands));
        observers[0].add(&commands.emplace(*output));
    }
    std::optional<dram::ReplayResult> result;
    try {
        result = dram::replay(config, trace, of_channels);
    } catch (const Ended&) {
        result.reset();
    }
    if (output) output->finish();
    return result;
}

void run(DramOptions& options, int& exit_code) {
    proto::DdrDevice device = device_of(options);
    proto::DdrController controller = platforms::default_ddr_controller();
    for (const std::string& text : options.sets) set_field(text, device, controller);
    const dram::ReplayConfig config{
        dram::make_config(device, controller, options.mapping, count_option("--ranks", options.ranks)),
        count_option("--channels", options.channels),
        count_option("--channel-interleave", options.interleave),
        count_option("--max-outstanding", options.outstanding)};
    if (!options.commands.empty() && config.channels > 1)
        throw UserError("--commands records one channel. Fix: leave --commands out, or give --channels 1.");
    std::vector<std::string> paths = options.traffic.paths();
    paths.push_back(options.commands);
    refuse_repeated(paths);
    for (const std::string& path : paths)
        if (!path.empty()) Output::check(path);
    dram::TraceFile file(options.trace, config, {dram::trace_form_of(options.form), options.core_mhz});
    Interruptible trace(file);
    std::optional<dram::ReplayResult> replayed;
    {
        const KeepsPartialResults keeps;
        replayed = replay(options, config, trace);
        options.traffic.write(file.sources(), file.name(),
                              fmt::format("{}, {}", device.name(), config.channel.map.text()));
    }
    if (interrupted) {
        print_err(time_is_up() ? fmt::format("error: stopped after {:g} seconds: results are partial. {}.\n",
                                             time_limit(), timeout_fix)
                               : "interrupted: results are partial\n");
        exit_code = time_is_up() ? exit_failed : exit_interrupted;
    }
    if (!replayed) return;
    const dram::ReplayResult& result = *replayed;
    if (result.requested_reads + result.requested_writes == 0 && !interrupted) {
        throw UserError(fmt::format(
            "trace `{}` holds no request. Fix: write a line such as `0,R,0x0,0`, `0: read 0x0` or `LD 0x0`.",
            file.name()));
    }
    const Json out = report(options, config, device, result);
    if (options.json) return print_data(out.dump(2) + "\n");
    print_out(as_text(out));
}

}  // namespace

void add_dram(CLI::App& app, int& exit_code) {
    auto options = std::make_shared<DramOptions>();
    auto* command =
        app.add_subcommand("dram", "replay a trace of memory requests on the DRAM controller alone");
    command
        ->add_option("trace", options->trace,
                     "file of `number,R|W,0xADDRESS,NANOSECONDS` lines, of DRAMSys (.stl, .rstl) or of "
                     "Ramulator 2, or "
                     "what `kpusim run --memory-trace` wrote; - is stdin")
        ->required();
    command
        ->add_option("--trace-form", options->form,
                     fmt::format("{}; auto tells it by the first line, rstl by the end of the name",
                                 fmt::join(dram::trace_form_names(), ", ")))
        ->check(CLI::IsMember(dram::trace_form_names()))
        ->capture_default_str();
    command
        ->add_option("--core-mhz", options->core_mhz,
                     "clock of the cycles in a trace; default: what the trace says, else 1000 for a memory "
                     "trace of a run and the DRAM's own clock for stl and rstl")
        ->check(not_positive);
    command
        ->add_option("--device", options->device,
                     fmt::format("one of {}", fmt::join(platforms::ddr_device_names(), ", ")))
        ->capture_default_str();
    command
        ->add_option("--mapping", options->mapping,
                     "bank_group_interleaved, row_bank_column, or fields from the lowest bits up: \"bg col "
                     "ba ra row\"")
        ->capture_default_str();
    command->add_option("--max-outstanding", options->outstanding, "reads in flight")->capture_default_str();
    command->add_option("--channels", options->channels, "independent channels")->capture_default_str();
    command->add_option("--channel-interleave", options->interleave, "bytes until the next channel")
        ->capture_default_str();
    command->add_option("--ranks", options->ranks, "ranks of a channel")->capture_default_str();
    command->add_option("--data-rate", options->data_rate, "MT/s below the device's own");
    command
        ->add_option("--set", options->sets,
                     "FIELD=VALUE: a field of the device or the controller, as in ddr_devices.textproto")
        ->allow_extra_args(false);
    command->add_option("--commands", options->commands, "write every DRAM command to this CSV file");
    options->traffic.add_to(*command);
    command->add_flag("--json", options->json, "as JSON");
    command->callback([options, &exit_code] { run(*options, exit_code); });
}

}  // namespace kpu::cli
