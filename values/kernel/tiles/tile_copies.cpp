#include "values/kernel/tiles/tile_copies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace kpu::values::kernel {
namespace {

Shape dense_strides(const ByteWindow& window) { return row_major(window.sizes); }

}  // namespace

const TileCopy& TileCopies::start(TileCopy copy, const std::vector<Bytes>& storage) {
    touch(copy.statement, copy.source, false);
    touch(copy.statement, copy.whole, true);
    copy.number = started_++;
    const ByteWindow from = copy.source.merged();
    if (const uint64_t bytes = from.bytes(); bytes > 0) {
        copy.payload.reset(new uint8_t[bytes]);
        copy_strided(copy.payload.get(), dense_strides(from), storage[from.buffer].data + from.first,
                     from.strides, from.sizes, from.element_bytes);
    }
    if (unwritten_ != nullptr) copy.unwritten = unwritten_->read(copy.statement, copy.source);
    const bool leaves = !code_.buffers[copy.whole.buffer].is_workgroup();
    if (copy.unwritten != nullptr && leaves)
        report_unwritten(KernelRace::Kind::unwritten_leaves, copy.statement,
                         *std::exchange(copy.unwritten, nullptr));
    Semaphore& semaphore = semaphores_[{copy.semaphore, copy.index}];
    semaphore.statement = copy.statement;
    semaphore.statements.insert(copy.statement);
    on_their_way_.push_back(std::move(copy));
    return on_their_way_.back();
}

void TileCopies::signal(uint32_t statement, uint32_t semaphore, int64_t index, int64_t amount) {
    Semaphore& signalled = semaphores_[{semaphore, index}];
    signalled.count += amount;
    signalled.statement = statement;
    signalled.statements.insert(statement);
}

int64_t TileCopies::count(uint32_t semaphore, int64_t index) const {
    const auto found = semaphores_.find({semaphore, index});
    int64_t sum = found == semaphores_.end() ? 0 : found->second.count;
    for (const TileCopy& copy : on_their_way_)
        if (copy.semaphore == semaphore && copy.index == index) sum += static_cast<int64_t>(copy.counts);
    return sum;
}

std::vector<uint64_t> TileCopies::needed(uint32_t semaphore, int64_t index, int64_t amount) const {
    if (amount < 0) throw TileFault(fmt::format("it waits for {}. Fix: wait for what is signalled.", amount));
    const auto found = semaphores_.find({semaphore, index});
    int64_t has = found == semaphores_.end() ? 0 : found->second.count;
    std::vector<uint64_t> numbers;
    for (const TileCopy& copy : on_their_way_) {
        if (has >= amount) break;
        if (copy.semaphore != semaphore || copy.index != index) continue;
        has += static_cast<int64_t>(copy.counts);
        numbers.push_back(copy.number);
    }
    if (has < amount)
        throw TileFault(fmt::format(
            "deadlock: it waits until semaphore `{}[{}]` is {}, but it is {} and nothing is on its "
            "way that counts there{}. Fix: start the copy, or signal, before the wait.",
            code_.buffers[semaphore].name, index, amount, has, who_counts_elsewhere(semaphore, index)));
    return numbers;
}

/// Returns the statements that were perhaps meant to count there: what did before, and what counts at others
/// of the array.
std::string TileCopies::who_counts_elsewhere(uint32_t semaphore, int64_t index) const {
    std::string text;
    if (const auto same = semaphores_.find({semaphore, index}); same != semaphores_.end())
        text = fmt::format("; last that counted was {}", code_.where(same->second.statement));
    std::set<uint32_t> told;
    const auto tell = [&](uint32_t statement, int64_t other) {
        if (other == index || !told.insert(statement).second) return;
        text += fmt::format("; {} counts at `{}[{}]`", code_.where(statement), code_.buffers[semaphore].name,
                            other);
    };
    for (const TileCopy& copy : on_their_way_)
        if (copy.semaphore == semaphore) tell(copy.statement, copy.index);
    for (const auto& [place, one] : semaphores_)
        if (place.first == semaphore && one.count != 0)
            for (const uint32_t statement : one.statements) tell(statement, place.second);
    return text;
}

