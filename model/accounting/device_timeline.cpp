#include "model/accounting/device_timeline.hpp"

#include <algorithm>
#include <tuple>

namespace kpu::model {

void DeviceTimeline::add(Activity activity, Cycles from, Cycles to, uint32_t serial, uint32_t op) {
    if (from >= to) return;
    std::vector<Item>& items = activity == Activity::waiting ? waiting_ : active_;
    if (!items.empty()) {
        Item& last = items.back();
        if (last.to == from && last.serial == serial && last.activity == activity) {
            last.to = to;
            return;
        }
    }
    items.push_back({from, to, serial, op, activity});
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
    std::sort(active_.begin(), active_.end(), [](const Item& a, const Item& b) { return a.from < b.from; });
    // of what is active: an item that has ended stays until it comes to the top
    const auto yields = [](const Item* a, const Item* b) {
        return std::tie(a->activity, a->serial) > std::tie(b->activity, b->serial);
    };
    begun_.clear();
    auto next = active_.begin();
    auto waiting = waiting_.begin();
    for (Cycles at = settled_; at < until;) {
        for (; next != active_.end() && next->from <= at; ++next) {
            begun_.push_back(&*next);
            std::push_heap(begun_.begin(), begun_.end(), yields);
        }
        while (!begun_.empty() && begun_.front()->to <= at) {
            std::pop_heap(begun_.begin(), begun_.end(), yields);
            begun_.pop_back();
        }
        while (waiting != waiting_.end() && waiting->to <= at) ++waiting;
        const Item* first = nullptr;
        Cycles to = next == active_.end() ? until : std::min(next->from, until);
        if (!begun_.empty()) {
            first = begun_.front();
        } else if (waiting != waiting_.end() && waiting->from <= at) {
            first = &*waiting;
        } else if (waiting != waiting_.end()) {
            to = std::min(to, waiting->from);
        }
        if (first != nullptr) to = std::min({to, first->to, until});
        charge(at, to, first);
        at = to;
    }
    settled_ = until;
    const auto over = [&](const Item& item) { return item.to <= until; };
    for (std::vector<Item>* items : {&active_, &waiting_}) {
        items->erase(std::remove_if(items->begin(), items->end(), over), items->end());
        for (Item& item : *items) item.from = std::max(item.from, until);
    }
    kept_ = active_.size() + waiting_.size();
}

}  // namespace kpu::model
