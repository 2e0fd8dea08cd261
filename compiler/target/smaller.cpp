#include "compiler/target/smaller.hpp"

#include <algorithm>

#include "platforms/operating_points.hpp"

namespace kpu::compiler {
namespace {

using platforms::Platform;

/// Halves a number, rounded down, at least 1.
template <class Number>
Number half(Number of) {
    return std::max<Number>(1, of / 2);
}

template <class Change>
void for_engines(Platform& platform, Change change) {
    for (proto::Engine& engine : *platform.mutable_engine()) change(engine);
}

void halve_widths(Platform& platform) {
    for_engines(platform, [](proto::Engine& engine) {
        engine.mutable_dma()->set_bytes_per_cycle(half(engine.dma().bytes_per_cycle()));
    });
    platform.mutable_system_dma()->set_bytes_per_cycle(half(platform.system_dma().bytes_per_cycle()));
}

void halve_channels(Platform& platform) {
    for_engines(platform, [](proto::Engine& engine) {
        engine.mutable_dma()->set_channels(half(engine.dma().channels()));
    });
    if (platform.system_dma().channels() > 0)
        platform.mutable_system_dma()->set_channels(half(platform.system_dma().channels()));
}

void halve_links(Platform& platform) {
    proto::Interconnect& links = *platform.mutable_interconnect();
    links.set_system_link_bytes_per_cycle(half(links.system_link_bytes_per_cycle()));
    links.set_link_bytes_per_cycle(half(links.link_bytes_per_cycle()));
}

/// Halves each clock that a domain has of its own, and the core's.
void halve_clocks(Platform& platform) {
    proto::Clock& clock = *platform.mutable_clock();
    if (clock.has_array_mhz()) clock.set_array_mhz(clock.array_mhz() / 2);
    if (clock.has_sram_mhz()) clock.set_sram_mhz(clock.sram_mhz() / 2);
    if (clock.has_interconnect_mhz()) clock.set_interconnect_mhz(clock.interconnect_mhz() / 2);
    clock.set_core_mhz(clock.core_mhz() / 2);
}

constexpr void (*changes[])(Platform&) = {
    [](Platform& platform) {
        for_engines(platform, [](proto::Engine& engine) {
            engine.mutable_array()->set_count(half(engine.array().count()));
        });
    },
    [](Platform& platform) {
        for_engines(platform, [](proto::Engine& engine) {
            engine.mutable_l1()->set_size_bytes(half(engine.l1().size_bytes()));
        });
    },
    [](Platform& platform) { platform.mutable_l2()->set_size_bytes(half(platform.l2().size_bytes())); },
    [](Platform& platform) { platform.mutable_ddr()->set_channels(half(platform.ddr().channels())); },
    [](Platform& platform) {
        platform.mutable_ddr()->set_data_rate_mtps(half(platform.ddr().data_rate_mtps()));
    },
    halve_widths,
    halve_channels,
    halve_links,
    [](Platform& platform) {
        proto::Clock& clock = *platform.mutable_clock();
        clock.set_array_mhz(platforms::mhz_of(clock, traces::Component::array) / 2);
    },
    [](Platform& platform) {
        proto::Clock& clock = *platform.mutable_clock();
        clock.set_sram_mhz(platforms::mhz_of(clock, traces::Component::l2) / 2);
    },
    [](Platform& platform) {
        proto::Clock& clock = *platform.mutable_clock();
        clock.set_interconnect_mhz(platforms::mhz_of(clock, traces::Component::noc) / 2);
    },
    halve_clocks,
};

}  // namespace

std::vector<Target> smaller_devices(const Target& target) {
    std::vector<Target> devices;
    if (target.engines.size() > 2) {
        Target& fewer = devices.emplace_back(target);
        const auto left = static_cast<std::ptrdiff_t>(target.engines.size() / 2);
        fewer.engines.erase(fewer.engines.begin() + left, fewer.engines.end());
    }
    const std::string same = target.platform.SerializeAsString();
    for (const auto change : changes) {
        Platform platform = target.platform;
        change(platform);
        if (platform.SerializeAsString() == same) continue;
        Target& smaller = devices.emplace_back(platform);
        // engines that do not work stay so
        smaller.engines.erase(smaller.engines.begin() + static_cast<std::ptrdiff_t>(target.engines.size()),
                              smaller.engines.end());
    }
    return devices;
}

}  // namespace kpu::compiler
