#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/number_set.hpp"
#include "isa/bound_program.hpp"
#include "isa/builder.hpp"

namespace kpu::compiler {

/// Part of a buffer that a task touches, in whichever iteration: bytes [lo, hi), and of those, for windows of
/// one tensor, only a box of its elements.
struct Span {
    uint32_t buffer = 0;
    int64_t lo = 0, hi = 0;
    bool dense = true;  ///< all bytes from lo to hi
    /// Tensors with the same number have the same origin, and the same strides along dimensions larger than 1, so that boxes
    /// can be compared; 0: bytes only.
    uint32_t frame = 0;
    Dims first, count;  ///< the box, in elements of each dimension
    /// Repetition in it: `size` elements every `step` along each dimension; step 0: all elements.
    Dims size{}, step{};
    int64_t bytes = 0;  ///< bytes of the box, if none of its elements is left out; 0: not known
};

/// Order of tasks: which earlier ones a task must wait for, as if all tasks ran in the order in which they
/// are told. What later iterations of a loop do to each other is not its matter: they have slots of their
/// own.
class Order {
  public:
    /// Notes that bytes of this buffer are written once: nobody waits for their readers.
    void write_once(const builder::Buffer& buffer) { written_once_.insert(buffer.index); }

    /// Adds a task that reads and writes this. Result: those that it must wait for, `others` among them: the few that are
    /// complete only when all of them are, in the order of the text.
    std::vector<builder::Task> add(const builder::Task& task, const std::vector<Span>& reads,
                                   const std::vector<Span>& writes, std::vector<builder::Task> others = {});
    /// Adds a task that waits for nobody.
    void add_free(const builder::Task& task, const std::vector<Span>& writes);
    /// Begins tasks that may not run at all: whoever comes after them waits for what was before, too.
    void begin_form();
    /// Result: the few of the tasks since then that are complete only when all of them are.
    std::vector<builder::Task> end_form();
    /// Notes that the program's thread waits for them: all later tasks do.
    void add_wait(const std::vector<builder::Task>& tasks);
    /// Returns the few of `tasks` that are complete only when all of them are, in the order of the text.
    std::vector<builder::Task> last_of(std::vector<builder::Task> tasks) const;

  private:
    struct Access {
        int64_t lo = 0, hi = 0;  ///< less what later writes have taken over
        int64_t box = -1;        ///< in boxes_; -1: bytes only
        bool write = false;
        builder::Task task;
        std::vector<builder::Task> more;  ///< that read the same: a constant is read by thousands
    };
    bool meets(const Access& access, const Span& span) const;
    void find(const Span& span, bool write, std::vector<builder::Task>& found) const;
    void touch(const builder::Task& task, const Span& span, bool write);
    bool same_place(const Access& access, const Span& span) const;
    void forget_covered(const Span& span, std::vector<Access>& known);
    /// The tiles of a tensor that were written since `begin`, side by side: together they may cover what none of them does.
    struct Cover {
        uint32_t buffer = 0, frame = 0;
        builder::Task begin;
        Dims size;                              ///< size of the first tile: others lie on its grid
        std::set<std::vector<int64_t>> places;  ///< first elements
        Dims first, end;                        ///< bounds of the box around them
        int64_t lo = 0, hi = 0, bytes = 0;      ///< around them; in them
    };
    void cover(const builder::Task& task, const Span& span, std::vector<Access>& known);
    std::vector<builder::Task> last_of(const std::vector<builder::Task>& in_order, NumberSet& known) const;
    void start(const builder::Task& task, NumberSet complete);
    uint32_t number(const builder::Task& task) const { return number_[task.statement()]; }

    /// Accesses to each buffer, in the order of their first tasks; those that later tasks may have to wait
    /// for.
    std::map<uint32_t, std::vector<Access>> accesses_;
    /// Spans of accesses to windows of tensors: large, so they stay where they are.
    std::vector<Span> boxes_;
    std::vector<int64_t> free_;        ///< free places of boxes_
    std::set<uint32_t> written_once_;  ///< buffers
    std::deque<Cover> covers_;         ///< covers of the tensors that are being written, the latest last
    /// Index of the task of each statement. These numbers have no gaps, so that sets of all that is long
    /// complete take nothing.
    std::vector<uint32_t> number_;
    /// Tasks that are complete when a task is, itself among them. No loop is empty, so what is known of a
    /// task is known of all of its instances.
    std::vector<NumberSet> complete_;
    NumberSet waited_;  ///< awaited by the thread
    // of a form
    std::vector<builder::Task> inside_;
    std::optional<uint32_t> form_begin_;  ///< the first of its tasks
    NumberSet waited_before_;
    bool is_before_form(const Access& access) const {
        return form_begin_ && number(access.task) < *form_begin_;
    }
};

}  // namespace kpu::compiler
