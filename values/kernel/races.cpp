#include "values/kernel/races.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "values/kernel/lanes/interpreter.hpp"

namespace kpu::values::kernel {

using RaceKind = KernelRace::Kind;

namespace {

std::string invocation_text(const Code& code, const std::array<uint64_t, 3>& grid, uint64_t invocation) {
    const uint64_t workgroup = invocation / code.invocations();
    const std::array<uint32_t, 3> place = {static_cast<uint32_t>(workgroup % grid[0]),
                                           static_cast<uint32_t>(workgroup / grid[0] % grid[1]),
                                           static_cast<uint32_t>(workgroup / grid[0] / grid[1])};
    const Ids ids = ids_of(code, place, static_cast<uint32_t>(invocation % code.invocations()));
    return fmt::format("invocation ({}, {}, {})", ids.gid[0], ids.gid[1], ids.gid[2]);
}

/// Returns the statements that write a buffer, if not this element, or not in time: perhaps one of them was
/// meant to.
std::string writers_of(const Code& code, uint32_t buffer) {
    std::string text;
    size_t told = 0;
    for (uint32_t i = 0; i < code.statements.size() && told < 2; ++i) {
        const kpu::kernel::CodeStatement& s = code.statements[i];
        const bool stores =
            (s.kind == kpu::kernel::Kind::store || s.kind == kpu::kernel::Kind::masked_store) &&
            s.buffer == buffer;
        if (!stores && !(s.kind == kpu::kernel::Kind::async_copy && s.other == buffer)) continue;
        text += fmt::format("; {} writes others of it", code.where(i));
        ++told;
    }
    return text;
}

RaceText unwritten_text(const Code& code, const KernelRace& race) {
    if (race.kind == RaceKind::unwritten_output)
        return {
            fmt::format("{}, does not write all of output `{}`: element {} is the first that nobody wrote",
                        code.where(race.statement), code.buffers[race.buffer].name, race.element),
            "write all of it, or let the output begin as an input (an alias)"};
    const std::string element = fmt::format("`{}[{}]`", code.buffers[race.buffer].name, race.element);
    const char* const does =
        race.kind == RaceKind::unwritten_leaves ? "writes back" : "decides, or finds its place, by";
    const std::string what =
        race.statement == race.other
            ? fmt::format("{}, which nobody wrote{}", element, writers_of(code, race.buffer))
            : fmt::format("what depends on {}, which {}, reads and nobody wrote", element,
                          code.where(race.other));
    return {fmt::format("{}, {} {}", code.where(race.statement), does, what),
            "write all that is read, or select other values where nothing was written"};
}

}  // namespace

RaceText race_text(const Code& code, const std::array<uint64_t, 3>& grid, const KernelRace& race) {
    const std::string element = fmt::format("`{}[{}]`", code.buffers[race.buffer].name, race.element);
    const auto side = [&](uint32_t statement, uint64_t invocation) {
        if (code.tiles != nullptr) return code.where(statement) + ",";  // it has one invocation
        return fmt::format("{}, {},", code.where(statement), invocation_text(code, grid, invocation));
    };
    const std::string here = side(race.statement, race.invocation);
    const std::string there = side(race.other, race.other_invocation);
    if (race.kind == RaceKind::copy_source)
        return {fmt::format("{} writes {}, which the copy of {} reads until its wait", here, element, there),
                "move the store after the wait for the copy"};
    if (race.kind == RaceKind::copy_destination)
        return {fmt::format("{} touches {}, which the copy of {} changes at its wait", here, element, there),
                "put the wait for the copy before it"};
    if (race.kind == RaceKind::unwritten_leaves || race.kind == RaceKind::unwritten_decides ||
        race.kind == RaceKind::unwritten_output)
        return unwritten_text(code, race);
    const std::string sentence =
        fmt::format("{} {} {}, which {} {}; nothing orders the two", here,
                    race.kind == RaceKind::read_after_write ? "reads" : "writes", element, there,
                    race.kind == RaceKind::write_after_read ? "reads" : "writes");
    return {sentence, race.between_workgroups
                          ? "workgroups have no order: give each its own elements, or use an atomic"
                          : "put a barrier between them, or use an atomic"};
}

std::vector<RaceShadow::Cell>* RaceShadow::cells_of(uint32_t buffer, uint64_t elements) {
    std::vector<Cell>& cells = cells_[buffer];
    if (!cells.empty()) return &cells;
    if (elements > most_elements) {
        if (std::find(unwatched_.begin(), unwatched_.end(), buffer) == unwatched_.end())
            unwatched_.push_back(buffer);
        return nullptr;
    }
    cells.resize(elements);
    return &cells;
}

void RaceShadow::add(const KernelRace& race) {
    const auto [at, inserted] =
        index_.try_emplace(std::make_tuple(race.statement, race.other, race.buffer), races_.size());
    if (inserted) races_.push_back(race);
    ++races_[at->second].count;
}

RaceWatch::RaceWatch(const Code& code, const Memory& memory, RaceShadow& shadow)
    : code_(code), memory_(memory), shadow_(shadow), own_(code.buffers.size()) {}

void RaceWatch::begin(uint64_t workgroup) {
    first_invocation_ = workgroup * code_.invocations();
    in_flight_.clear();
    ++epoch_;
}

void RaceWatch::executed(uint32_t statement, uint32_t) {
    if (code_.statements[statement].kind == kpu::kernel::Kind::barrier) ++epoch_;
}

std::vector<RaceShadow::Cell>* RaceWatch::cells_of(uint32_t buffer) {
    if (!code_.buffers[buffer].is_workgroup()) return shadow_.cells_of(buffer, memory_.length(buffer));
    std::vector<RaceShadow::Cell>& cells = own_[buffer];
    if (cells.empty()) cells.resize(memory_.length(buffer));
    return &cells;
}

/// True if nothing orders an earlier access with this one: they are of different invocations without a
/// barrier between them, or of different workgroups.
bool RaceWatch::unordered(const RaceShadow::Access& earlier, uint64_t invocation, bool shared) const {
    if (earlier.statement == RaceShadow::Access::nobody || earlier.invocation == invocation) return false;
    return workgroup_of(earlier.invocation) == workgroup_of(invocation) ? earlier.epoch == epoch_ : shared;
}

const RaceShadow::Access* RaceWatch::find_unordered(const RaceShadow::History& history, uint64_t invocation,
                                                    bool shared) const {
    for (const RaceShadow::Access* earlier : {&history.last, &history.other, &history.foreign})
        if (unordered(*earlier, invocation, shared)) return earlier;
    return nullptr;
}

void RaceWatch::remember(RaceShadow::History& history, uint64_t invocation) const {
    if (history.last.invocation != invocation) history.other = history.last;
    if (workgroup_of(history.last.invocation) != workgroup_of(invocation)) history.foreign = history.last;
    history.last = {statement_, epoch_, invocation};
}

void RaceWatch::report(RaceKind kind, const RaceShadow::Access& earlier, uint32_t buffer, uint64_t element,
                       uint64_t invocation) {
    KernelRace race;
    race.kind = kind;
    race.statement = statement_;
    race.other = earlier.statement;
    race.buffer = buffer;
    race.element = element;
    race.invocation = invocation;
    race.other_invocation = earlier.invocation;
    race.between_workgroups = workgroup_of(earlier.invocation) != workgroup_of(invocation);
    shadow_.add(race);
}

void RaceWatch::touch(Touch how, uint32_t buffer, uint64_t element, uint64_t invocation) {
    std::vector<RaceShadow::Cell>* const cells = cells_of(buffer);
    if (cells == nullptr || element >= cells->size()) return;  // outside: nothing is touched
    RaceShadow::Cell& cell = (*cells)[element];
    const bool shared = !code_.buffers[buffer].is_workgroup();
    const RaceKind after_write =
        how == Touch::read ? RaceKind::read_after_write : RaceKind::write_after_write;
    if (unordered(cell.written, invocation, shared))
        report(after_write, cell.written, buffer, element, invocation);
    if (how != Touch::atomic)
        if (const RaceShadow::Access* earlier = find_unordered(cell.atomics, invocation, shared))
            report(after_write, *earlier, buffer, element, invocation);
    if (how != Touch::read)
        if (const RaceShadow::Access* earlier = find_unordered(cell.reads, invocation, shared))
            report(RaceKind::write_after_read, *earlier, buffer, element, invocation);
    if (how == Touch::write)
        cell.written = {statement_, epoch_, invocation};
    else
        remember(how == Touch::read ? cell.reads : cell.atomics, invocation);
}

void RaceWatch::touch_range(Touch how, const Range& range, uint64_t invocation) {
    for (uint64_t element = range.begin; element < range.end; ++element)
        touch(how, range.buffer, element, invocation);
}

/// Copies that are not awaited yet and what someone touches meanwhile.
void RaceWatch::meet_copies(Touch how, const Range& range, uint64_t invocation) {
    const auto meets = [&](const Range& other) {
        return other.buffer == range.buffer && other.begin < range.end && range.begin < other.end;
    };
    for (const InFlight& copy : in_flight_) {
        const RaceShadow::Access starter{copy.statement, epoch_, invocation_of(copy.lane)};
        if (meets(copy.destination))
            report(RaceKind::copy_destination, starter, range.buffer,
                   std::max(range.begin, copy.destination.begin), invocation);
        if (how != Touch::read && meets(copy.source))
            report(RaceKind::copy_source, starter, range.buffer, std::max(range.begin, copy.source.begin),
                   invocation);
    }
}

void RaceWatch::accessed(ExprIndex site, uint32_t buffer, const uint32_t* elements, const uint32_t* lanes,
                         uint32_t count) {
    const bool store = site == kpu::kernel::no_expr;
    const bool atomic =
        !store && kpu::kernel::operation(code_.exprs[site].op).syntax == kpu::kernel::Syntax::atomic;
    const bool constant = !store && !code_.buffers[buffer].writable();
    const Touch how = atomic ? Touch::atomic : store ? Touch::write : Touch::read;
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t invocation = invocation_of(lanes[i]);
        if (!constant) touch(how, buffer, elements[i], invocation);
        if (!in_flight_.empty())
            meet_copies(how, {buffer, elements[i], uint64_t{elements[i]} + 1}, invocation);
    }
}

