#include <array>

#include "base/diagnostics.hpp"
#include "traces/event.hpp"

namespace kpu::traces {

namespace {

struct Row {
    Cause cause;
    std::string_view full_name;
    std::string_view meaning;
};

constexpr std::array<Row, cause_count> rows{{
    {Cause::busy_useful, "busy.useful", "The unit works at its peak rate on results of the task."},
    {Cause::busy_fill_drain, "busy.fill_drain", "The pipeline of the unit fills or drains."},
    {Cause::busy_padding, "busy.padding", "The unit works on lanes, rows or columns that hold no data."},
    {Cause::busy_overhead, "busy.overhead", "Commands, refresh or bus turn-around hold the resource."},
    {Cause::stalled_structural, "stalled.structural",
     "A ready task waits for a second unit that it needs and that is taken."},
    {Cause::stalled_backpressure, "stalled.backpressure",
     "What the task or its data goes to is full: a unit that executes another task, a port, a bank."},
    {Cause::stalled_configuration, "stalled.configuration",
     "A ready task and its unit wait for the sequencer's dispatch."},
    {Cause::stalled_dependency, "stalled.dependency",
     "The oldest task waits for the result of a computation."},
    {Cause::stalled_issue_window, "stalled.issue_window",
     "Work for the unit is not issued yet: the loop window, the token table or a wait holds it."},
    {Cause::stalled_operand_dram_bandwidth, "stalled.operand_dram_bandwidth",
     "Data is on its way, and the bus of the DRAM carries other data."},
    {Cause::stalled_operand_dram_latency, "stalled.operand_dram_latency",
     "Data is on its way, limited by the latency of the DRAM."},
    {Cause::stalled_operand_dram_bank_conflict, "stalled.operand_dram_bank_conflict",
     "Data is on its way, and the banks of the DRAM open and close rows: its bus waits too."},
    {Cause::stalled_operand_dram_turnaround, "stalled.operand_dram_turnaround",
     "Data is on its way, and the bus of the DRAM turns between reads and writes."},
    {Cause::stalled_operand_dram_imbalance, "stalled.operand_dram_imbalance",
     "Data is on its way, and few channels of the DRAM get most of the requests."},
    {Cause::stalled_refresh, "stalled.refresh", "Data is on its way, held up by a DRAM refresh."},
    {Cause::stalled_operand_interconnect, "stalled.operand_interconnect",
     "Data is on its way, limited by a link or by a port of a unit."},
    {Cause::stalled_operand_bank_conflict, "stalled.operand_bank_conflict",
     "Data is on its way, limited by conflicts on the banks of an SRAM."},
    {Cause::stalled_operand_sram_access, "stalled.operand_sram_access",
     "Data is on its way, limited by the latency of an SRAM or by many short accesses of its port."},
    {Cause::stalled_dma_issue, "stalled.dma_issue",
     "Data is on its way, limited by the issue of descriptors and bursts of the DMA."},
    {Cause::idle_no_work, "idle.no_work", "The unit has no work at present."},
    {Cause::idle_finished, "idle.finished", "The unit has no work left in this run."},
    {Cause::device_busy_compute, "busy.compute", "At least one compute unit is busy."},
    {Cause::device_stalled_memory, "stalled.memory",
     "No compute unit is busy, and a transfer is in flight or a unit is starved."},
    {Cause::device_idle_other, "idle.other", "No compute unit is busy and no data moves."},
    {Cause::unattributed, "idle.unattributed", "No cause was found: must be 0."},
}};

constexpr bool in_enum_order() {
    for (int i = 0; i < cause_count; ++i) {
        if (static_cast<int>(rows[i].cause) != i) return false;
    }
    return true;
}
static_assert(in_enum_order());

const Row& row_of(Cause cause) {
    const auto index = static_cast<size_t>(cause);
    if (index >= rows.size()) throw InternalError("cause code out of range");
    return rows[index];
}

}  // namespace

std::string_view group_of(Cause cause) {
    const std::string_view name = row_of(cause).full_name;
    return name.substr(0, name.find('.'));
}

std::string_view name_of(Cause cause) {
    const std::string_view name = row_of(cause).full_name;
    return name.substr(name.find('.') + 1);
}

std::string_view full_name_of(Cause cause) { return row_of(cause).full_name; }

std::string_view meaning_of(Cause cause) { return row_of(cause).meaning; }

}  // namespace kpu::traces
