#include "values/kernel/lanes/interpreter.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "values/kernel/lanes/arithmetic.hpp"

namespace kpu::values::kernel {

using kpu::kernel::CodeStatement;
using kpu::kernel::Kind;

Invocation::Invocation(const Code& code, const Ids& own_ids, uint32_t own_linear,
                       const std::vector<uint64_t>& scalars)
    : code_(code), variables_(code.variables.size()), copies_(code.tags.size()) {
    ids = own_ids;
    linear = own_linear;
    for (size_t i = 0; i < code.scalars.size(); ++i) variables_[code.scalars[i]] = scalars.at(i);
    frames_.push_back({0, static_cast<uint32_t>(code.statements.size()), 0, Frame::Kind::block, 0, 0, 0});
    settle();
}

uint64_t Invocation::exchanged(ExprIndex expr) const {
    for (const auto& [index, value] : exchanges)
        if (index == expr) return value;
    throw InternalError("kernel: an exchange that was not prepared");
}

Position Invocation::position() const {
    Position position;
    for (const Frame& frame : frames_) {
        if (frame.kind == Frame::Kind::block) continue;
        position.push_back(frame.owner);
        position.push_back(frame.trip + 1);
    }
    position.push_back(statement());
    position.push_back(0);
    return position;
}

/// Leaves blocks that have ended, so that the next statement is known.
void Invocation::settle() {
    while (!frames_.empty() && frames_.back().next == frames_.back().end) finish_body();
}

void Invocation::finish_body() {
    Frame& frame = frames_.back();
    if (frame.kind == Frame::Kind::block) {
        frames_.pop_back();
        return;
    }
    ++frame.trip;
    if (frame.kind == Frame::Kind::while_) {
        frame.next = frame.owner;  // its condition is a statement
        return;
    }
    if (++frame.value >= frame.to) {
        frames_.pop_back();
        return;
    }
    variables_[code_.statements[frame.owner].variable] = frame.value;
    frame.next = frame.owner + 1;
}

std::string fault_text(const Code& code, uint32_t statement, const Ids& ids, std::string_view what) {
    return fmt::format("{}, invocation {}: {}", code.where(statement), ids_text(ids.gid), what);
}

/// Executes one statement.
class Stepper {
  public:
    Stepper(Invocation& invocation, Memory& memory, const Code& code)
        : lane_(invocation),
          memory_(memory),
          code_(code),
          index_(invocation.statement()),
          s_(code.statements[index_]) {}

    void run() {
        ++lane_.frames_.back().next;
        switch (s_.kind) {
            case Kind::let:
            case Kind::assign:
                lane_.variables_[s_.variable] = value(0);
                break;
            case Kind::store:
                store();
                break;
            case Kind::if_:
                if (truthy(type(0), value(0))) {
                    enter(index_ + 1, s_.else_begin);
                } else {
                    enter(s_.else_begin, s_.body_end);
                }
                break;
            case Kind::loop:
                loop();
                break;
            case Kind::while_:
                while_();
                break;
            case Kind::block:
            case Kind::region:
                enter(index_ + 1, s_.body_end);
                break;
            case Kind::return_:
                lane_.frames_.clear();
                lane_.returned = true;
                break;
            case Kind::barrier:
                lane_.waiting_at_barrier = true;
                break;
            case Kind::trap:
                fail_trap(code_, index_, type(0), value(0));
            default:
                copy();
        }
        lane_.settle();
        if (lane_.done()) check_pending();
    }

  private:
    uint64_t value(size_t i) const { return evaluate(code_, memory_, lane_, index_, s_.expr[i]); }
    Type type(size_t i) const { return code_.exprs[s_.expr[i]].type; }

    /// Enters a block; the frame around it goes on after the whole statement.
    void enter(uint32_t begin, uint32_t end) {
        lane_.frames_.back().next = s_.body_end;
        lane_.frames_.push_back({begin, end, index_, Invocation::Frame::Kind::block, 0, 0, 0});
    }

    void store() {
        const auto element = static_cast<uint32_t>(value(0));
        const uint64_t bits = value(1);
        if (memory_.inside(s_.buffer, element)) return memory_.store(s_.buffer, element, bits);
        memory_.note_outside("store", index_, kpu::kernel::no_expr, s_.buffer, element);
    }

