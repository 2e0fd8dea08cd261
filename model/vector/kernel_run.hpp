#pragma once
// Inside of KernelUnit.
#include <deque>
#include <memory>
#include <unordered_set>
#include <vector>

#include "model/vector/kernel_unit.hpp"
#include "values/kernel/task.hpp"

namespace kpu::model {

/// Windows of time in which what a kernel asks of L1 is carried out as streams, one after the other. Windows
/// of long kernels grow, so that a launch has a bounded number of streams.
constexpr Cycles first_window_cycles = 256;
constexpr uint64_t windows_of_a_length = 256;

/// A stream of a launch: words that a window of it asked for, or a copy.
struct LaunchStream {
    std::unique_ptr<StreamTransaction> transaction;
    KernelCopy copy;
    bool is_copy = false;
};

struct KernelUnit::Run {
    TaskCommand* command = nullptr;
    TaskPlan plan;
    std::shared_ptr<values::kernel::SharedLaunch> shared;
    std::unique_ptr<KernelCost> cost;
    std::unique_ptr<values::kernel::LaunchWorker> launch;
    /// Progress of the products of the statement that was executed last, one after the other.
    enum class Multiplying : uint8_t { no, asked, begun, done };
    Multiplying multiplying = Multiplying::no;
    Cycles asked_at = 0;
    uint32_t multiplied = 0;  ///< the statement
    size_t room = 0;          ///< place of its workgroup memory
    bool began = false, draining = false, ended = false;
    bool working = false, stalled = false;  ///< neither: not begun, or draining
    Cycles at = 0;                          ///< the next statement begins
    Cycles work_begin = 0, drained_at = 0;
    uint64_t useful_booked = 0;  ///< cycles
    Cycles window_begin = 0, window_cycles = first_window_cycles;
    uint64_t windows = 0;
    std::vector<std::unique_ptr<LaunchStream>> streams;
    size_t words_open = 0, copies_open = 0;      ///< streams on their way
    std::deque<LaunchStream*> waiting;           ///< copies without a channel
    std::vector<bool> pending;                   ///< copies that have not arrived, by tag and lane
    std::unordered_set<uint64_t> tiles_pending;  ///< pending copies of tiles, by number
    /// Limiter of the stream that ended last.
    traces::Cause limiter = traces::Cause::stalled_operand_interconnect;

    const kernel::Code& code() const { return launch->code(); }
    const kernel::CodeStatement& next() const { return code().statements[launch->statement()]; }
    size_t pending_index(uint32_t tag, uint32_t lane) const {
        return size_t{tag} * code().invocations() + lane;
    }
};

}  // namespace kpu::model
