// Control: which lanes stand where.
#include "values/kernel/lanes/batch.hpp"

#include <algorithm>

#include "values/kernel/lanes/interpreter.hpp"

namespace kpu::values::kernel {

using kpu::kernel::CodeStatement;
using kpu::kernel::Kind;

namespace {

/// Contents of a statement's expressions: an atomic, or a load of `buffer`.
struct Contents {
    bool atomic = false, loads = false;
};
Contents contents_of(const Code& code, ExprIndex root, uint32_t buffer) {
    Contents found;
    std::vector<ExprIndex> open;
    if (root != kpu::kernel::no_expr) open.push_back(root);
    while (!open.empty()) {
        const kpu::kernel::CodeExpr& expr = code.exprs[open.back()];
        open.pop_back();
        const kpu::kernel::Syntax syntax = kpu::kernel::operation(expr.op).syntax;
        found.atomic |= syntax == kpu::kernel::Syntax::atomic;
        found.loads |= syntax == kpu::kernel::Syntax::load && expr.place == buffer;
        for (uint8_t i = 0; i < expr.arity; ++i) open.push_back(expr.operand[i]);
    }
    return found;
}

}  // namespace

Batch::Batch(const Code& code, Memory& memory, std::vector<uint64_t> scalars)
    : code_(code),
      memory_(memory),
      scalars_(std::move(scalars)),
      total_(code.invocations()),
      variables_(code.variables.size()),
      copies_(code.tags.size(), std::vector<Copy>(total_)) {
    for (const CodeStatement& s : code.statements) {
        Facts facts;
        for (size_t i = 0; i < 2; ++i) {
            const Contents found = contents_of(code, s.expr[i], s.buffer);
            facts.atomic |= found.atomic;
            if (s.kind == Kind::store)
                (i == 0 ? facts.index_loads_target : facts.loads_target) |= found.loads;
        }
        facts_.push_back(facts);
    }
    for (size_t v = 0; v < variables_.size(); ++v) {
        if (code.variables[v].type == Type::u64)
            variables_[v].wide.resize(total_);
        else
            variables_[v].words.resize(total_);
    }
    for (size_t i = 0; i < code.scalars.size(); ++i) {
        Column& column = variables_[code.scalars[i]];
        std::fill(column.words.begin(), column.words.end(), static_cast<uint32_t>(scalars_.at(i)));
        std::fill(column.wide.begin(), column.wide.end(), scalars_.at(i));
    }
    for (size_t axis = 0; axis < 3; ++axis) {
        gid_[axis].resize(total_);
        for (uint32_t lane = 0; lane < total_; ++lane) lid_[axis].push_back(ids_of(code, {}, lane).lid[axis]);
    }
    for (uint32_t lane = 0; lane < total_; ++lane) linear_.push_back(lane);
}

void Batch::begin(const std::array<uint32_t, 3>& workgroup) {
    memory_.clear_workgroup();
    workgroup_ = workgroup;
    for (size_t axis = 0; axis < 3; ++axis)
        for (uint32_t lane = 0; lane < total_; ++lane)
            gid_[axis][lane] = workgroup[axis] * code_.workgroup[axis] + lid_[axis][lane];
    dead_.assign(total_, false);
    live_ = total_;
    lanes_ = linear_;
    next_ = 0;
    frames_.clear();
    frames_.emplace_back();
    frames_.back().end = static_cast<uint32_t>(code_.statements.size());
    settle();
}

void Batch::step() {
    const uint32_t statement = next_;
    const uint32_t active_lanes = active();
    if (!observers_.empty()) {
        observed_ = lanes_;
        for (StepObserver* observer : observers_) observer->executes(statement);
    }
    if (code_.statements[statement].collective) prepare_exchanges();
    execute();
    for (StepObserver* observer : observers_) {
        for (size_t i = 0; i < touched_count_; ++i)
            observer->accessed(touched_[i].site, touched_[i].buffer, touched_[i].elements.data(),
                               observed_.data(), static_cast<uint32_t>(touched_[i].elements.size()));
        observer->executed(statement, active_lanes);
    }
    touched_count_ = 0;
    settle();
}

/// Leaves blocks that have ended, until lanes stand at a statement.
void Batch::settle() {
    while (!frames_.empty() && (next_ == frames_.back().end || lanes_.empty())) leave();
    if (frames_.empty()) check_pending();
}

void Batch::leave() {
    Frame& frame = frames_.back();
    switch (frame.kind) {
        case Frame::Kind::loop:
            next_trip(frame);
            if (!lanes_.empty()) return;
            break;
        case Frame::Kind::while_:
            revive(lanes_);
            next_ = frame.statement;  // its condition is a statement
            if (!lanes_.empty()) return;
            break;
        case Frame::Kind::then:
            frame.kind = Frame::Kind::block;
            frame.end = code_.statements[frame.statement].body_end;
            next_ = code_.statements[frame.statement].else_begin;
            lanes_ = std::move(frame.other);
            return;
        case Frame::Kind::block:
            break;
    }
    next_ = frames_.size() == 1 ? frame.end : code_.statements[frame.statement].body_end;
    lanes_ = std::move(frame.after);
    revive(lanes_);
    frames_.pop_back();
    if (frames_.empty()) lanes_.clear();
}

/// Removes lanes that have ended.
void Batch::revive(Lanes& lanes) const {
    if (live_ == total_) return;
    lanes.erase(std::remove_if(lanes.begin(), lanes.end(), [&](uint32_t lane) { return dead_[lane]; }),
                lanes.end());
}

void Batch::next_trip(Frame& frame) {
    const uint32_t variable = code_.statements[frame.statement].variable;
    next_ = frame.statement + 1;
    if (frame.alike) {
        const uint32_t value = ++frame.value[0];
        if (value >= frame.to[0]) return lanes_.clear();
        revive(frame.other);
        lanes_ = frame.other;
        return set_all(variable, value);
    }
    size_t kept = 0;
    for (size_t i = 0; i < frame.other.size(); ++i) {
        const uint32_t lane = frame.other[i];
        const uint32_t value = frame.value[i] + 1;
        if (dead_[lane] || value >= frame.to[i]) continue;
        frame.other[kept] = lane;
        frame.value[kept] = value;
        frame.to[kept++] = frame.to[i];
        variables_[variable].words[lane] = value;
    }
    frame.other.resize(kept);
    lanes_ = frame.other;
}

/// A variable of the active lanes.
void Batch::set_all(uint32_t variable, uint32_t value) {
    std::vector<uint32_t>& words = variables_[variable].words;
    if (full()) return std::fill(words.begin(), words.end(), value);
    for (const uint32_t lane : lanes_) words[lane] = value;
}

void Batch::execute() {
    const CodeStatement& s = code_.statements[next_];
    switch (s.kind) {
        case Kind::let:
        case Kind::assign:
            bind();
            break;
        case Kind::store:
            store();
            break;
        case Kind::if_:
            return branch();
        case Kind::loop:
            return enter_loop();
        case Kind::while_:
            return decide_while();
        case Kind::block:
        case Kind::region: {
            Frame frame;
            frame.statement = next_;
            frame.end = s.body_end;
            frame.after = lanes_;
            frames_.push_back(std::move(frame));
            break;
        }
        case Kind::return_:
            for (const uint32_t lane : lanes_) dead_[lane] = true;
            live_ -= active();
            lanes_.clear();
            break;
        case Kind::barrier:
            meet();
            break;
        case Kind::async_wait:
            wait();
            break;
        case Kind::trap:
            trap();
            break;
        default:
            copy();
    }
    ++next_;
}

void Batch::branch() {
    const CodeStatement& s = code_.statements[next_];
    const std::vector<uint8_t>& yes = truths(0);
    Frame frame;
    frame.statement = next_;
    frame.after = lanes_;
    Lanes then;
    for (size_t i = 0; i < lanes_.size(); ++i) (yes[i] ? then : frame.other).push_back(lanes_[i]);
    if (s.holds_barrier && !then.empty() && !frame.other.empty()) fail_branch(code_, next_);
    frame.kind = Frame::Kind::then;
    frame.end = s.else_begin;
    ++next_;
    lanes_ = std::move(then);
    frames_.push_back(std::move(frame));
}

void Batch::enter_loop() {
    const CodeStatement& s = code_.statements[next_];
    Frame frame;
    frame.kind = Frame::Kind::loop;
    frame.statement = next_;
    frame.end = s.body_end;
    frame.after = lanes_;
    const Values from = evaluate_column(s.expr[0]);
    const std::vector<uint32_t> first(from.words, from.words + lanes_.size());
    const Values to = evaluate_column(s.expr[1]);
    ++next_;
    if (next_ == s.body_end) return;  // trips of an empty body would be no steps
    const auto alike = [&](const uint32_t* words) {
        return std::all_of(words, words + lanes_.size(), [&](uint32_t word) { return word == words[0]; });
    };
    if (first[0] < to.words[0] && alike(first.data()) && alike(to.words)) {
        frame.alike = true;
        frame.other = lanes_;
        frame.value.push_back(first[0]);
        frame.to.push_back(to.words[0]);
        set_all(s.variable, first[0]);
        frames_.push_back(std::move(frame));
        return;
    }
    for (size_t i = 0; i < lanes_.size(); ++i) {
        if (first[i] >= to.words[i]) continue;
        frame.other.push_back(lanes_[i]);
        frame.value.push_back(first[i]);
        frame.to.push_back(to.words[i]);
        variables_[s.variable].words[lanes_[i]] = first[i];
    }
    lanes_ = frame.other;
    frames_.push_back(std::move(frame));
}

void Batch::decide_while() {
    const CodeStatement& s = code_.statements[next_];
    const bool first = frames_.back().kind != Frame::Kind::while_ || frames_.back().statement != next_;
    const std::vector<uint8_t>& yes = truths(0);
    Lanes inside;
    for (size_t i = 0; i < lanes_.size(); ++i)
        if (yes[i]) inside.push_back(lanes_[i]);
    if (first) {
        Frame frame;
        frame.kind = Frame::Kind::while_;
        frame.statement = next_;
        frame.end = s.body_end;
        frame.after = lanes_;
        frames_.push_back(std::move(frame));
    }
    ++next_;
    frames_.back().other = inside;
    lanes_ = std::move(inside);
}

void Batch::meet() {
    if (active() == live_) return;
    std::vector<bool> here(total_, false);
    for (const uint32_t lane : lanes_) here[lane] = true;
    uint32_t missing = 0;
    while (here[missing] || dead_[missing]) ++missing;
    fail_barrier(code_, next_, ids_of(code_, workgroup_, lanes_.front()), ids_of(code_, workgroup_, missing));
}

void Batch::check_pending() const {
    for (uint32_t lane = 0; lane < total_; ++lane)
        for (uint32_t tag = 0; tag < copies_.size(); ++tag)
            if (copies_[tag][lane].pending)
                fail_pending(code_, copies_[tag][lane].statement, ids_of(code_, workgroup_, lane));
}

}  // namespace kpu::values::kernel
