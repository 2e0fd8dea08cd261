#include "model/accounting/energy_places.hpp"

#include <numeric>

namespace kpu::model {

EnergyPlaces::EnergyPlaces(const std::vector<traces::UnitInfo>& units, const MemorySystem& memory)
    : memory_(memory) {
    for (size_t u = 0; u < units.size(); ++u) {
        const auto unit = static_cast<uint16_t>(u);
        const UnitKind kind = units[u].kind;
        if (row_of(kind).role == UnitRole::sequencer) sequencers_.push_back(unit);
        if (!carries_bytes(kind)) continue;
        unit_of_resource_.push_back(unit);
        const auto level = level_of(kind);
        if (!level) continue;
        if (*level == Level::ddr) channels_.push_back({unit});
        if (*level == Level::l2) l2_ = unit;
        if (*level == Level::l1) l1_.push_back(unit);
    }
}

const std::vector<uint16_t>& EnergyPlaces::links(const StreamRequest& request) {
    const auto place = [](const StreamSide& side) -> Place {
        return {side.is_memory ? static_cast<int>(side.level) : -1, side.engine};
    };
    const auto [known, added] = links_.try_emplace({place(request.source), place(request.destination)});
    if (added) {
        const std::vector<ResourceInfo>& resources = memory_.resources();
        for (const RouteHop& hop : memory_.route(request)) {
            if (!level_of(resources[hop.resource].kind))
                known->second.push_back(unit_of_resource_[hop.resource]);
        }
    }
    return known->second;
}

traces::Burners EnergyPlaces::alike(uint64_t count, const Burners& parts) {
    __extension__ typedef unsigned __int128 Wide;
    const uint64_t whole = std::accumulate(parts.begin(), parts.end(), uint64_t{0},
                                           [](uint64_t sum, const auto& part) { return sum + part.second; });
    Burners result;
    uint64_t before = 0, given = 0;
    for (const auto& [unit, part] : parts) {
        before += part;
        const auto upto =
            static_cast<uint64_t>(static_cast<Wide>(count) * before / std::max<uint64_t>(1, whole));
        if (upto > given) result.emplace_back(unit, upto - given);
        given = upto;
    }
    return result;
}

const traces::Burners& EnergyPlaces::channels(uint64_t bursts, bool read) {
    const size_t direction = read ? 0 : 1;
    const uint64_t burst_bytes = memory_.config().ddr.timing.burst_bytes;
    Burners open;
    uint64_t all = 0;
    for (size_t c = 0; c < channels_.size(); ++c) {
        const uint64_t count = memory_.dram_bytes(c)[direction] / burst_bytes;
        const uint64_t charged = channels_[c].charged[direction],
                       left = count > charged ? count - charged : 0;
        open.emplace_back(channels_[c].unit, left);
        all += left;
    }
    // writes may wait in a controller: what nobody served yet is spread evenly
    if (all == 0)
        for (auto& part : open) part.second = 1;
    parts_ = alike(bursts, open);
    for (const auto& [unit, count] : parts_) {
        for (Channel& channel : channels_) {
            if (channel.unit == unit) channel.charged[direction] += count;
        }
    }
    return parts_;
}

}  // namespace kpu::model