    void loop() {
        const auto from = static_cast<uint32_t>(value(0)), to = static_cast<uint32_t>(value(1));
        lane_.frames_.back().next = s_.body_end;
        if (from >= to || s_.body_end == index_ + 1) return;  // trips of an empty body would be no steps
        lane_.variables_[s_.variable] = from;
        lane_.frames_.push_back(
            {index_ + 1, s_.body_end, index_, Invocation::Frame::Kind::loop, 0, from, to});
    }

    /// The first time it stands in the block around it, later in its own frame.
    void while_() {
        using Frame = Invocation::Frame;
        const bool goes_on = truthy(type(0), value(0));
        const bool inside =
            lane_.frames_.back().kind == Frame::Kind::while_ && lane_.frames_.back().owner == index_;
        if (inside) {
            if (!goes_on) lane_.frames_.pop_back();
            return;
        }
        lane_.frames_.back().next = s_.body_end;
        if (goes_on) lane_.frames_.push_back({index_ + 1, s_.body_end, index_, Frame::Kind::while_, 0, 0, 0});
    }

    void copy() {
        Copy& copy = lane_.copies_[s_.tag];
        if (s_.kind == Kind::async_wait) {
            if (!copy.pending) fail_lone_wait(code_, index_);
            return finish_copy(copy, memory_);
        }
        const uint64_t offset = byte_count(code_, index_, 0, value(0));
        const uint64_t size = byte_count(code_, index_, 1, value(1));
        if (copy.pending) fail_second_start(code_, index_);
        copy = start_copy(code_, memory_, index_, offset, size);
    }

    void check_pending() const {
        for (uint32_t tag = 0; tag < lane_.copies_.size(); ++tag)
            if (lane_.copies_[tag].pending) fail_pending(code_, lane_.copies_[tag].statement, lane_.ids);
    }