void TileCopies::wait(uint32_t semaphore, int64_t index, int64_t amount, const std::vector<Bytes>& storage) {
    for (const uint64_t number : needed(semaphore, index, amount)) {
        const auto copy = std::find_if(on_their_way_.begin(), on_their_way_.end(),
                                       [&](const TileCopy& one) { return one.number == number; });
        arrive(*copy, storage);
        signal(copy->statement, semaphore, index, static_cast<int64_t>(copy->counts));
        on_their_way_.erase(copy);
    }
    if (amount <= 0) return;
    Semaphore& waited = semaphores_[{semaphore, index}];
    waited.count -= amount;
    if (waited.count == 0) waited.statements.clear();
}

void TileCopies::arrive(const TileCopy& copy, const std::vector<Bytes>& storage) {
    const auto put = [&](const ByteWindow& window, const uint8_t* from, bool zeros) {
        const ByteWindow to = window.merged();
        copy_strided(storage[to.buffer].data + to.first, to.strides, from,
                     zeros ? Shape(to.sizes.size(), 0) : dense_strides(to), to.sizes, to.element_bytes);
    };
    constexpr uint64_t zero = 0;
    const bool cut = copy.whole.count() != copy.destination.count();
    if (cut) put(copy.whole, reinterpret_cast<const uint8_t*>(&zero), true);
    if (copy.payload) put(copy.destination, copy.payload.get(), false);
    if (unwritten_ == nullptr) return;
    if (cut) unwritten_->forget(copy.whole);
    unwritten_->write(copy.destination, copy.unwritten.get());
}

void TileCopies::check_end(uint32_t& statement) const {
    if (!on_their_way_.empty()) {
        statement = on_their_way_.front().statement;
        throw TileFault("nobody waits for this copy. Fix: wait for its semaphore before the kernel ends.");
    }
    for (const auto& [place, semaphore] : semaphores_) {
        if (semaphore.count == 0) continue;
        statement = semaphore.statement;
        throw TileFault(fmt::format(
            "it counts at semaphore `{}[{}]`, which is {} at the end of the kernel. Fix: wait for "
            "what was signalled.",
            code_.buffers[place.first].name, place.second, semaphore.count));
    }
}

void TileCopies::touch(uint32_t statement, const ByteWindow& window, bool writes) {
    if (!watches_) return;
    KernelRace race;
    race.statement = statement;
    race.buffer = window.buffer;
    race.element = window.first / window.element_bytes;
    for (const TileCopy& copy : on_their_way_) {
        race.other = copy.statement;
        race.kind = KernelRace::Kind::copy_destination;
        if (copy.whole.overlaps(window)) report(race);
        race.kind = KernelRace::Kind::copy_source;
        if (writes && copy.source.overlaps(window)) report(race);
    }
}

void TileCopies::report_unwritten(KernelRace::Kind kind, uint32_t statement, const Unwritten& part) {
    KernelRace race;
    race.kind = kind;
    race.statement = statement;
    race.other = part.statement;
    race.buffer = part.buffer;
    race.element = part.element;
    report(race);
}

void TileCopies::report_outputs() {
    const auto writes = [&](uint32_t statement, uint32_t buffer) {
        const kpu::kernel::CodeStatement& s = code_.statements[statement];
        return (s.kind == kpu::kernel::Kind::async_copy && s.other == buffer) ||
               ((s.kind == kpu::kernel::Kind::store || s.kind == kpu::kernel::Kind::masked_store) &&
                s.buffer == buffer);
    };
    for (uint32_t buffer = 0; unwritten_ != nullptr && buffer < code_.buffers.size(); ++buffer) {
        const auto left =
            code_.buffers[buffer].is_workgroup() ? std::nullopt : unwritten_->first_left(buffer);
        if (!left) continue;
        KernelRace race;
        race.kind = KernelRace::Kind::unwritten_output;
        race.buffer = buffer;
        race.element = *left;
        while (race.statement + 1 < code_.statements.size() && !writes(race.statement, buffer))
            ++race.statement;
        race.other = race.statement;
        report(race);
    }
}

void TileCopies::report(const KernelRace& race) {
    const auto known = std::find_if(races_.begin(), races_.end(), [&](const KernelRace& one) {
        return one.kind == race.kind && one.statement == race.statement && one.other == race.other &&
               one.buffer == race.buffer;
    });
    if (known != races_.end()) {
        ++known->count;
        return;
    }
    races_.push_back(race);
    races_.back().count = 1;
}

}  // namespace kpu::values::kernel
