#pragma once
// Which DMA channel a transfer of a schedule takes.
#include <algorithm>
#include <vector>

#include "isa/builder.hpp"
#include "platforms/platform.hpp"

namespace kpu::validation {

/// Transfers by what they are for: of the engine's DMA channels the last one writes, the others read, in turn.
class Movers {
  public:
    Movers(builder::Program& program, const platforms::Platform& platform)
        : program_(program), channels_(platforms::engines_of(platform).at(0).get().dma().channels()) {}

    builder::Task load(const builder::Region& to, const builder::Region& from,
                       const std::vector<builder::Task>& after) {
        const int64_t readers = std::max<int64_t>(1, channels_ - 1);
        return program_.transfer("", to, from).resource(UnitKind::dma, loads_++ % readers).after(after);
    }
    builder::Task store(const builder::Region& to, const builder::Region& from, const builder::Task& after) {
        return program_.transfer("", to, from).resource(UnitKind::dma, channels_ - 1).after({after});
    }

  private:
    builder::Program& program_;
    int64_t channels_, loads_ = 0;
};

}  // namespace kpu::validation
