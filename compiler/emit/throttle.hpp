#pragma once

#include <optional>
#include <vector>

#include "compiler/emit/order.hpp"
#include "isa/builder.hpp"

namespace kpu::compiler {

/// Keeps room in the token tables. A loop's thread goes on when its last iteration has started; what it issues then
/// may wait for tasks of the loop that are still to be issued, and must not take the entries that those need.
class Throttle {
  public:
    /// entries: of one sequencer's table; 0: any number.
    Throttle(builder::Program& program, Order& order, size_t entries)
        : program_(program), order_(order), entries_(entries) {}

    /// Prepares to issue so many tasks, at most: waits for loops that they would leave without room.
    void reserve(size_t tasks);
    /// Notes a loop with these tasks, the last iterations of which take so many entries of one table.
    void after_loop(std::vector<builder::Task> tasks, size_t entries);

    /// Begins reservations for a thread of its own, which may not run.
    void begin_form();
    /// `tasks`: the last of them.
    void end_form(uint32_t form, std::vector<builder::Task> tasks);

  private:
    struct Loop {
        std::vector<builder::Task> tasks;
        size_t need;                        ///< entries of its last iterations
        size_t ahead = 0;                   ///< tasks issued after it
        std::optional<uint32_t> form = {};  ///< it is all of a form
    };
    builder::Program& program_;
    Order& order_;
    size_t entries_;
    std::vector<Loop> open_;  ///< that nobody waited for, oldest first
    std::vector<Loop> before_form_;
    size_t reserved_ = 0;  ///< since begin_form()
};

}  // namespace kpu::compiler
