#include "model/accounting/device_timeline.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace kpu::model {

void DeviceTimeline::add(Activity activity, Cycles from, Cycles to, uint32_t serial, uint32_t op) {
    if (from >= to) return;
    if (!items_.empty()) {
        Item& last = items_.back();
        if (last.to == from && last.serial == serial && last.activity == activity) {
            last.to = to;
            return;
        }
    }
    items_.push_back({from, to, serial, op, activity});
}

void DeviceTimeline::charge(Cycles from, Cycles to, const Item* item) {
    if (from == to) return;
    traces::Cause cause = traces::Cause::device_idle_other;
    if (item != nullptr && item->activity == Activity::compute) cause = traces::Cause::device_busy_compute;
    if (item != nullptr && item->activity == Activity::memory) cause = traces::Cause::device_stalled_memory;
    totals_[static_cast<size_t>(cause)] += to - from;
    const bool known = item != nullptr && item->op + 1 < charged_.size();
    charged_[known ? item->op : charged_.size() - 1] += to - from;
    const uint32_t task = item != nullptr ? item->serial : traces::no_task;
    if (sink_ == nullptr || (cause == last_cause_ && task == last_task_)) return;
    last_cause_ = cause;
    last_task_ = task;
    traces::Event event;
    event.time_ps = core_->edge(from);
    event.unit = unit_;
    event.kind = traces::EventKind::cause;
    event.cause = static_cast<uint8_t>(cause);
    event.task = task;
    event.op = known ? item->op : traces::background_op;
    event.value = traces::blame_none;
    sink_->record(event);
}

void DeviceTimeline::settle(Cycles until) {
    if (until <= settled_) return;
    std::vector<Item> now, later;
    for (Item item : items_) {
        if (item.to > until)
            later.push_back({std::max(item.from, until), item.to, item.serial, item.op, item.activity});
        item.to = std::min(item.to, until);
        item.from = std::max(item.from, settled_);
        if (item.from < item.to) now.push_back(item);
    }
    struct Edge {
        Cycles at;
        size_t item;
        bool begins;
    };
    std::vector<Edge> edges;
    for (size_t i = 0; i < now.size(); ++i) {
        edges.push_back({now[i].from, i, true});
        edges.push_back({now[i].to, i, false});
    }
    std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
    const auto before = [&](size_t a, size_t b) {
        return std::tie(now[a].activity, now[a].serial, a) < std::tie(now[b].activity, now[b].serial, b);
    };
    std::set<size_t, decltype(before)> active(before);
    Cycles at = settled_;
    for (size_t e = 0; e < edges.size();) {
        const Cycles next = edges[e].at;
        charge(at, next, active.empty() ? nullptr : &now[*active.begin()]);
        at = next;
        for (; e < edges.size() && edges[e].at == next; ++e) {
            if (edges[e].begins) {
                active.insert(edges[e].item);
            } else {
                active.erase(edges[e].item);
            }
        }
    }
    charge(at, until, nullptr);
    settled_ = until;
    items_ = std::move(later);
    kept_ = items_.size();
}

}  // namespace kpu::model
