#include "model/timing/memory.hpp"

#include <algorithm>
#include <cmath>

namespace kpu::timing {

ClockRatios::ClockRatios(const proto::Clock& clock) {
    if (clock.has_array_mhz()) array = clock.core_mhz() / clock.array_mhz();
    if (clock.has_sram_mhz()) sram = clock.core_mhz() / clock.sram_mhz();
    if (clock.has_interconnect_mhz()) link = clock.core_mhz() / clock.interconnect_mhz();
}

SramTime::SramTime(const proto::Sram& sram, double cycle)
    : read_latency(cycle * sram.read_latency_cycles()),
      write_latency(cycle * sram.write_latency_cycles()),
      cycle_(cycle),
      port_(sram.bytes_per_cycle()),
      ports_(sram.ports()),
      bank_(sram.bank_width_bytes()),
      banks_(sram.banks()),
      interleave_(sram.interleave_bytes()) {
    const double of_bank = interleave_ / std::ceil(interleave_ / bank_);
    bytes_per_cycle = std::min(ports_ * port_, banks_ * of_bank) / cycle_;
}

/// Returns the cycles of the bank with the most blocks.
double SramTime::bank_cycles(double bytes) const { return std::ceil(std::min(bytes, interleave_) / bank_); }

double SramTime::share_of(double bytes) const {
    const double blocks = std::ceil(bytes / interleave_);
    return cycle_ * std::max(std::ceil(bytes / port_) / ports_, blocks * bank_cycles(bytes) / banks_);
}

double SramTime::through(double bytes) const {
    const double blocks = std::ceil(bytes / interleave_), rounds = std::ceil(blocks / banks_);
    const auto comes = [&](double block) {
        return std::floor(block * interleave_ / port_);
    };  // the port to it
    const double of_bank = bank_cycles(bytes), last = blocks - 1 - (rounds - 1) * banks_;
    double banks = std::max(comes(blocks - 1) + of_bank, comes(last) + rounds * of_bank);
    if (rounds > 1) banks = std::max(banks, comes(banks_ - 1) + (rounds - 1) * of_bank);
    return cycle_ * std::max(std::ceil(bytes / port_), banks);
}

namespace {

LinkTime link(const proto::Platform& platform, double width) {
    const proto::Interconnect& links = platform.interconnect();
    const double cycle = ClockRatios(platform.clock()).link;
    return {width, cycle, cycle * links.hop_latency_cycles(), double(links.queue_bursts())};
}

}  // namespace

LinkTime engine_link(const proto::Platform& platform) {
    return link(platform, platform.interconnect().link_bytes_per_cycle());
}

LinkTime system_link(const proto::Platform& platform) {
    return link(platform, platform.interconnect().system_link_bytes_per_cycle());
}

}  // namespace kpu::timing
