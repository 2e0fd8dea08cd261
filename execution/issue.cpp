// Tasks and tokens of the controller: issue, the token table, producers, completion.

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "execution/controller_impl.hpp"
#include "execution/describe.hpp"

namespace kpu::execution {

bool Controller::Impl::step_task(uint32_t t) {
    Thread& thread = threads_[t];
    const BoundTask& task = program_.tasks[program_.statements[thread.pc].index];
    const auto table = static_cast<uint32_t>(task.engine >= 0 ? task.engine : task.token_engine);
    if (at_limit()) {
        block(thread, Block::limit);
        limited_tasks_.push_back(t);
        return false;
    }
    if (!take_entry(t, table)) {
        block(thread, Block::table);
        return false;
    }
    const int32_t own = plan_.statements[thread.pc].slot;
    issue(t, task, table);
    advance(thread);
    if (!task.sync) return true;
    wait_for(thread.slots[static_cast<uint32_t>(own)].waiters, {t, true, none, none});
    ++thread.missing;
    block(thread, Block::token);
    return false;
}

bool Controller::Impl::take_entry(uint32_t t, uint32_t table_index) {
    Thread& thread = threads_[t];
    Table& table = tables_[table_index];
    if (!thread.has_entry) {
        if (options_.max_active_tokens != 0 && table.used >= options_.max_active_tokens) {
            table.queue.push_back(t);
            return false;
        }
        ++table.used;
    }
    thread.has_entry = false;
    return true;
}

/// Hands the entry to the thread that has waited longest, so that a thread that arrives now cannot overtake
/// it.
void Controller::Impl::release_entry(uint32_t table_index) {
    Table& table = tables_[table_index];
    if (table.queue.empty()) {
        --table.used;
        return;
    }
    const uint32_t t = table.queue.front();
    table.queue.pop_front();
    threads_[t].has_entry = true;
    wake(t);
}

void Controller::Impl::issue(uint32_t t, const BoundTask& task, uint32_t table) {
    if (issued_ >= none) {
        throw SimulationError(
            fmt::format("more than {} tasks were issued. Fix: simulate a shorter program.", none));
    }
    Thread& thread = threads_[t];
    Node& node = new_node();
    node.owner = t;
    node.table = table;
    node.serial = static_cast<uint32_t>(issued_);
    node.statement = thread.pc;
    node.task = &task;
    node.state = TaskState::waiting;
    node.root = nullptr;
    node.loops = thread.loops;
    node.engine = task.engine;
    node.instance = instance_in(thread, task);
    node.thread = thread.id;
    node.reason = reason_;
    resolve(thread, thread.pc, task.inputs, node.inputs);
    resolve(thread, thread.pc, task.outputs, node.outputs);
    ++issued_;
    ++live_;
    ++thread.outstanding;
    idle_steps_ = 0;
    link(node);
    const int32_t own = plan_.statements[thread.pc].slot;
    if (own != no_slot) thread.slots[static_cast<uint32_t>(own)].serial = node.serial;
    add_producers(node);
    listener_.on_issue(node);
    if (node.missing > 0) return;
    node.state = TaskState::ready;
    ++active_;
    listener_.on_ready(node);
}

int32_t Controller::Impl::instance_in(const Thread& thread, const BoundTask& task) const {
    if (task.instance_by_loops.is_constant()) return task.instance;
    try {
        return task.instance_in(thread.loops);
    } catch (const UserError& error) {
        throw SimulationError(
            fmt::format("{}: {}", statement_text(program_, thread.pc, thread.loops), error.what()));
    }
}

void Controller::Impl::resolve(const Thread& thread, uint32_t statement, const std::vector<uint32_t>& regions,
                               std::vector<values::RegionView>& views) const {
    views.clear();
    for (const uint32_t index : regions) {
        const BoundRegion& region = program_.regions[index];
        const BoundBuffer& buffer = program_.buffers[region.buffer];
        int64_t address = 0;
        try {
            address = region.address.eval(thread.loops);
        } catch (const UserError& error) {
            throw SimulationError(fmt::format("{}: the address of region `{}` cannot be evaluated: {}",
                                              statement_text(program_, statement, thread.loops), region.name,
                                              error.what()));
        }
        const auto base = static_cast<int64_t>(buffer.base);
        const bool inside = address >= base && region.extent <= buffer.size &&
                            static_cast<uint64_t>(address) - buffer.base <= buffer.size - region.extent;
        if (!inside) {
            int64_t offset = 0;
            if (__builtin_sub_overflow(address, base, &offset)) offset = INT64_MIN;
            throw SimulationError(
                fmt::format("{}: region `{}` takes {} bytes from byte {} on of buffer `{}`, which has {}. "
                            "Fix: grow the buffer, "
                            "or change the region's offset or the loop's range.",
                            statement_text(program_, statement, thread.loops), region.name, region.extent,
                            offset, buffer.name, buffer.size));
        }
        views.push_back({&region, static_cast<uint64_t>(address)});
    }
}

void Controller::Impl::add_producers(Node& node) {
    node.missing = 0;
    node.producers.clear();
    node.all_producers.clear();
    node.carried_producers.clear();
    const std::vector<TokenRef>& needs = plan_.statements[node.statement].needs;
    for (uint32_t n = 0; n < needs.size(); ++n) {
        const TokenRef& need = needs[n];
        const bool carried = need.distance > 0;
        const TokenPlace place = locate(need, node.owner);
        if (place.state == TokenPlace::State::complete) {
            add_producer(node, remembered(need, node.owner), carried);
            continue;
        }
        const Waiter waiter{node.self, false, none, carried ? n : none};
        if (place.state == TokenPlace::State::ahead) {
            ++node.missing;
            wait_for(threads_[place.thread].watches[place.watch].waiters, waiter);
            continue;
        }
        Slot& slot = threads_[place.thread].slots[need.slot];
        if (slot.remaining == 0) {
            add_producer(node, slot.serial, carried);
            continue;
        }
        ++node.missing;
        wait_for(slot.waiters, waiter);
        const TokenSlot& token = plan_.blocks[threads_[place.thread].block].slots[need.slot];
        const auto open = [&](uint32_t serial) {
            if (serial != none) node.producers.push_back(serial);
            if (serial != none && carried) node.carried_producers.push_back(serial);
        };
        if (token.depth == 0) {
            open(slot.serial);
            continue;
        }
        for_each_live(token, place.thread, [&](const Node& producer) {
            open(producer.serial);
            return true;
        });
    }
    std::sort(node.producers.begin(), node.producers.end());
    node.all_producers.insert(node.all_producers.end(), node.producers.begin(), node.producers.end());
    std::sort(node.all_producers.begin(), node.all_producers.end());
    std::sort(node.carried_producers.begin(), node.carried_producers.end());
    node.late_producers = static_cast<uint32_t>(node.carried_producers.size());
}

/// Adds a producer that is complete.
void Controller::Impl::add_producer(Node& node, uint32_t serial, bool carried) {
    if (serial == none) return;
    node.all_producers.push_back(serial);
    if (carried) node.carried_producers.push_back(serial);
}

void Controller::Impl::wait_for(List& waiters, const Waiter& waiter) {
    uint32_t w = free_waiter_;
    if (w == none) {
        w = static_cast<uint32_t>(waiters_.size());
        waiters_.emplace_back();
    } else {
        free_waiter_ = waiters_[w].next;
    }
    waiters_[w] = waiter;
    (waiters.head == none ? waiters.head : waiters_[waiters.tail].next) = w;
    waiters.tail = w;
}

/// Settles an instance that `slot` of thread t counts and that is complete (or, with no serial, its loop has
/// no iteration).
void Controller::Impl::settle(uint32_t t, uint32_t slot_index, uint32_t serial) {
    for (;;) {
        Slot& slot = threads_[t].slots[slot_index];
        if (serial != none) slot.serial = serial;
        if (--slot.remaining > 0) return;
        for (uint32_t w = slot.waiters.head; w != none;) {
            const Waiter waiter = waiters_[w];
            waiters_[w].next = free_waiter_;
            free_waiter_ = w;
            w = waiter.next;
            satisfy(waiter, slot.serial);
        }
        slot.waiters = {};
        const int32_t next = plan_.blocks[threads_[t].block].slots[slot_index].next;
        if (next == no_slot) return;
        t = threads_[t].parent;
        slot_index = static_cast<uint32_t>(next);
    }
}

/// A token that held `waiter` back is there; `serial` completed it, if any task did.
void Controller::Impl::satisfy(const Waiter& waiter, uint32_t serial) {
    if (waiter.is_thread) {
        if (--threads_[waiter.index].missing == 0) wake(waiter.index);
        return;
    }
    Node& node = nodes_[waiter.index];
    if (waiter.need != none && serial != none) {
        std::vector<uint32_t>& known = node.carried_producers;
        if (std::find(known.begin(), known.end(), serial) == known.end()) known.push_back(serial);
    }
    if (--node.missing > 0) return;
    node.state = TaskState::ready;
    ++active_;
    listener_.on_ready(node);
}

void Controller::Impl::started(TaskInstance& instance) {
    if (instance.state != TaskState::ready) {
        throw InternalError(fmt::format("task {} was started but is not ready", instance.serial));
    }
    instance.state = TaskState::running;
}

void Controller::Impl::completed(TaskInstance& instance) {
    if (instance.state != TaskState::running) {
        throw InternalError(fmt::format("task {} was completed but is not running", instance.serial));
    }
    Node& node = static_cast<Node&>(instance);
    node.state = TaskState::complete;
    unlink(node);
    --live_;
    --active_;
    const uint32_t owner = node.owner;
    const int32_t own = plan_.statements[node.statement].slot;
    if (own != no_slot) settle(owner, static_cast<uint32_t>(own), node.serial);
    release_entry(node.table);
    nodes_.give_back(node.self);
    Thread& thread = threads_[owner];
    if (--thread.outstanding == 0 && thread.state == Block::ended) retire(owner);
    pump();
}

uint32_t Controller::Impl::ancestor(uint32_t t, uint32_t up) const {
    for (; up > 0; --up) t = threads_[t].parent;
    return t;
}

Controller::Impl::Node& Controller::Impl::new_node() {
    const uint32_t place = nodes_.take();
    if (nodes_.size() > buckets_.size()) grow_index();
    nodes_[place].self = place;
    return nodes_[place];
}

void Controller::Impl::grow_index() {
    buckets_.assign(buckets_.size() * 2, none);
    for (uint32_t n = live_list_.head; n != none; n = nodes_[n].live_next) {
        uint32_t& bucket = buckets_[nodes_[n].serial & (buckets_.size() - 1)];
        nodes_[n].bucket_next = bucket;
        bucket = n;
    }
}

void Controller::Impl::link(Node& node) {
    uint32_t& bucket = buckets_[node.serial & (buckets_.size() - 1)];
    node.bucket_next = bucket;
    bucket = node.self;
    node.live_prev = live_list_.tail;
    node.live_next = none;
    (node.live_prev == none ? live_list_.head : nodes_[node.live_prev].live_next) = node.self;
    live_list_.tail = node.self;
    List& same = same_[node.statement];
    node.same_prev = same.tail;
    node.same_next = none;
    (node.same_prev == none ? same.head : nodes_[node.same_prev].same_next) = node.self;
    same.tail = node.self;
}

void Controller::Impl::unlink(Node& node) {
    uint32_t* place = &buckets_[node.serial & (buckets_.size() - 1)];
    while (*place != node.self) place = &nodes_[*place].bucket_next;
    *place = node.bucket_next;
    (node.live_prev == none ? live_list_.head : nodes_[node.live_prev].live_next) = node.live_next;
    (node.live_next == none ? live_list_.tail : nodes_[node.live_next].live_prev) = node.live_prev;
    List& same = same_[node.statement];
    (node.same_prev == none ? same.head : nodes_[node.same_prev].same_next) = node.same_next;
    (node.same_next == none ? same.tail : nodes_[node.same_next].same_prev) = node.same_prev;
}

const TaskInstance* Controller::Impl::find(uint32_t serial) const {
    for (uint32_t n = buckets_[serial & (buckets_.size() - 1)]; n != none; n = nodes_[n].bucket_next) {
        if (nodes_[n].serial == serial) return &nodes_[n];
    }
    return nullptr;
}

std::vector<const TaskInstance*> Controller::Impl::live() const {
    std::vector<const TaskInstance*> result;
    result.reserve(live_);
    for (uint32_t n = live_list_.head; n != none; n = nodes_[n].live_next) result.push_back(&nodes_[n]);
    return result;
}

/// The oldest live instance that a token which is not satisfied stands for; null when none is issued.
const TaskInstance* Controller::Impl::producer_of(const TokenRef& need, uint32_t owner) const {
    const TokenPlace place = locate(need, owner);
    if (place.state != TokenPlace::State::slot) return nullptr;
    const Thread& thread = threads_[place.thread];
    const Slot& slot = thread.slots[need.slot];
    if (slot.remaining == 0) return nullptr;
    const TokenSlot& token = plan_.blocks[thread.block].slots[need.slot];
    if (token.depth == 0) return slot.serial == none ? nullptr : find(slot.serial);
    const TaskInstance* oldest = nullptr;
    for_each_live(token, place.thread, [&](const Node& producer) {
        oldest = &producer;
        return false;
    });
    return oldest;
}

const TaskInstance* Controller::Impl::root_producer(const TaskInstance& instance) const {
    const Node& node = static_cast<const Node&>(instance);
    const bool known = node.root != nullptr && node.root->serial == node.root_serial;
    if (known && node.root->state != TaskState::complete) return node.root;
    const Node* root = nullptr;
    ++visits_;
    search_.assign(1, &node);
    while (!search_.empty()) {
        const Node& at = *search_.back();
        search_.pop_back();
        for (const TokenRef& need : plan_.statements[at.statement].needs) {
            const auto* producer = static_cast<const Node*>(producer_of(need, at.owner));
            if (producer == nullptr || producer->visit == visits_) continue;
            producer->visit = visits_;
            if (producer->state == TaskState::waiting)
                search_.push_back(producer);
            else if (root == nullptr || producer->serial < root->serial)
                root = producer;
        }
    }
    node.root = root;
    if (root != nullptr) node.root_serial = root->serial;
    return root;
}

}  // namespace kpu::execution
