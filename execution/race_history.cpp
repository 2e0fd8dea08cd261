#include "execution/race_history.hpp"

#include <algorithm>

#include "isa/footprint_runs.hpp"

namespace kpu::execution {
namespace {

constexpr size_t max_readers =
    64;  ///< of a piece that nothing orders; beyond, some races of theirs go unseen

constexpr int near_steps = 8;  ///< pieces that are cheaper to walk over than to look up

}  // namespace

RaceHistory::RaceHistory(const BoundProgram& program)
    : order_(program, execution::loop_facts(program)),
      followed_(program.buffers.size(), false),
      pieces_(program.buffers.size()) {
    for (const BoundTask& task : program.tasks) {
        for (const uint32_t output : task.outputs) followed_[program.regions[output].buffer] = true;
    }
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
            auto near = pieces.lower_bound(operand.bytes->address);
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

/// No piece goes on over `at`. Result: the first that begins there or behind.
RaceHistory::Place RaceHistory::split(Pieces& pieces, uint64_t at, Place near) {
    const auto behind = [&](Place it) { return it == pieces.end() || it->first >= at; };
    int steps = near == pieces.begin() || !behind(std::prev(near)) ? near_steps : 0;
    auto next = near;
    for (; steps > 0 && !behind(next); --steps) ++next;
    if (steps == 0) next = pieces.lower_bound(at);
    if (next == pieces.begin()) return next;
    Piece& cut = std::prev(next)->second;
    if (cut.end <= at) return next;
    Piece rest = cut;
    if (rest.writer != nobody) ++entries_[rest.writer].uses;
    for (const uint32_t reader : rest.readers) ++entries_[reader].uses;
    cut.end = at;
    return pieces.emplace_hint(next, at, std::move(rest));
}

RaceHistory::Place RaceHistory::read(Pieces& pieces, uint64_t first, uint64_t end, const BoundRegion& region,
                                     Place near) {
    uint64_t next = first;
    auto it = split(pieces, first, near);
    split(pieces, end, it);
    for (; next < end; ++it) {
        if (it == pieces.end() || it->first > next) {  // never touched
            Piece piece;
            piece.end = it == pieces.end() ? end : std::min(end, it->first);
            it = pieces.emplace_hint(it, next, std::move(piece));
        }
        Piece& piece = it->second;
        if (piece.writer != nobody && piece.writer != now_ && !ordered(piece.writer))
            report(HazardKind::raw, piece.writer, region, it->first, piece.end);
        add_reader(piece);
        next = piece.end;
    }
    return it;
}

/// A reader that is ordered before the one that starts now says no more than that one.
void RaceHistory::add_reader(Piece& piece) {
    if (!piece.readers.empty() && piece.readers.back() == now_) return;
    const auto gone = std::remove_if(piece.readers.begin(), piece.readers.end(), [&](uint32_t reader) {
        if (!ordered(reader)) return false;
        release(reader);
        return true;
    });
    piece.readers.erase(gone, piece.readers.end());
    if (piece.readers.size() >= max_readers) return;
    piece.readers.push_back(now_);
    ++entries_[now_].uses;
}

RaceHistory::Place RaceHistory::write(Pieces& pieces, uint64_t first, uint64_t end, const BoundRegion& region,
                                      Place near) {
    auto it = split(pieces, first, near);
    split(pieces, end, it);
    while (it != pieces.end() && it->first < end) {
        const Piece& piece = it->second;
        for (const uint32_t reader : piece.readers) {
            if (reader == now_ || ordered(reader)) continue;
            const bool too_early = later_in_text(entries_[reader].task, entries_[now_].task);
            report(too_early ? HazardKind::stale : HazardKind::war, reader, region, it->first, piece.end);
        }
        if (piece.writer != nobody && piece.writer != now_ && !ordered(piece.writer))
            report(HazardKind::waw, piece.writer, region, it->first, piece.end);
        for (const uint32_t reader : piece.readers) release(reader);
        release(piece.writer);
        it = pieces.erase(it);
    }
    Piece piece;
    piece.end = end;
    piece.writer = now_;
    ++entries_[now_].uses;
    return std::next(pieces.emplace_hint(it, first, std::move(piece)));
}

bool RaceHistory::ordered(uint32_t earlier) {
    Entry& entry = entries_[earlier];
    const RaceSide &a = entry.task, &b = entries_[now_].task;
    if (entry.asked != b.serial) {
        entry.asked = b.serial;
        entry.ordered = order_.before(a.statement, a.loops, b.statement, b.loops);
    }
    return entry.ordered;
}

/// Whether a stands behind b when the iterations of every loop run one after the other.
bool RaceHistory::later_in_text(const RaceSide& a, const RaceSide& b) const {
    const size_t common = order_.common_loops(a.statement, b.statement);
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
