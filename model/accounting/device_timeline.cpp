#include "model/accounting/device_timeline.hpp"

#include <algorithm>
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
    by_begin_.clear();
    for (const Item& item : items_)
        if (item.from < until) by_begin_.push_back(item);
    std::sort(by_begin_.begin(), by_begin_.end(),
              [](const Item& a, const Item& b) { return a.from < b.from; });
    // a heap of the items that have begun; one that has ended stays until it comes to the top
    const auto yields = [](const Item* a, const Item* b) {
        return std::tie(a->activity, a->serial) > std::tie(b->activity, b->serial);
    };
    begun_.clear();
    auto next = by_begin_.begin();
    for (Cycles at = settled_; at < until;) {
        for (; next != by_begin_.end() && next->from <= at; ++next) {
            begun_.push_back(&*next);
            std::push_heap(begun_.begin(), begun_.end(), yields);
        }
        while (!begun_.empty() && begun_.front()->to <= at) {
            std::pop_heap(begun_.begin(), begun_.end(), yields);
            begun_.pop_back();
        }
        const Item* const first = begun_.empty() ? nullptr : begun_.front();
        Cycles to = next == by_begin_.end() ? until : next->from;
        if (first != nullptr) to = std::min({to, first->to, until});
        charge(at, to, first);
        at = to;
    }
    settled_ = until;
    const auto over = [&](const Item& item) { return item.to <= until; };
    items_.erase(std::remove_if(items_.begin(), items_.end(), over), items_.end());
    for (Item& item : items_) item.from = std::max(item.from, until);
    kept_ = items_.size();
}

}  // namespace kpu::model
