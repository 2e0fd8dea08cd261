#include "runtime/cli/dram_traffic.hpp"

#include <fmt/format.h>

#include <cmath>
#include <deque>

#include "base/diagnostics.hpp"
#include "model/dram/bank_observer.hpp"
#include "runtime/cli/command.hpp"
#include "traces/dram_page/page.hpp"
#include "traces/dram_traffic.hpp"

namespace kpu::cli {
namespace {

/// Names the channels of a replay.
std::vector<std::string> names_of(uint32_t channels) {
    std::vector<std::string> names;
    for (uint32_t c = 0; c < channels; ++c) names.push_back(fmt::format("ddr{}", c));
    return names;
}

}  // namespace

class DramTrafficFiles::Collector {
  public:
    Collector(const dram::ReplayConfig& config, double bin_ns)
        : tck_ps_(config.channel.timing.tck_ns * 1000),
          traffic_(0, static_cast<Picoseconds>(std::llround(bin_ns * 1000)), names_of(config.channels),
                   config.channel.geometry.banks(), config.channel.geometry.burst_bytes) {
        for (uint32_t c = 0; c < config.channels; ++c)
            channels_.emplace_back(config.channel.geometry, *this, c);
    }
    std::vector<dram::CommandObserver*> channels() {
        std::vector<dram::CommandObserver*> all;
        for (Channel& channel : channels_) all.push_back(&channel);
        return all;
    }
    /// Returns the traffic with the names of those who asked.
    traces::DramTraffic& traffic(const std::vector<dram::TraceSource::Source>& sources) {
        for (size_t s = 0; s < streams_; ++s) {
            traces::DramTraffic::Stream& stream = traffic_.stream(s);
            stream.unit = sources[s].unit;
            stream.task = sources[s].task;
        }
        return traffic_;
    }

  private:
    class Channel final : public dram::BankObserver {
      public:
        Channel(const dram::Geometry& geometry, Collector& all, size_t index)
            : BankObserver(geometry), all_(all), index_(index) {}

      private:
        void on_use(const traces::BankUse& use, const dram::IssuedCommand& command) override {
            all_.add(index_, use, command);
        }
        Collector& all_;
        size_t index_;
    };
    void add(size_t channel, const traces::BankUse& use, const dram::IssuedCommand& command) {
        for (; streams_ <= command.source; ++streams_) traffic_.add_stream({});
        const auto time = static_cast<Picoseconds>(std::llround(static_cast<double>(command.time) * tck_ps_));
        traffic_.add(time, channel, command.bank, use, command.source);
    }

    double tck_ps_;
    size_t streams_ = 0;
    traces::DramTraffic traffic_;
    std::deque<Channel> channels_;
};

DramTrafficFiles::DramTrafficFiles() = default;
DramTrafficFiles::~DramTrafficFiles() = default;

void DramTrafficFiles::add_to(CLI::App& command) {
    command.add_option("--dram-traffic", table_,
                       "CSV: what each bank did over time: bursts, row hits, turn-arounds");
    command
        .add_option("--dram-traffic-by", by_,
                    "bank (default): over time; stream: for each unit and task in a memory trace of a run")
        ->check(CLI::IsMember({"bank", "stream"}));
    command.add_option("--dram-page", page_, "page: heat map of the banks over time");
    command.add_option("--bin-ns", bin_ns_, "width of a time bin of both")
        ->check(not_positive)
        ->capture_default_str();
}

std::vector<dram::CommandObserver*> DramTrafficFiles::observe(const dram::ReplayConfig& config) {
    if (!wanted()) return {};
    constexpr double most_ns = 1e15;
    if (bin_ns_ < config.channel.timing.tck_ns || bin_ns_ > most_ns) {
        throw UserError(fmt::format(
            "--bin-ns {:g}: a bin is as long as a clock of the DRAM or longer. Fix: give {:g} to {:g}.",
            bin_ns_, config.channel.timing.tck_ns, most_ns));
    }
    collector_ = std::make_unique<Collector>(config, bin_ns_);
    return collector_->channels();
}

void DramTrafficFiles::write(const std::vector<dram::TraceSource::Source>& sources, const std::string& what,
                             const std::string& device) const {
    if (!collector_) return;
    const traces::DramTraffic& traffic = collector_->traffic(sources);
    if (!table_.empty()) {
        auto output = Output::to_file(table_);
        if (by_ == "stream") {
            write_traffic_by_stream(traffic, output);
        } else {
            write_traffic_by_bank(traffic, output);
        }
        output.finish();
    }
    if (!page_.empty()) write_file(page_, traces::dram_page_of(traffic, what, device));
}

}  // namespace kpu::cli
