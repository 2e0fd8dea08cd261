#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "model/memory/memory_system.hpp"
#include "traces/ledger.hpp"

namespace kpu::model {

/// Finds the units that burn the energy of what a task did. Asked only while a run is recorded.
class EnergyPlaces {
  public:
    using Burners = traces::Burners;

    /// Keeps both references. `units` as the device numbers them.
    EnergyPlaces(const std::vector<traces::UnitInfo>& units, const MemorySystem& memory);
    uint16_t sequencer(uint32_t engine) const { return sequencers_.at(engine); }
    uint16_t sram(const StreamSide& side) const {
        return side.level == Level::l2 ? l2_ : l1_.at(side.engine);
    }
    /// Returns the links that a stream crosses.
    const std::vector<uint16_t>& links(const StreamRequest& request);
    /// Returns the channels that served `bursts` of a stream that is over: they get what they have served and
    /// nobody was charged for yet, so that over a run each is charged what it served. The list lives until
    /// the next call.
    const Burners& channels(uint64_t bursts, bool read);
    /// Splits `count` like the parts of a whole; nothing is lost.
    static Burners alike(uint64_t count, const Burners& parts);

  private:
    struct Channel {
        uint16_t unit;
        std::array<uint64_t, 2> charged{};  ///< bursts read, written
    };
    const MemorySystem& memory_;
    std::vector<uint16_t> sequencers_, l1_, unit_of_resource_;
    uint16_t l2_ = traces::no_unit;
    std::vector<Channel> channels_;
    Burners parts_;
    using Place = std::pair<int, int>;  ///< level or -1, engine
    std::map<std::pair<Place, Place>, std::vector<uint16_t>> links_;
};

}  // namespace kpu::model
