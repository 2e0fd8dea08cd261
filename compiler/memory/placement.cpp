#include "compiler/memory/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/diagnostics.hpp"

namespace kpu::compiler {

namespace {

/// First-fit places of storages whose lifetimes overlap: each gets the lowest address that is free meanwhile.
class Arena {
  public:
    explicit Arena(uint64_t capacity) : capacity_(capacity) {}

    /// Places it. False, and nothing changes: there is no room.
    bool place(Storage& storage) {
        uint64_t lo = 0;
        const uint64_t size = align_up(storage.bytes);
        for (const Block* block : alive_during(storage.first, storage.last)) {
            if (lo + size <= block->lo) break;
            lo = std::max(lo, block->hi);
        }
        if (lo + size > capacity_) return false;
        storage.address = lo;
        blocks_.push_back({lo, lo + size, storage.first, storage.last});
        used_ = std::max(used_, lo + size);
        return true;
    }
    uint64_t used() const { return used_; }

    /// Returns the largest gap while groups [first, last] run.
    MemoryPlan::Gap gap(uint32_t first, uint32_t last) const {
        std::vector<const Block*> alive = alive_during(first, last);
        MemoryPlan::Gap largest;
        uint64_t lo = 0;
        const auto consider = [&](uint64_t hi) {
            if (hi > lo && hi - lo > largest.bytes) largest = {lo, hi - lo};
        };
        for (const Block* block : alive) {
            consider(block->lo);
            lo = std::max(lo, block->hi);
        }
        consider(capacity_);
        return largest;
    }

  private:
    struct Block {
        uint64_t lo, hi;
        uint32_t first, last;
    };
    /// Returns the blocks in order of their addresses.
    std::vector<const Block*> alive_during(uint32_t first, uint32_t last) const {
        std::vector<const Block*> alive;
        for (const Block& block : blocks_) {
            if (block.first <= last && first <= block.last) alive.push_back(&block);
        }
        std::sort(alive.begin(), alive.end(), [](const Block* a, const Block* b) { return a->lo < b->lo; });
        return alive;
    }

    uint64_t capacity_, used_ = 0;
    std::vector<Block> blocks_;
};

class Placer {
  public:
    Placer(MemoryPlan& plan, const std::vector<Home>& wished, const Room& room)
        : plan_(plan), storages_(plan.storages), wished_(wished), room_(room) {}

    void run() {
        std::vector<size_t> best = legal(program_order());
        uint64_t least = traffic(best);
        const auto consider = [&](std::vector<size_t> order) {
            const uint64_t found = traffic(order);
            if (found >= least) return;
            least = found;
            best = std::move(order);
        };
        if (least > 0) {
            consider(legal(by_worth(best, false)));
            consider(legal(by_worth(best, true)));
        }
        // a storage that enters may make room elsewhere by what it drives out
        for (uint64_t before = 0; least > 0 && before != least && tries_ > 0;) {
            before = least;
            for (const size_t s : left_out(best)) consider(first(best, s));
            for (const size_t s : left_out(best)) {
                if (tries_ > 0) consider(without_neighbour(best, s));
            }
        }
        finish(best);
    }

  private:
    bool is_open(size_t s) const {
        const Storage& of = storages_[s];
        return !of.input && !of.output && of.first <= of.last;
    }
    bool may_enter_l2(size_t s) const {
        return is_open(s) && wished_[s] != Home::ddr && storages_[s].bytes <= room_.l2;
    }

    /// Returns the indices of storages; those whose place in L2 is fixed are the first ones in every order.
    std::vector<size_t> program_order() const {
        std::vector<size_t> order;
        for (size_t s = 0; s < storages_.size(); ++s) {
            if (is_open(s)) order.push_back(s);
        }
        std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
            return std::make_pair(wished_[a] != Home::l2, storages_[a].first) <
                   std::make_pair(wished_[b] != Home::l2, storages_[b].first);
        });
        return order;
    }

