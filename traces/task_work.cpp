#include "traces/task_work.hpp"

#include <algorithm>

namespace kpu::traces {

bool TaskWork::same_request(const TaskWork& o) const {
    return mover == o.mover && overlaps == o.overlaps && lead == o.lead && fill == o.fill &&
           steady == o.steady && drain == o.drain && uneven == o.uneven && occupancy == o.occupancy &&
           work == o.work && peak_q16 == o.peak_q16 && macs == o.macs &&
           std::equal(streams.begin(), streams.end(), o.streams.begin(), o.streams.end(),
                      [](const StreamWork& a, const StreamWork& b) { return a.same_request(b); });
}

}  // namespace kpu::traces
