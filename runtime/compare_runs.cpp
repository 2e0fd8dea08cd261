#include "runtime/compare_runs.hpp"

#include "platforms/platform.hpp"

namespace kpu::runtime {

traces::DiffSide read_side(const std::string& folder) {
    traces::DiffSide side{traces::read_run(folder), {}};
    if (!side.run.platform.empty())
        side.platform = platforms::fields_of(
            platforms::parse_textproto(side.run.platform, folder + "/platform.textproto"));
    return side;
}

}  // namespace kpu::runtime
