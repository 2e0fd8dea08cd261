#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "isa/bound_program.hpp"
#include "isa/opcodes.hpp"
#include "model/accounting/task_report.hpp"
#include "model/fabric/ddr.hpp"
#include "model/worker/command_protocol.hpp"
#include "traces/ledger.hpp"

namespace kpu::model {

/// Books the actions of completed tasks and of their streams, with the time that they took and their
/// operation.
class EnergyBooking {
  public:
    explicit EnergyBooking(traces::EnergyLedger& ledger);
    void completed(const TaskCommand& command);
    /// Work of no operation over the whole run, summed over the channels: refreshes, activates that are in no
    /// stream's result, time in power states.
    void dram_background(const DramCounters& all, Cycles end);

  private:
    void array_work(const TaskCommand& command);
    void vector_work(const TaskCommand& command);
    void stream(const StreamUse& use, uint32_t op, bool mover);
    void side(const StreamSide& side, uint64_t accesses, bool read, const StreamResult& result, uint32_t op);
    void book(traces::Component component, const char* action, uint64_t count, Cycles from, Cycles to,
              uint32_t op);
    traces::ActionId id(traces::Component component, std::string_view action);

    traces::EnergyLedger& ledger_;
    std::array<std::map<std::string, traces::ActionId, std::less<>>, traces::component_count> ids_;
};

/// The action of a MAC on these operand types: mac.i8, mac.i4 for i8 x i4.
std::string mac_action(ElemType a, ElemType b);
/// The action of one vector operation on elements of this type; of a view, of one byte.
std::string vector_action(OpcodeId opcode, ElemType type);

}  // namespace kpu::model
