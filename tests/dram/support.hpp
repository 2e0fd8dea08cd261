#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/dram/replay.hpp"
#include "platforms/ddr.hpp"
#include "platforms/platform.hpp"
#include "tests/dram/patterns.hpp"

namespace kpu::dram {

/// Returns a device of the table with the default controller.
inline Config config_of(const std::string& device, const std::string& mapping = "bank_group_interleaved",
                        uint32_t ranks = 1) {
    return make_config(platforms::rated_ddr_device(device), platforms::default_ddr_controller(), mapping,
                       ranks);
}

/// Returns the bytes to the next row of the same bank: ROW_STRIDE of device_params.csv.
inline uint64_t row_stride(const std::string& device) {
    if (device == "DDR4-3200" || device == "DDR5-4800") return 131072;
    return device == "LPDDR5-6400" || device == "DDR3-2000-quad" ? 65536 : 32768;
}

inline ReplayResult replay_pattern(const ReplayConfig& config, const std::string& device,
                                   const std::string& pattern, uint64_t bursts,
                                   CommandObserver* observer = nullptr) {
    Pattern trace(pattern, bursts, row_stride(device), config.channel.timing.tck_ns);
    return replay(config, trace, {observer});
}

/// A trace from a list.
class ListTrace final : public TraceSource {
  public:
    explicit ListTrace(std::vector<TraceRequest> requests) : requests_(std::move(requests)) {}
    std::optional<TraceRequest> next() override {
        if (next_ == requests_.size()) return std::nullopt;
        return requests_[next_++];
    }
    const std::string& name() const override { return name_; }

  private:
    std::vector<TraceRequest> requests_;
    size_t next_ = 0;
    std::string name_ = "list";
};

/// Returns the tables' short names of mappings.
inline std::string mapping_of(const std::string& short_name) {
    return short_name == "BGI" ? "bank_group_interleaved" : "row_bank_column";
}

inline std::string reference_file(const std::string& name) {
    return std::string(KPUSIM_SOURCE_DIR) + "/tests/reference/dram/" + name;
}

}  // namespace kpu::dram
