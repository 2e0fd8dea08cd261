#pragma once
// A statement for all its lanes at once: the same values as interpreter.hpp, and what the vector unit steps.
#include <array>
#include <cstdint>
#include <vector>

#include "values/kernel/lanes/lane.hpp"

namespace kpu::values::kernel {

struct ByteWindow;
struct TileCopy;

/// A `dot`: `groups` products of m x k by k x n.
struct TileProduct {
    kpu::kernel::Type a, b, result;
    uint64_t groups, m, n, k;
    uint64_t macs() const { return groups * m * n * k; }
};

/// Receives what a statement did; the vector unit makes time of it.
class StepObserver {
  public:
    virtual ~StepObserver() = default;
    /// A statement is about to be executed.
    virtual void executes(uint32_t /*statement*/) {}
    /// Elements of a buffer that lanes of the workgroup asked for, in lane order; outside the buffer too. `site`:
    /// the load or atomic; no_expr: the store.
    virtual void accessed(ExprIndex /*site*/, uint32_t /*buffer*/, const uint32_t* /*elements*/,
                          const uint32_t* /*lanes*/, uint32_t /*count*/) {}
    /// A lane started a copy, or waits for one.
    virtual void copy_started(uint32_t /*lane*/, uint32_t /*tag*/, const Copy& /*copy*/) {}
    virtual void copy_awaited(uint32_t /*lane*/, uint32_t /*tag*/) {}
    /// Rule set xla: an operation on so many elements, so many times over; a `dot`; a part of a buffer; a copy.
    virtual void computed(kpu::kernel::CostClass /*cost*/, uint64_t /*elements*/, uint64_t /*times*/) {}
    virtual void multiplied(const TileProduct& /*product*/) {}
    virtual void touched(const ByteWindow& /*window*/, bool /*writes*/) {}
    virtual void copy_started(const TileCopy& /*copy*/) {}
    /// Called after all of these: `active` of the workgroup's lanes have executed the statement.
    virtual void executed(uint32_t /*statement*/, uint32_t /*active*/) {}
};

/// Executes workgroups, all lanes that stand at a statement together, then side first; they meet again after
/// it.
class Batch {
  public:
    Batch(const Code& code, Memory& memory, std::vector<uint64_t> scalars);

    void begin(const std::array<uint32_t, 3>& workgroup);
    bool done() const { return frames_.empty(); }
    /// Executes one statement. Throws SimulationError that names it and an invocation.
    void step();
    void observe(StepObserver& observer) { observers_.push_back(&observer); }
    uint32_t statement() const { return next_; }  ///< that step() executes
    uint32_t active() const { return static_cast<uint32_t>(lanes_.size()); }
    const std::vector<uint32_t>& lanes() const {
        return lanes_;
    }  ///< lanes of the workgroup that execute it, ascending

    const std::array<uint32_t, 3>& workgroup() const { return workgroup_; }
    /// Returns the value of a variable that a lane of the workgroup has now.
    uint64_t value(uint32_t variable, uint32_t lane) const {
        const Column& column = variables_[variable];
        return column.wide.empty() ? column.words[lane] : column.wide[lane];
    }

  private:
    using Lanes = std::vector<uint32_t>;
    /// Values of all lanes, or of the active ones side by side.
    struct Column {
        std::vector<uint32_t> words;
        std::vector<uint64_t> wide;  ///< values of u64
    };
    struct Values {
        uint32_t* words = nullptr;
        uint64_t* wide = nullptr;
        uint64_t at(size_t i) const { return wide != nullptr ? wide[i] : words[i]; }
    };
    struct Frame {
        enum class Kind : uint8_t { block, then, loop, while_ } kind = Kind::block;
        uint32_t statement = 0, end = 0;
        Lanes after;                      ///< lanes that go on after it
        Lanes other;                      ///< then: of the else side
        std::vector<uint32_t> value, to;  ///< loop: of its lanes, side by side with lanes_
        bool alike = false;               ///< loop: the same for all its lanes, `value` and `to` hold one
    };
    struct Facts {
        bool atomic = false;
        bool loads_target = false;        ///< the value of a store loads the buffer that it stores to
        bool index_loads_target = false;  ///< its index does
    };
    class LaneView;
    struct Abandoned {};  ///< thrown: the statement needs lane by lane

