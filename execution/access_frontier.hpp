#pragma once

#include <boost/container/small_vector.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "base/piece_map.hpp"
#include "execution/schedule_order.hpp"
#include "isa/bound_program.hpp"
#include "isa/footprint.hpp"

namespace kpu::execution {

/// An operand of a task statement.
struct Access {
    uint32_t statement = 0;
    uint32_t region = 0;
    bool write = false;
};

/// Accesses to each byte of a buffer that later ones have to be compared with: what has been written or read
/// again, in order, says no more. Whoever races with an access that is gone, on some byte, races on that byte
/// with the one that took its place: it comes after both in the text, and were it ordered after the second,
/// it would be after the first. So each access that races with any before it is found, however long the text;
/// with which ones, only a look at all of them tells.
class AccessFrontier {
  public:
    AccessFrontier(const BoundProgram& program, const ScheduleOrder& order)
        : program_(program), order_(order) {}

    /// Begins another buffer.
    void clear() { pieces_.clear(); }
    /// Adds an access of a task outside of loops, in the order of the text, a task's reads first. True: it
    /// races with one before.
    bool add(const Access& access);
    /// Returns the accesses that a later access to bytes of [first, end) has to be compared with.
    std::vector<Access> near(uint64_t first, uint64_t end, bool write);

  private:
    /// Regions of more runs are one piece with gaps: exact questions then decide what meets, and only a region without
    /// gaps, or the same one, takes its place.
    static constexpr uint64_t runs_of_a_region = 256, runs_in_all = uint64_t{1} << 26;
    static constexpr uint32_t few_readers = 16;

    struct Member {
        uint32_t statement = 0;
        uint32_t region : 31;
        uint32_t gaps : 1;
        bool operator==(const Member& o) const {
            return statement == o.statement && region == o.region && gaps == o.gaps;
        }
    };
    struct Members {
        boost::container::small_vector<Member, 2> list;  ///< members, those that write first
        uint32_t writers = 0;
        uint32_t look_at = few_readers;  ///< so many readers: look which of them say no more
    };
    using Pieces = PieceMap<Members>;

    Pieces::Place cover(uint64_t first, uint64_t end, Pieces::Place near);
    Pieces::Place joined(Pieces::Place it);
    void enter(Members& members);
    void enter_read(Members& members);
    void enter_write(Members& members);
    void drop_readers(Members& members) const;
    bool is_alone(const Members& members) const {
        return members.list.size() == 1 && members.list[0] == now_;
    }
    bool before(const Member& member) const {
        return member.statement == now_.statement || order_.flat_ordered(member.statement, now_.statement);
    }
    bool takes_place_of(const Member& member) const;
    bool touches(const Member& member);
    Footprint bytes_of(uint32_t region) const;

    const BoundProgram& program_;
    const ScheduleOrder& order_;
    Pieces pieces_;
    Member now_{};
    bool writes_ = false, racing_ = false;
    Footprint bytes_;                                 ///< bytes of the access that is added
    std::vector<std::pair<uint32_t, bool>> touched_;  ///< known accesses of each region
    uint64_t runs_ = 0;
};

}  // namespace kpu::execution
