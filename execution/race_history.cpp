#include "execution/race_history.hpp"

#include <algorithm>

#include "base/host_memory.hpp"
#include "execution/access_frontier.hpp"
#include "isa/footprint_runs.hpp"

namespace kpu::execution {
namespace {

constexpr size_t long_program = 10'000;  ///< tasks

constexpr size_t max_readers =
    64;  ///< members of a piece that nothing orders; beyond, some races of theirs go unseen

}  // namespace

/// Finds the buffers touched outside of loops alone that have a race in some order.
class RaceHistory::FlatBuffers {
  public:
    FlatBuffers(const BoundProgram& program, std::vector<bool>& followed)
        : program_(program), followed_(followed), frontiers_(program.buffers.size()) {}

    /// Adds tasks in the order of the text.
    void add(const ScheduleOrder& order, uint32_t statement) {
        const BoundTask& task = program_.tasks[program_.statements[statement].index];
        for (const uint32_t region : task.inputs) add(order, {statement, region, false});
        for (const uint32_t region : task.outputs) add(order, {statement, region, true});
    }
    void in_loop(uint32_t region) { racing(program_.regions[region].buffer); }
    /// Stops following buffers without a race.
    void finish() {
        for (size_t b = 0; b < frontiers_.size(); ++b) followed_[b] = followed_[b] && frontiers_[b].racing;
    }

  private:
    struct Buffer {
        std::unique_ptr<AccessFrontier> frontier;
        bool racing = false;
    };
    void racing(uint32_t buffer) {
        frontiers_[buffer].frontier.reset();
        frontiers_[buffer].racing = true;
    }
    void add(const ScheduleOrder& order, const Access& access) {
        const uint32_t index = program_.regions[access.region].buffer;
        Buffer& buffer = frontiers_[index];
        if (!followed_[index] || buffer.racing) return;
        if (!buffer.frontier) buffer.frontier = std::make_unique<AccessFrontier>(program_, order);
        if (buffer.frontier->add(access)) racing(index);
    }