    // batch.cpp: control
    void settle();
    void leave();
    void next_trip(Frame& frame);
    void set_all(uint32_t variable, uint32_t value);
    void revive(Lanes& lanes) const;
    void execute();
    void branch();
    void enter_loop();
    void decide_while();
    void meet();
    void check_pending() const;

    // batch_statements.cpp: what statements do
    void bind();
    void store();
    void store_column(const Values& indices, const Values& values);
    void store_lane_by_lane();
    void copy();
    void wait();
    void trap();
    void assign_variable(uint32_t variable, const Values& values);
    const std::vector<uint8_t>& truths(size_t operand);

    // batch_values.cpp: expressions
    Values evaluate_column(ExprIndex root);
    Values lane_by_lane(ExprIndex root, size_t slot);
    Values column(ExprIndex index, size_t slot);
    Values fill(size_t slot, Type type, uint64_t bits);
    Values gathered(const Column& source, Type type, size_t slot);
    Values load(ExprIndex index, size_t slot);
    Values unary(const kpu::kernel::CodeExpr& expr, size_t slot);
    Values binary(const kpu::kernel::CodeExpr& expr, size_t slot);
    Values ternary(const kpu::kernel::CodeExpr& expr, size_t slot);
    Values cast_column(const kpu::kernel::CodeExpr& expr, size_t slot);
    Values exchange_column(ExprIndex index, size_t slot);
    Values slot_for(size_t slot, Type type);
    void touch(ExprIndex site, uint32_t buffer, const uint32_t* elements, size_t count);
    void touch_one(ExprIndex site, uint32_t buffer, uint32_t element);
    void check_order(const uint32_t* loaded);
    void prepare_exchanges();
    void flush_outside();
    Type type_of(ExprIndex index) const { return code_.exprs[index].type; }
    bool full() const { return lanes_.size() == total_; }

    const Code& code_;
    Memory& memory_;
    const std::vector<uint64_t> scalars_;
    const uint32_t total_;
    std::vector<Facts> facts_;
    std::array<uint32_t, 3> workgroup_{};
    std::array<std::vector<uint32_t>, 3> lid_, gid_;
    std::vector<uint32_t> linear_;
    std::vector<Column> variables_;
    std::vector<Column> slots_;
    std::vector<uint8_t> truths_;
    std::vector<std::vector<Copy>> copies_;  ///< indexed by tag, then lane
    std::vector<bool> dead_;
    uint32_t live_ = 0;
    Lanes lanes_;  ///< active, ascending
    std::vector<Frame> frames_;
    uint32_t next_ = 0;
    std::vector<StepObserver*> observers_;
    Lanes observed_;  ///< lanes of the statement, before it moved them

    struct Touched {
        ExprIndex site = 0;
        uint32_t buffer = 0;
        std::vector<uint32_t> elements;
    };
    std::vector<Touched> touched_;  ///< accesses of the statement so far; the first `touched_count_` count
    size_t touched_count_ = 0;
    struct Outside {
        ExprIndex site;
        uint32_t buffer;
        uint64_t index;
    };
    std::vector<Outside> outside_;  ///< accesses of the statement so far: nothing when it is abandoned
    std::vector<std::pair<ExprIndex, std::vector<uint64_t>>> exchanges_;
    const uint32_t* store_indices_ = nullptr;  ///< while a store that loads its target evaluates its value
    uint32_t store_buffer_ = 0;
    std::vector<uint32_t> stored_in_;  ///< check_order: round in which an element was stored last
    uint32_t round_ = 0;
};

}  // namespace kpu::values::kernel