RaceWatch::Range RaceWatch::elements_of(uint32_t buffer, uint64_t byte, uint64_t bytes) const {
    const uint64_t size = std::max<uint64_t>(kpu::kernel::storage_bits(code_.buffers[buffer].type) / 8, 1);
    const uint64_t length = memory_.length(buffer);
    return {buffer, std::min(byte / size, length), std::min((byte + bytes + size - 1) / size, length)};
}

void RaceWatch::copy_started(uint32_t lane, uint32_t tag, const Copy& copy) {
    const kpu::kernel::CodeStatement& s = code_.statements[copy.statement];
    InFlight started{lane, tag, copy.statement, elements_of(s.buffer, copy.from, copy.payload.size()),
                     elements_of(s.other, copy.start, copy.payload.size())};
    const uint64_t invocation = invocation_of(lane);
    meet_copies(Touch::read, started.source, invocation);
    meet_copies(Touch::write, started.destination, invocation);
    if (code_.buffers[s.buffer].writable()) touch_range(Touch::read, started.source, invocation);
    touch_range(Touch::write, started.destination, invocation);  // from now on it is not for others
    in_flight_.push_back(started);
}

void RaceWatch::copy_awaited(uint32_t lane, uint32_t tag) {
    const auto found = std::find_if(in_flight_.begin(), in_flight_.end(), [&](const InFlight& copy) {
        return copy.lane == lane && copy.tag == tag;
    });
    if (found == in_flight_.end()) return;
    const InFlight done = *found;
    in_flight_.erase(found);
    touch_range(Touch::write, done.destination, invocation_of(lane));
}

}  // namespace kpu::values::kernel