    Invocation& lane_;
    Memory& memory_;
    const Code& code_;
    const uint32_t index_;
    const CodeStatement& s_;
};

namespace {

/// Exchanges of the statement, operands before what takes them, for the lanes that stand at it.
void prepare_exchanges(const Code& code, Memory& memory, const std::vector<Invocation*>& lanes,
                       uint32_t statement) {
    const CodeStatement& s = code.statements[statement];
    std::vector<uint32_t> linear;
    for (Invocation* lane : lanes) {
        lane->exchanges.clear();
        linear.push_back(lane->linear);
    }
    ExprIndex first = s.expr[0];
    while (first > 0 && code.exprs[first].arity > 0) first = code.exprs[first].operand[0];
    const ExprIndex last = s.expr[1] == kpu::kernel::no_expr ? s.expr[0] : s.expr[1];
    for (ExprIndex index = first; index <= last; ++index) {
        const kpu::kernel::CodeExpr& expr = code.exprs[index];
        if (expr.op != Op::ballot && expr.op != Op::shuffle && expr.op != Op::subgroup_add) continue;
        std::array<std::vector<uint64_t>, 2> operands;
        for (uint8_t k = 0; k < expr.arity; ++k)
            for (Invocation* lane : lanes) try {
                    operands[k].push_back(evaluate(code, memory, *lane, statement, expr.operand[k]));
                } catch (const Fault& fault) {
                    throw SimulationError(fault_text(code, statement, lane->ids, fault.what()));
                }
        const std::vector<uint64_t> results =
            exchange(expr, code.exprs[expr.operand[0]].type, linear, operands);
        for (size_t i = 0; i < lanes.size(); ++i) lanes[i]->exchanges.emplace_back(index, results[i]);
    }
}

void execute(Invocation& lane, Memory& memory, const Code& code) {
    const uint32_t statement = lane.statement();
    try {
        Stepper(lane, memory, code).run();
    } catch (const Fault& fault) {
        throw SimulationError(fault_text(code, statement, lane.ids, fault.what()));
    }
}

/// The branch that each lane of a group took must be the same where a barrier is in it.
void check_branches(const Code& code, uint32_t statement, const std::vector<Invocation*>& group) {
    const CodeStatement& s = code.statements[statement];
    if (s.kind != Kind::if_ || !s.holds_barrier) return;
    const auto side = [&](const Invocation* lane) {
        const uint32_t at = lane->done() ? 0 : lane->statement();
        return at <= statement || at >= s.body_end ? 0 : at < s.else_begin ? 1 : 2;
    };
    const auto other = [&](const Invocation* lane) { return side(lane) != side(group.front()); };
    if (std::any_of(group.begin(), group.end(), other)) fail_branch(code, statement);
}

void meet(const Code& code, uint32_t statement, const std::vector<Invocation*>& group,
          const std::vector<Invocation>& all) {
    for (const Invocation& lane : all)
        if (!lane.waiting_at_barrier && !lane.returned)
            fail_barrier(code, statement, group.front()->ids, lane.ids);
    for (Invocation* lane : group) lane->waiting_at_barrier = false;
}

}  // namespace

void step(Invocation& invocation, Memory& memory, const Code& code) {
    if (invocation.done() || invocation.waiting_at_barrier) return;
    if (code.statements[invocation.statement()].collective)
        prepare_exchanges(code, memory, {&invocation}, invocation.statement());
    execute(invocation, memory, code);
}

bool run_workgroup(const Code& code, Memory& memory, const std::array<uint32_t, 3>& workgroup,
                   const std::vector<uint64_t>& scalars, uint64_t& steps) {
    memory.clear_workgroup();
    std::vector<Invocation> all;
    all.reserve(code.invocations());
    for (uint32_t i = 0; i < code.invocations(); ++i)
        all.emplace_back(code, ids_of(code, workgroup, i), i, scalars);
    for (;;) {
        std::vector<Invocation*> group;
        Position least;
        for (Invocation& lane : all) {
            if (lane.done()) continue;
            const Position position = lane.position();
            if (group.empty() || position < least) {
                least = position;
                group.clear();
            }
            if (position == least) group.push_back(&lane);
        }
        if (group.empty()) return true;
        if (steps < group.size()) return false;
        steps -= group.size();
        const uint32_t statement = group.front()->statement();
        if (code.statements[statement].collective) prepare_exchanges(code, memory, group, statement);
        for (Invocation* lane : group) execute(*lane, memory, code);
        check_branches(code, statement, group);
        if (code.statements[statement].kind == Kind::barrier) meet(code, statement, group, all);
    }
}

void fail_barrier(const Code& code, uint32_t statement, const Ids& there, const Ids& elsewhere) {
    throw SimulationError(
        fmt::format("{}, invocation {} waits, invocation {} does not: program violates "
                    "uniform-control-flow rule: not every live invocation reached the same barrier. "
                    "Fix: move Barrier to uniform control flow.",
                    code.where(statement), ids_text(there.gid), ids_text(elsewhere.gid)));
}

void fail_branch(const Code& code, uint32_t statement) {
    throw SimulationError(
        fmt::format("{}: program violates uniform-control-flow rule: Barrier appears inside an If "
                    "whose condition differs across the workgroup. Fix: make the condition uniform "
                    "or move Barrier outside the branch.",
                    code.where(statement)));
}

namespace {
const std::string& tag_of(const Code& code, uint32_t statement) {
    return code.tags[code.statements[statement].tag];
}
}  // namespace

void fail_trap(const Code& code, uint32_t statement, Type type, uint64_t bits) {
    uint32_t address = 0;
    const std::string& tag = tag_of(code, statement);
    if (!as_u32(type, bits, address))
        throw Fault(fmt::format(
            "reference trap `{}` address is not a u32. Fix: pass a scalar u32 trap address.", tag));
    throw Fault(fmt::format(
        "reference dispatch trapped: address={}, tag=`{}`. Fix: handle the trap condition or route "
        "this Program through a backend/runtime with replay support.",
        address, tag));
}

void fail_second_start(const Code& code, uint32_t statement) {
    throw Fault(fmt::format(
        "async transfer tag `{}` was started more than once before a matching wait. Fix: reuse the "
        "tag only after AsyncWait completes.",
        tag_of(code, statement)));
}

void fail_lone_wait(const Code& code, uint32_t statement) {
    throw Fault(fmt::format(
        "async wait for tag `{}` has no matching async transfer. Fix: emit AsyncLoad or AsyncStore "
        "before AsyncWait.",
        tag_of(code, statement)));
}

void fail_pending(const Code& code, uint32_t statement, const Ids& ids) {
    throw SimulationError(
        fmt::format("{}: invocation {} completed with async transfer tag `{}` still "
                    "pending. Fix: add AsyncWait for every AsyncLoad/AsyncStore tag before Return "
                    "or end-of-program.",
                    code.where(statement), ids_text(ids.gid), tag_of(code, statement)));
}

}  // namespace kpu::values::kernel