    /// Sorts storages: those that save most traffic per byte, or per byte and group in which it is taken,
    /// come first.
    std::vector<size_t> by_worth(std::vector<size_t> order, bool lasting) const {
        const auto worth = [&](size_t s) {
            const Storage& of = storages_[s];
            const double groups = of.last >= of.first ? double(of.last - of.first) + 1 : 1;
            return double(of.traffic) / double(of.bytes) / (lasting ? groups : 1);
        };
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
            const bool fixed = wished_[a] == Home::l2;
            if (fixed != (wished_[b] == Home::l2)) return fixed;
            return worth(a) > worth(b);
        });
        return order;
    }

    /// Sorts storages until the order is legal: those that are fixed and find no place come first, again and
    /// again until all have one.
    std::vector<size_t> legal(std::vector<size_t> order) const {
        constexpr int most_rounds = 300;
        for (int round = 0; round < most_rounds; ++round) {
            Arena l2(room_.l2);
            const auto fails = [&](size_t s) {
                return may_enter_l2(s) && !l2.place(storages_[s]) && wished_[s] == Home::l2;
            };
            const auto failing = std::find_if(order.begin(), order.end(), fails);
            if (failing == order.end()) break;
            std::rotate(order.begin(), failing, failing + 1);
        }
        return order;
    }

    std::vector<size_t> first(std::vector<size_t> order, size_t s) const {
        order.erase(std::find(order.begin(), order.end(), s));
        const auto open = [this](size_t other) { return wished_[other] != Home::l2; };
        order.insert(open(s) ? std::find_if(order.begin(), order.end(), open) : order.begin(), s);
        return order;
    }

    /// Sorts for a storage that is left out: it comes first, and that of those living with it in L2 last
    /// which costs least.
    std::vector<size_t> without_neighbour(const std::vector<size_t>& order, size_t s) {
        std::vector<size_t> best = first(order, s);
        uint64_t least = traffic(best);
        for (const size_t other : order) {
            const bool together =
                storages_[other].first <= storages_[s].last && storages_[s].first <= storages_[other].last;
            if (other == s || !together || wished_[other] != Home::none || !may_enter_l2(other)) continue;
            std::vector<size_t> trial = first(order, s);
            trial.erase(std::find(trial.begin(), trial.end(), other));
            trial.push_back(other);
            const uint64_t found = traffic(trial);
            if (found >= least) continue;
            least = found;
            best = std::move(trial);
        }
        return best;
    }

    /// Returns the bytes that go through DDR where storages get places in L2 in this order; more than any
    /// where one that is fixed there gets none.
    uint64_t traffic(const std::vector<size_t>& order) {
        constexpr uint64_t illegal = uint64_t{1} << 48;
        --tries_;
        Arena l2(room_.l2);
        uint64_t sum = 0;
        for (const size_t s : order) {
            if (may_enter_l2(s) && l2.place(storages_[s])) continue;
            sum += wished_[s] == Home::l2 ? illegal : storages_[s].traffic;
        }
        return sum;
    }

    /// Returns the largest of what finds no place in L2, though it could.
    std::vector<size_t> left_out(const std::vector<size_t>& order) {
        constexpr size_t most = 64;
        Arena l2(room_.l2);
        std::vector<size_t> result;
        for (const size_t s : order) {
            if (may_enter_l2(s) && !l2.place(storages_[s])) result.push_back(s);
        }
        std::stable_sort(result.begin(), result.end(),
                         [this](size_t a, size_t b) { return storages_[a].traffic > storages_[b].traffic; });
        if (result.size() > most) result.resize(most);
        return result;
    }

    void finish(const std::vector<size_t>& order) {
        Arena l2(room_.l2), ddr(room_.ddr);
        std::vector<size_t> in_part;
        for (const size_t s : order) {
            Storage& storage = storages_[s];
            if (may_enter_l2(s) && l2.place(storage)) {
                storage.home = Home::l2;
            } else if (wished_[s] == Home::l2) {
                throw UserError(fmt::format(
                    "`{}` of {} bytes finds no place in L2 beside what lives there meanwhile ({} "
                    "bytes are for tensors), where --mapping fixes it. Fix: leave it open, or fix "
                    "others in DDR.",
                    storage.name, storage.bytes, room_.l2));
            } else if (storage.constant) {
                in_part.push_back(s);
            } else if (!ddr.place(storage)) {
                throw UserError(
                    fmt::format("DRAM memory exceeded: `{}` of {} bytes finds no place in {} bytes. Fix: "
                                "choose a device with more DDR "
                                "(--set ddr.size_bytes=N).",
                                storage.name, storage.bytes, room_.ddr));
            }
        }
        for (const size_t s : in_part) place_part(l2, storages_[s]);
        plan_.l2_bytes = l2.used();
        for (uint32_t g = 0; g < plan_.groups.size(); ++g) plan_.spare.push_back(l2.gap(g, g));
        plan_.ddr_bytes = ddr.used();
    }

    /// Places the part of a constant for which there is room, if the whole finds none. Operations keep inputs
    /// in a gap too: the more often the constant is read, the more of it is its own.
    static void place_part(Arena& l2, Storage& storage) {
        constexpr uint64_t least = 64 << 10;  // a few blocks
        const auto traffic = double(storage.traffic);
        const double share = traffic / (traffic + double(storage.bytes));
        const double gap = double(l2.gap(storage.first, storage.last).bytes);
        const uint64_t room = static_cast<uint64_t>(share * gap) / tile_align * tile_align;
        if (room < std::max(storage.bytes / 8, least)) return;
        storage.bytes = std::min(storage.bytes, room);
        if (l2.place(storage)) storage.home = Home::l2;
    }

    MemoryPlan& plan_;
    std::vector<Storage>& storages_;
    const std::vector<Home>& wished_;
    const Room& room_;
    int tries_ =
        600;  ///< orders that may still be looked at: some tenths of a second for the largest networks
};

}  // namespace

void place(MemoryPlan& plan, const std::vector<Home>& wished, const Room& room) {
    Placer(plan, wished, room).run();
}

}  // namespace kpu::compiler
