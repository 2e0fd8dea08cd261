#pragma once
#include <mutex>
#include <utility>
#include <vector>

#include "compiler/target/target.hpp"

namespace kpu::compiler {

/// Devices with half of one thing each, where this one has more than one: engines, arrays, L1, L2, channels or rate of DRAM,
/// width or number of DMA channels, width of links, a clock, all clocks. What a compiler would choose for one of them runs here
/// as well, so it is worth a look.
std::vector<Target> smaller_devices(const Target& target);

/// They, once someone asks for them. Threads may share one.
class SmallerDevices {
  public:
    explicit SmallerDevices(Target of) : of_(std::move(of)) {}
    const std::vector<Target>& list() const {
        std::call_once(once_, [this] { list_ = smaller_devices(of_); });
        return list_;
    }

  private:
    Target of_;
    mutable std::once_flag once_;
    mutable std::vector<Target> list_;
};

}  // namespace kpu::compiler