    const BoundProgram& program_;
    std::vector<bool>& followed_;
    std::vector<Buffer> frontiers_;
};

RaceHistory::RaceHistory(const BoundProgram& program, const std::atomic<bool>* interrupt)
    : followed_(program.buffers.size(), false), pieces_(program.buffers.size()) {
    for (const BoundTask& task : program.tasks)
        for (const uint32_t output : task.outputs) followed_[program.regions[output].buffer] = true;
    FlatBuffers buffers(program, followed_);
    const bool flat = ScheduleOrder::tasks_in_loops(program) == 0;
    if (flat) {
        ScheduleOrder::pass(program, interrupt,
                            [&](const ScheduleOrder& order, uint32_t s) { buffers.add(order, s); });
        buffers.finish();
        if (program.tasks.size() > long_program) give_back_freed_memory();
        if (std::find(followed_.begin(), followed_.end(), true) == followed_.end()) return;
    }
    order_.emplace(program, loop_facts(program), interrupt);
    if (const uint32_t* loop = order_->loop_too_large()) too_large_ = *loop;
    if (!flat) follow_some(program, buffers, interrupt);
}

void RaceHistory::follow_some(const BoundProgram& program, FlatBuffers& buffers,
                              const std::atomic<bool>* interrupt) {
    std::vector<uint32_t> flat;
    for (uint32_t s = 0; s < program.statements.size(); ++s) {
        const BoundStatement& statement = program.statements[s];
        if (statement.kind != BoundStatement::Kind::task) continue;
        if (order_->is_flat(s)) {
            flat.push_back(s);
            continue;
        }
        const BoundTask& task = program.tasks[statement.index];
        for (const uint32_t region : task.inputs) buffers.in_loop(region);
        for (const uint32_t region : task.outputs) buffers.in_loop(region);
    }
    for (const uint32_t s : flat) {  // once it is known which buffers need no look
        if (interrupt != nullptr && interrupt->load(std::memory_order_relaxed)) throw OrderInterrupted();
        buffers.add(*order_, s);
    }
    buffers.finish();
}

RaceHistory::~RaceHistory() = default;

void RaceHistory::begin(const RaceSide& task, const std::vector<Operand>& inputs,
                        const std::vector<Operand>& outputs, std::vector<Race>& races) {
    races.clear();
    if (!has_room(inputs) || !has_room(outputs)) {
        full_ = true;
        return;
    }
    races_ = &races;
    now_ = new_entry(task);
    entries_[now_].uses = 1;
    const auto each = [&](const std::vector<Operand>& operands, auto visit) {
        for (const Operand& operand : operands) {
            if (!followed_[operand.region->buffer] || operand.bytes->run_bytes == 0) continue;
            Pieces& pieces = pieces_[operand.region->buffer];
            count_ -= pieces.size();
            auto near = pieces.at_or_behind(operand.bytes->address);
            for_each_run(*operand.bytes, [&](uint64_t address, uint64_t bytes) {
                near = visit(pieces, address, address + bytes, *operand.region, near);
                return true;
            });
            count_ += pieces.size();
        }
    };
    each(inputs, [&](Pieces& pieces, uint64_t first, uint64_t end, const BoundRegion& region, Place near) {
        return read(pieces, first, end, region, near);
    });
    each(outputs, [&](Pieces& pieces, uint64_t first, uint64_t end, const BoundRegion& region, Place near) {
        return write(pieces, first, end, region, near);
    });
    release(now_);
    now_ = nobody;
}

/// A run adds three pieces at most: its own, and the ends of two that it cuts.
bool RaceHistory::has_room(const std::vector<Operand>& operands) const {
    for (const Operand& operand : operands) {
        if (!followed_[operand.region->buffer]) continue;
        const Footprint& f = *operand.bytes;
        uint64_t room = (max_pieces - std::min(max_pieces, count_)) / 3;
        for (int d = 0; d < f.dims; ++d) room /= static_cast<uint64_t>(std::max<int64_t>(f.count[d], 1));
        if (room == 0) return false;
    }
    return true;
}

uint32_t RaceHistory::new_entry(const RaceSide& task) {
    const uint32_t entry = entries_.take();
    entries_[entry] = {task};
    return entry;
}

void RaceHistory::release(uint32_t entry) {
    if (entry != nobody && --entries_[entry].uses == 0) entries_.give_back(entry);
}

RaceHistory::Place RaceHistory::split(Pieces& pieces, uint64_t at, Place near) {
    return pieces.split(at, near, [&](const Users& users) {
        if (users.writer != nobody) ++entries_[users.writer].uses;
        for (const uint32_t reader : users.readers) ++entries_[reader].uses;
    });
}

RaceHistory::Place RaceHistory::read(Pieces& pieces, uint64_t first, uint64_t end, const BoundRegion& region,
                                     Place near) {
    uint64_t next = first;
    auto it = split(pieces, first, near);
    split(pieces, end, it);
    for (; next < end; ++it) {
        if (it == pieces.end() || it->first > next) {  // never touched
            it = pieces.add(it, next, it == pieces.end() ? end : std::min(end, it->first), {});
        }
        Users& users = it->second.value;
        next = it->second.end;
        if (users.writer != nobody && users.writer != now_ && !ordered(users.writer))
            report(HazardKind::raw, users.writer, region, it->first, next);
        add_reader(users);
    }
    return it;
}

/// A reader that is ordered before the one that starts now says no more than that one.
void RaceHistory::add_reader(Users& users) {
    if (!users.readers.empty() && users.readers.back() == now_) return;
    const auto gone = std::remove_if(users.readers.begin(), users.readers.end(), [&](uint32_t reader) {
        if (!ordered(reader)) return false;
        release(reader);
        return true;
    });
    users.readers.erase(gone, users.readers.end());
    if (users.readers.size() >= max_readers) return;
    users.readers.push_back(now_);
    ++entries_[now_].uses;
}

RaceHistory::Place RaceHistory::write(Pieces& pieces, uint64_t first, uint64_t end, const BoundRegion& region,
                                      Place near) {
    auto it = split(pieces, first, near);
    split(pieces, end, it);
    while (it != pieces.end() && it->first < end) {
        const Users& users = it->second.value;
        for (const uint32_t reader : users.readers) {
            if (reader == now_ || ordered(reader)) continue;
            const bool too_early = later_in_text(entries_[reader].task, entries_[now_].task);
            report(too_early ? HazardKind::stale : HazardKind::war, reader, region, it->first,
                   it->second.end);
        }
        if (users.writer != nobody && users.writer != now_ && !ordered(users.writer))
            report(HazardKind::waw, users.writer, region, it->first, it->second.end);
        for (const uint32_t reader : users.readers) release(reader);
        release(users.writer);
        it = pieces.erase(it);
    }
    ++entries_[now_].uses;
    return std::next(pieces.add(it, first, end, {now_, {}}));
}

bool RaceHistory::ordered(uint32_t earlier) {
    Entry& entry = entries_[earlier];
    const RaceSide &a = entry.task, &b = entries_[now_].task;
    if (entry.asked != b.serial) {
        entry.asked = b.serial;
        entry.ordered = order_->before(a.statement, a.loops, b.statement, b.loops);
    }
    return entry.ordered;
}

/// True if a comes after b when the iterations of every loop run one after the other.
bool RaceHistory::later_in_text(const RaceSide& a, const RaceSide& b) const {
    const size_t common = order_->common_loops(a.statement, b.statement);
    for (size_t d = 0; d < common; ++d) {
        if (a.loops[d] != b.loops[d]) return a.loops[d] > b.loops[d];
    }
    return a.statement > b.statement;
}

void RaceHistory::report(HazardKind kind, uint32_t other, const BoundRegion& region, uint64_t first,
                         uint64_t end) {
    const RaceSide& task = entries_[other].task;
    for (Race& race : *races_) {
        if (race.kind != kind || race.other.serial != task.serial) continue;
        if (race.region->buffer == region.buffer && race.last + 1 == first) race.last = end - 1;
        return;
    }
    races_->push_back({kind, task, &region, first, end - 1});
}

}  // namespace kpu::execution
