#pragma once
// The definition of what a kernel does: one statement of one invocation at a time.
#include <memory>
#include <vector>

#include "values/kernel/lanes/lane.hpp"

namespace kpu::values::kernel {

/// Position of an invocation: of each loop around it the trip, then the statement. Invocations of a workgroup
/// that stand at the same position go together; of several positions, the least goes first.
using Position = std::vector<uint32_t>;

/// An invocation of a kernel.
class Invocation : public Lane {
  public:
    Invocation(const Code& code, const Ids& ids, uint32_t linear, const std::vector<uint64_t>& scalars);

    bool done() const { return frames_.empty(); }
    bool waiting_at_barrier = false;
    bool returned = false;  ///< ended before the others come to the end
    /// Returns the statement that its next step executes; not when done.
    uint32_t statement() const { return frames_.back().next; }
    Position position() const;

    uint64_t variable(uint32_t index) const override { return variables_[index]; }
    uint64_t exchanged(ExprIndex expr) const override;
    /// Results of exchanges for the next step; without, the invocation is the only lane.
    std::vector<std::pair<ExprIndex, uint64_t>> exchanges;

  private:
    friend class Stepper;
    struct Frame {
        uint32_t next = 0, end = 0;  ///< statements
        uint32_t owner = 0;          ///< loop or while: its statement
        enum class Kind : uint8_t { block, loop, while_ } kind = Kind::block;
        uint32_t trip = 0;
        uint32_t value = 0, to = 0;  ///< value and end of a loop's variable
    };
    void settle();
    void finish_body();

    const Code& code_;
    std::vector<Frame> frames_;
    std::vector<uint64_t> variables_;
    std::vector<Copy> copies_;  ///< indexed by tag
};

/// Executes the invocation's next statement; nothing when it is done or waits at a barrier. Throws SimulationError
/// that names the statement and the invocation.
void step(Invocation& invocation, Memory& memory, const Code& code);

/// Runs the invocations of a workgroup to their end, in the order that every other way to run a kernel keeps
/// to: those at the least position go first, all of one position together, in linear order, a statement each.
/// `steps`: lane-statements that may still be executed, counted down. False: they ran out.
bool run_workgroup(const Code& code, Memory& memory, const std::array<uint32_t, 3>& workgroup,
                   const std::vector<uint64_t>& scalars, uint64_t& steps);

/// Returns "kernel `k`, line 3, `y[i] = 1`, invocation (1, 0, 0): ": where a fault happened.
std::string fault_text(const Code& code, uint32_t statement, const Ids& ids, std::string_view what);
/// Throws the error of a barrier that some live invocation did not reach.
[[noreturn]] void fail_barrier(const Code& code, uint32_t statement, const Ids& there, const Ids& elsewhere);
/// Throws the error of an `if` with a barrier in it whose condition differs.
[[noreturn]] void fail_branch(const Code& code, uint32_t statement);
[[noreturn]] void fail_trap(const Code& code, uint32_t statement, Type type, uint64_t address);
[[noreturn]] void fail_second_start(const Code& code, uint32_t statement);
[[noreturn]] void fail_lone_wait(const Code& code, uint32_t statement);
[[noreturn]] void fail_pending(const Code& code, uint32_t statement, const Ids& ids);

}  // namespace kpu::values::kernel
