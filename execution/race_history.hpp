#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/piece_map.hpp"
#include "base/pool.hpp"
#include "execution/hazards.hpp"
#include "execution/schedule_order.hpp"
#include "isa/bound_program.hpp"
#include "isa/footprint.hpp"

namespace kpu::execution {

/// A task instance as races name it.
struct RaceSide {
    uint32_t serial = 0;
    uint32_t statement = 0;
    LoopValues loops;
};

/// A race: two accesses to a common byte, one of them a write, that no token, wait or loop window orders,
/// whether or not the tasks were in flight together.
struct Race {
    HazardKind kind = HazardKind::raw;
    RaceSide other;                ///< the one that started first
    const BoundRegion* region;     ///< region of the one that starts now
    uint64_t first = 0, last = 0;  ///< byte addresses of their level, both inclusive
};

/// Last writer of each byte and its readers since. What starts now is compared with those by the order that
/// the program guarantees (execution/schedule_order.hpp), so a race is found in whatever order a run took.
/// Buffers that no task writes are not followed, nor those of tasks outside of loops alone where no order of
/// them has a race (execution/access_frontier.hpp).
class RaceHistory {
  public:
    /// A piece is a run of bytes with the same history; more are not followed: each takes some 100 bytes.
    static constexpr uint64_t max_pieces = uint64_t{1} << 18;

    /// Throws OrderInterrupted.
    RaceHistory(const BoundProgram& program, const std::atomic<bool>* interrupt);
    ~RaceHistory();

    /// Finds one race per other instance and kind, in the order of the bytes. `inputs` and `outputs` with
    /// their footprints at this instance's addresses.
    struct Operand {
        const BoundRegion* region;
        const Footprint* bytes;
    };
    void begin(const RaceSide& task, const std::vector<Operand>& inputs, const std::vector<Operand>& outputs,
               std::vector<Race>& races);
    /// A task's runs might need more than max_pieces: that task was not looked at, and no later one may be.
    bool full() const { return full_; }
    /// Returns a loop that carries more tokens than are followed: orders are missing, races would be made up.
    const uint32_t* loop_too_large() const { return too_large_ ? &*too_large_ : nullptr; }

  private:
    static constexpr uint32_t nobody = UINT32_MAX;

    struct Entry {
        RaceSide task;
        uint64_t uses = 0;
        uint32_t asked = nobody;  ///< serial of the task that it was last compared with: a task meets the
        bool ordered = false;     ///< same one in many pieces
    };
    struct Users {
        uint32_t writer = nobody;
        std::vector<uint32_t> readers;  ///< since the last write; none ordered before another
    };
    using Pieces = PieceMap<Users>;

    class FlatBuffers;
    void follow_some(const BoundProgram& program, FlatBuffers& buffers, const std::atomic<bool>* interrupt);
    bool has_room(const std::vector<Operand>& operands) const;
    uint32_t new_entry(const RaceSide& task);
    void release(uint32_t entry);
    /// The end of a run of bytes, from which the next run is looked for, `near`.
    using Place = Pieces::Place;
    Place split(Pieces& pieces, uint64_t at, Place near);
    Place read(Pieces& pieces, uint64_t first, uint64_t end, const BoundRegion& region, Place near);
    Place write(Pieces& pieces, uint64_t first, uint64_t end, const BoundRegion& region, Place near);
    void add_reader(Users& users);
    bool ordered(uint32_t earlier);
    bool later_in_text(const RaceSide& a, const RaceSide& b) const;
    void report(HazardKind kind, uint32_t other, const BoundRegion& region, uint64_t first, uint64_t end);

    std::optional<ScheduleOrder> order_;  ///< none: no buffer is followed
    std::optional<uint32_t> too_large_;
    std::vector<bool> followed_;  ///< indexed by buffer
    std::vector<Pieces> pieces_;  ///< indexed by buffer, then first byte
    uint64_t count_ = 0;          ///< number of all pieces
    bool full_ = false;
    Pool<Entry> entries_;
    uint32_t now_ = nobody;  ///< entry of the task that starts
    std::vector<Race>* races_ = nullptr;
};

}  // namespace kpu::execution
