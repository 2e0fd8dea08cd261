#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "values/kernel/lanes/batch.hpp"

namespace kpu::values::kernel {

/// A race: two statements of a kernel that touch the same element, one of them to write it, and nothing
/// orders the two; or one that touches what a copy in flight reads or writes; or one that reads what nobody
/// wrote, and one where that matters.
struct KernelRace {
    enum class Kind : uint8_t {
        read_after_write,
        write_after_read,
        write_after_write,
        copy_source,        ///< written before the copy's wait
        copy_destination,   ///< read or written before the copy's wait
        unwritten_leaves,   ///< a value that depends on memory nobody wrote is copied out of the kernel
        unwritten_decides,  ///< it is a condition, a place, or a number of a semaphore
        unwritten_output    ///< an output ends with elements that nobody wrote
    };
    Kind kind = Kind::read_after_write;
    uint32_t statement = 0, other = 0;  ///< that comes later, and earlier, in the run
    uint32_t buffer = 0;
    uint64_t element = 0;                           ///< element of the first occurrence
    uint64_t invocation = 0, other_invocation = 0;  ///< counted through all workgroups
    bool between_workgroups = false;
    uint64_t count = 0;
};
/// Text of a race: what both statements do, without a full stop, and what to do about it.
struct RaceText {
    std::string sentence, fix;
};
RaceText race_text(const Code& code, const std::array<uint64_t, 3>& grid, const KernelRace& race);

/// Last accesses of each element, for the workers of one launch.
class RaceShadow {
  public:
    static constexpr uint64_t most_elements = uint64_t{1} << 21;

    explicit RaceShadow(const Code& code) : cells_(code.buffers.size()) {}
    /// Returns the races in order of first occurrence.
    const std::vector<KernelRace>& races() const { return races_; }
    /// Buffers that are too large to be watched.
    const std::vector<uint32_t>& unwatched() const { return unwatched_; }

  private:
    friend class RaceWatch;
    struct Access {
        static constexpr uint32_t nobody = ~uint32_t{0};
        uint32_t statement = nobody;
        uint32_t epoch = 0;  ///< barriers and workgroups of its worker so far
        uint64_t invocation = 0;
    };
    /// Accesses of an element that may follow each other without a race. One that races with any of them
    /// races with one of these.
    struct History {
        Access last, other, foreign;  ///< the last one; of another invocation; of another workgroup
    };
    struct Cell {
        Access written;
        History atomics, reads;
    };
    std::vector<Cell>* cells_of(uint32_t buffer, uint64_t elements);
    void add(const KernelRace& race);

    std::vector<std::vector<Cell>> cells_;  ///< indexed by buffer that is not workgroup memory
    std::vector<KernelRace> races_;
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, size_t> index_;  ///< statements and buffer
    std::vector<uint32_t> unwatched_;
};

/// Looks for races in what one worker of a launch executes.
class RaceWatch : public StepObserver {
  public:
    RaceWatch(const Code& code, const Memory& memory, RaceShadow& shadow);

    void begin(uint64_t workgroup);
    void accessed(ExprIndex site, uint32_t buffer, const uint32_t* elements, const uint32_t* lanes,
                  uint32_t count) override;
    void copy_started(uint32_t lane, uint32_t tag, const Copy& copy) override;
    void copy_awaited(uint32_t lane, uint32_t tag) override;
    void executes(uint32_t statement) override { statement_ = statement; }
    void executed(uint32_t statement, uint32_t active) override;

  private:
    enum class Touch : uint8_t { read, write, atomic };
    struct Range {
        uint32_t buffer = 0;
        uint64_t begin = 0, end = 0;  ///< elements
    };
    struct InFlight {
        uint32_t lane = 0, tag = 0, statement = 0;
        Range source, destination;
    };
    void touch(Touch how, uint32_t buffer, uint64_t element, uint64_t invocation);
    void touch_range(Touch how, const Range& range, uint64_t invocation);
    void meet_copies(Touch how, const Range& range, uint64_t invocation);
    uint64_t workgroup_of(uint64_t invocation) const { return invocation / code_.invocations(); }
    bool unordered(const RaceShadow::Access& earlier, uint64_t invocation, bool shared) const;
    const RaceShadow::Access* find_unordered(const RaceShadow::History& history, uint64_t invocation,
                                             bool shared) const;
    void remember(RaceShadow::History& history, uint64_t invocation) const;
    void report(KernelRace::Kind kind, const RaceShadow::Access& earlier, uint32_t buffer, uint64_t element,
                uint64_t invocation);
    std::vector<RaceShadow::Cell>* cells_of(uint32_t buffer);
    Range elements_of(uint32_t buffer, uint64_t byte, uint64_t bytes) const;
    uint64_t invocation_of(uint32_t lane) const { return first_invocation_ + lane; }

    const Code& code_;
    const Memory& memory_;
    RaceShadow& shadow_;
    std::vector<std::vector<RaceShadow::Cell>> own_;  ///< cells of workgroup memory
    std::vector<InFlight> in_flight_;
    uint32_t statement_ = 0, epoch_ = 0;
    uint64_t first_invocation_ = 0;
};

}  // namespace kpu::values::kernel
