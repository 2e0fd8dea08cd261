#include "platforms/scales.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace kpu::platforms {
namespace {

std::vector<ScaleInfo> make_scales() {
    std::vector<ScaleInfo> rows = {
        {"scale.array",
         {"engine.array.rows", "engine.array.cols", "engine.array.operand_bytes_per_cycle",
          "engine.array.result_bytes_per_cycle"},
         "side and ports of the array"},
        {"scale.vector",
         {"engine.vector.lanes", "engine.vector.operand_bytes_per_cycle",
          "engine.vector.result_bytes_per_cycle"},
         "lanes and ports of vector units"},
        {"scale.sram",
         {"engine.l1.bytes_per_cycle", "engine.l1.banks", "l2.bytes_per_cycle", "l2.banks"},
         "widths of L1 and L2"},
        {"scale.links",
         {"engine.dma.bytes_per_cycle", "system_dma.bytes_per_cycle", "interconnect.link_bytes_per_cycle",
          "interconnect.system_link_bytes_per_cycle"},
         "widths of DMAs and links"},
        {"scale.capacity", {"engine.l1.size_bytes", "l2.size_bytes"}, "sizes of L1 and L2"},
    };
    ScaleInfo width{
        "scale.width", {}, "all that is as wide as the array: scale.array, vector, sram and links"};
    for (ScaleInfo& row : rows) {
        if (row.path != "scale.capacity")
            width.fields.insert(width.fields.end(), row.fields.begin(), row.fields.end());
        row.meaning += fmt::format(" at once: {}", fmt::join(row.fields, ", "));
    }
    rows.push_back(std::move(width));
    return rows;
}

}  // namespace

const std::vector<ScaleInfo>& scales() {
    static const std::vector<ScaleInfo> rows = make_scales();
    return rows;
}

}  // namespace kpu::platforms
