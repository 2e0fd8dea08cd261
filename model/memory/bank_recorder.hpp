#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "model/dram/bank_observer.hpp"
#include "traces/event.hpp"

namespace kpu::model {

class StreamState;

/// Records what the banks of DRAM channels do, and for whom.
class BankRecorder {
  public:
    /// `units`: of the channels, in their order.
    BankRecorder(traces::EventSink& sink, const Clock& memory, const dram::Geometry& geometry,
                 const std::vector<uint16_t>& units);
    dram::CommandObserver* of_channel(size_t channel) { return &channels_[channel]; }
    /// Returns what requests of the stream carry, so that commands for them are known as its own.
    uint32_t source_of(const StreamState& stream);

  private:
    class Channel final : public dram::BankObserver {
      public:
        Channel(const dram::Geometry& geometry, BankRecorder& recorder, uint16_t unit)
            : BankObserver(geometry), recorder_(recorder), unit_(unit) {}

      private:
        void on_use(const traces::BankUse& use, const dram::IssuedCommand& command) override;
        BankRecorder& recorder_;
        uint16_t unit_;
    };
    struct Source {
        uint32_t task, op;
        uint16_t unit;
    };

    traces::EventSink& sink_;
    Clock memory_;
    std::deque<Channel> channels_;
    std::vector<Source> sources_;
    std::unordered_map<uint64_t, uint32_t> known_;  ///< sources by task and unit
};

}  // namespace kpu::model
