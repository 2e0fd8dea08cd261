#include "values/kernel/tiles/tile_machine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "isa/kernel/tile_flow.hpp"
#include "values/kernel/probe.hpp"

namespace kpu::values::kernel {

using kpu::kernel::CodeStatement;
using kpu::kernel::CostClass;
using kpu::kernel::Kind;
using kpu::kernel::TileStatement;

namespace {

/// Compare-exchange steps that a sorting network of n takes.
uint64_t network_steps(int64_t n) {
    uint64_t log = 0;
    while ((int64_t{1} << log) < n) ++log;
    return log * (log + 1) / 2;
}

TileProduct product_of(const TileExpr& expr, const Tile& a, const Tile& b) {
    const auto lists = kpu::kernel::lists_of(expr.dims, 0, 4);
    const auto size_of = [&](const kpu::kernel::Shape& dimensions) {
        uint64_t size = 1;
        for (const int64_t d : dimensions) size *= static_cast<uint64_t>(a.shape[static_cast<size_t>(d)]);
        return size;
    };
    TileProduct product{a.type, b.type, expr.type, size_of(lists[2]), 0, 0, size_of(lists[0])};
    const uint64_t shared = std::max<uint64_t>(product.groups * product.k, 1);
    product.m = a.count() / shared;
    product.n = b.count() / shared;
    return product;
}

bool is_literal(const TileExpr& expr) { return expr.op <= Op::literal_bool; }

/// Takes no step.
bool is_note(const CodeStatement& s) { return s.kind == Kind::line || s.kind == Kind::forget; }

}  // namespace

TileMachine::TileMachine(const Code& code, const std::vector<uint64_t>& scalars,
                         const std::vector<Bytes>& storage, bool races)
    : code_(code),
      tiles_(*code.tiles),
      variables_(code.variables.size()),
      literals_(tiles_.literals),
      unwritten_(races ? std::make_optional<UnwrittenMap>(code) : std::nullopt),
      copies_(code, unwritten_ ? &*unwritten_ : nullptr) {
    if (races) copies_.watch_races();
    workgroup_.resize(code.workgroup_bytes());
    size_t next = 0;
    uint64_t at = 0;
    for (const CodeBuffer& buffer : code.buffers) {
        const uint64_t size = uint64_t{buffer.count} * kpu::kernel::tile_bytes(buffer.type);
        if (!buffer.is_workgroup()) {
            storage_.push_back(storage.at(next++));
            continue;
        }
        at = code.begin_of(buffer, at);
        storage_.push_back({workgroup_.data() + at, size});
        at += buffer.declared_bytes();
    }
    for (size_t i = 0; i < scalars.size(); ++i)
        variables_[code.scalars[i]] = Tile::scalar(code.variables[code.scalars[i]].type, scalars[i]);
    for (const TileExpr& expr : tiles_.exprs)
        if (is_literal(expr)) literals_[expr.place] = Tile::scalar(expr.type, expr.bits);
    settle();
}

void TileMachine::step() {
    uint32_t statement = next_;
    try {
        execute();
        if (observer_ != nullptr) observer_->executed(statement, 1);
        settle();
        if (done_) {
            copies_.check_end(statement);
            copies_.report_outputs();
        }
    } catch (const TileFault& fault) {
        throw SimulationError(fmt::format("{}{}: {}", first_race(), code_.where(statement), fault.what()));
    }
}

/// Describes the race before the kernel's failure, which perhaps explains it.
std::string TileMachine::first_race() const {
    if (races().empty()) return "";
    return race_text(code_, {1, 1, 1}, races().front()).sentence + "; then ";
}

/// Goes to the next statement that does something: the next trip, or after what has ended.
void TileMachine::settle() {
    for (;;) {
        if (frames_.empty() || next_ != frames_.back().end) {
            if (next_ >= code_.statements.size()) break;
            const CodeStatement& s = code_.statements[next_];
            if (!is_note(s)) break;
            if (s.kind == Kind::forget) forget(s, tiles_.statements[next_]);
            ++next_;
            continue;
        }
        Frame& frame = frames_.back();
        if (frame.kind == Frame::Kind::loop && ++frame.value < frame.to) {
            next_ = frame.statement + 1;
            set_loop_variable(frame);
            continue;
        }
        next_ = frame.kind == Frame::Kind::while_ ? frame.statement : frame.after;
        frames_.pop_back();
    }
    done_ = frames_.empty() && next_ >= code_.statements.size();
}

void TileMachine::set_loop_variable(const Frame& frame) {
    const uint32_t variable = code_.statements[frame.statement].variable;
    variables_[variable] = Tile::scalar(code_.variables[variable].type, static_cast<uint64_t>(frame.value));
}

void TileMachine::execute() {
    const CodeStatement& s = code_.statements[next_];
    const TileStatement& t = tiles_.statements[next_];
    switch (s.kind) {
        case Kind::let:
        case Kind::assign:
            variables_[s.variable] = value(t.expr[0]);
            break;
        case Kind::store:
            store(s, t);
            break;
        case Kind::masked_store:
            masked_store(s, t);
            break;
        case Kind::if_:
        case Kind::while_:
            return branch(s, t);
        case Kind::loop:
            return enter_loop(s, t);
        case Kind::block:
        case Kind::region:
            frames_.push_back({Frame::Kind::block, next_, s.body_end, s.body_end});
            break;
        case Kind::return_:
            frames_.clear();
            next_ = static_cast<uint32_t>(code_.statements.size());
            return;
        case Kind::async_copy:
            copy(s, t);
            break;
        case Kind::signal:
            copies_.signal(next_, t.semaphore, semaphore_index(t, t.expr[0]), integer(t.expr[1]));
            break;
        case Kind::wait:
            copies_.wait(t.semaphore, semaphore_index(t, t.expr[0]), integer(t.expr[1]), storage_);
            break;
        case Kind::trap:
            throw TileFault(
                fmt::format("trapped with {}. Fix: see why the kernel comes here.", integer(t.expr[0])));
        default:
            throw InternalError("a statement that tiles do not have");
    }
    release(t);
    ++next_;
}

/// Frees what no later statement reads; a debugger still shows it.
void TileMachine::release(const TileStatement& t) {
    if (t.dead_begin == t.dead_end || LaunchProbe::current() != nullptr) return;
    for (uint32_t i = t.dead_begin; i < t.dead_end; ++i) variables_[tiles_.dead[i]] = Tile();
}

void TileMachine::branch(const CodeStatement& s, const TileStatement& t) {
    const bool taken = deciding(t.expr[0]).bytes()[0] != 0;
    if (s.kind == Kind::while_) {
        if (taken) frames_.push_back({Frame::Kind::while_, next_, s.body_end, s.body_end});
        next_ = taken ? next_ + 1 : s.body_end;
        return;
    }
    if (taken) frames_.push_back({Frame::Kind::block, next_, s.else_begin, s.body_end});
    next_ = taken ? next_ + 1 : s.else_begin;
}

void TileMachine::enter_loop(const CodeStatement& s, const TileStatement& t) {
    Frame frame{Frame::Kind::loop, next_, s.body_end, s.body_end, integer(t.expr[0]), integer(t.expr[1])};
    uint32_t first = next_ + 1;
    while (first < s.body_end && is_note(code_.statements[first])) ++first;
    if (frame.value >= frame.to || first == s.body_end) {
        next_ = s.body_end;
        return;
    }
    frames_.push_back(frame);
    set_loop_variable(frame);
    ++next_;
}

int64_t TileMachine::semaphore_index(const TileStatement& t, ExprIndex index) {
    const int64_t at = integer(index);
    const CodeBuffer& buffer = code_.buffers[t.semaphore];
    if (at < 0 || at >= int64_t{buffer.count})
        throw TileFault(fmt::format("semaphore {} of `{}`, which has {}. Fix: keep the index inside.", at,
                                    buffer.name, buffer.count));
    return at;
}

std::vector<uint64_t> TileMachine::awaited() {
    if (done_ || code_.statements[next_].kind != Kind::wait) return {};
    const TileStatement& t = tiles_.statements[next_];
    StepObserver* const observer =
        std::exchange(observer_, nullptr);  // the statement itself is told of later
    std::vector<uint64_t> numbers;
    try {
        numbers = copies_.needed(t.semaphore, semaphore_index(t, t.expr[0]), integer(t.expr[1]));
    } catch (const TileFault&) {
        // step() says it
    }
    observer_ = observer;
    return numbers;
}

Tile TileMachine::value(ExprIndex index) {
    const TileExpr& expr = tiles_.exprs[index];
    if (is_literal(expr)) return literals_[expr.place];
    if (expr.op == Op::variable) return variables_[expr.place];
    if (expr.op == Op::load) return load(expr);
    std::vector<Tile> operands;
    operands.reserve(expr.operands.size());
    for (const ExprIndex operand : expr.operands) operands.push_back(value(operand));
    if (observer_ != nullptr) count_work(expr, operands);
    std::shared_ptr<const Unwritten> unwritten = unwritten_of(expr, operands);
    Tile result = operate(expr, operands);
    result.unwritten = std::move(unwritten);
    return result;
}

Tile TileMachine::deciding(ExprIndex index) {
    Tile tile = value(index);
    if (tile.unwritten != nullptr)
        copies_.report_unwritten(KernelRace::Kind::unwritten_decides, next_, *tile.unwritten);
    return tile;
}

Shape TileMachine::starts_of(const TileExpr& window) {
    Shape starts(window.dims.size() / 3, 0);
    for (size_t i = 0; i < window.operands.size(); ++i) starts[i] = integer(window.operands[i]);
    return starts;
}

/// Spreads a copy whose place would be decided by unknown values: it is anywhere: other rows of memory, as
/// those of a lookup are.
void TileMachine::spread(const TileExpr& window, Shape& starts) {
    const size_t rank = starts.size();
    for (size_t i = 0; i < window.operands.size(); ++i) {
        const int64_t reach = (window.dims[rank + i] - 1) * window.dims[2 * rank + i];
        if (window.dims[i] <= reach || !kpu::kernel::tile_reads_data(code_, window.operands[i])) continue;
        const auto places = static_cast<uint64_t>(window.dims[i] - reach);
        starts[i] = static_cast<int64_t>((*anywhere_)() % places);
    }
}

ByteWindow TileMachine::access(uint32_t buffer, ExprIndex index) {
    const TileExpr& expr = tiles_.exprs[index];
    const unsigned bytes = kpu::kernel::tile_bytes(code_.buffers[buffer].type);
    if (expr.op == Op::window) {
        const Shape starts = starts_of(expr);
        return part_of(expr, starts, inside_part(expr, starts), buffer, bytes);
    }
    const int64_t at = integer(index);
    if (at < 0 || at >= int64_t{code_.buffers[buffer].count})
        throw TileFault(fmt::format("index {} is outside of buffer `{}` of {} elements. Fix: keep it inside.",
                                    at, code_.buffers[buffer].name, code_.buffers[buffer].count));
    return {buffer, static_cast<uint64_t>(at) * bytes, bytes, {}, {}};
}

/// Stores to operands of the kernel are seen outside of it.
void TileMachine::note_leaving(uint32_t buffer, const Tile& tile) {
    if (tile.unwritten != nullptr && !code_.buffers[buffer].is_workgroup())
        copies_.report_unwritten(KernelRace::Kind::unwritten_leaves, next_, *tile.unwritten);
}

Tile TileMachine::load(const TileExpr& expr) {
    if (expr.operands.size() == 2) return masked_load(expr);
    const ByteWindow window = access(expr.place, expr.operands[0]);
    if (tiles_.semaphores[expr.place]) {
        const auto index = static_cast<int64_t>(window.first / window.element_bytes);
        return Tile::scalar(Type::u32, static_cast<uint64_t>(copies_.count(expr.place, index)));
    }
    Tile tile(expr.type, expr.shape);
    copies_.touch(next_, window, false);
    const ByteWindow from = window.merged();
    if (tile.count() > 0)
        copy_strided(tile.make(), row_major(from.sizes), storage_[expr.place].data + from.first, from.strides,
                     from.sizes, from.element_bytes);
    if (unwritten_) tile.unwritten = unwritten_->read(next_, from);
    if (observer_ != nullptr) observer_->touched(from, false);
    return tile;
}

void TileMachine::store(const CodeStatement& s, const TileStatement& t) {
    const Tile tile = value(t.expr[1]);
    const ByteWindow window = access(s.buffer, t.expr[0]);
    note_leaving(s.buffer, tile);
    copies_.touch(next_, window, true);
    const ByteWindow to = window.merged();
    if (tile.count() > 0)
        copy_strided(storage_[s.buffer].data + to.first, to.strides, tile.bytes(), row_major(to.sizes),
                     to.sizes, to.element_bytes);
    if (unwritten_) unwritten_->write(to, tile.unwritten.get());
    if (observer_ != nullptr) observer_->touched(to, true);
}

/// Costs nothing: hardware has nothing to do for it.
void TileMachine::forget(const CodeStatement& s, const TileStatement& t) {
    StepObserver* const observer = std::exchange(observer_, nullptr);
    const ByteWindow to = access(s.buffer, t.expr[0]).merged();
    observer_ = observer;
    constexpr uint64_t zero = 0;
    copy_strided(storage_[s.buffer].data + to.first, to.strides, reinterpret_cast<const uint8_t*>(&zero),
                 Shape(to.sizes.size(), 0), to.sizes, to.element_bytes);
    if (unwritten_) unwritten_->forget(to);
}

void TileMachine::copy(const CodeStatement& s, const TileStatement& t) {
    const TileExpr &from = tiles_.exprs[t.expr[0]], &to = tiles_.exprs[t.expr[1]];
    const unsigned bytes = kpu::kernel::tile_bytes(code_.buffers[s.buffer].type);
    Shape from_starts = starts_of(from);
    const Shape to_starts = starts_of(to);
    if (anywhere_) spread(from, from_starts);
    WindowPart source = inside_part(from, from_starts), target = inside_part(to, to_starts);
    WindowPart whole{Shape(target.low.size(), 0), to.shape};
    // dimensions agree from the last one on; what one side lacks, the other leaves out
    const bool clipped = from.op == Op::clipped || to.op == Op::clipped;
    for (size_t i = 1; clipped && i <= std::min(source.low.size(), target.low.size()); ++i) {
        int64_t &a = source.low[source.low.size() - i], &b = target.low[target.low.size() - i];
        int64_t &m = source.size[source.size.size() - i], &n = target.size[target.size.size() - i];
        const int64_t low = std::max(a, b), end = std::min(a + m, b + n);
        a = b = low;
        m = n = std::max<int64_t>(end - low, 0);
    }
    if (to.op == Op::clipped) whole = target;
    TileCopy copy;
    copy.statement = next_;
    copy.semaphore = t.semaphore;
    copy.index = semaphore_index(t, t.expr[2]);
    copy.source = part_of(from, from_starts, source, s.buffer, bytes);
    copy.destination = part_of(to, to_starts, target, s.other, bytes);
    copy.whole = part_of(to, to_starts, whole, s.other, bytes);
    copy.counts = static_cast<uint64_t>(kpu::kernel::elements_of(to.shape)) * bytes;
    if (to.op == Op::clipped && !written_back_.emplace(copy.whole.buffer, copy.whole.first).second)
        throw TileFault(
            fmt::format("Revisited block: its place in `{}` was written back before. Fix: order the grid so "
                        "that steps on one "
                        "output block follow each other.",
                        code_.buffers[s.other].name));
    const TileCopy& started = copies_.start(std::move(copy), storage_);
    if (observer_ != nullptr) observer_->copy_started(started);
}

/// Tells how many elements went through which class of operations.
void TileMachine::count_work(const TileExpr& expr, const std::vector<Tile>& in) {
    const kpu::kernel::Operation& row = kpu::kernel::operation(expr.op);
    const auto results = static_cast<uint64_t>(kpu::kernel::elements_of(expr.shape));
    const bool real = kpu::kernel::contains(kpu::kernel::tile_floats, in.empty() ? expr.type : in[0].type);
    if (row.family == TileFamily::product) return observer_->multiplied(product_of(expr, in[0], in[1]));
    if (row.family == TileFamily::sort) {
        const uint64_t steps = network_steps(in[0].shape[static_cast<size_t>(expr.dims[0])]) * in.size();
        observer_->computed(CostClass::permute, results, steps);
        return observer_->computed(real ? CostClass::floating : CostClass::integer, results, steps);
    }
    if (expr.op == Op::broadcast_to && in[0].count() == 1) return;
    CostClass cost = row.cost;
    if (cost == CostClass::none) return;
    if (cost == CostClass::integer && (real || kpu::kernel::contains(kpu::kernel::tile_floats, expr.type)))
        cost = CostClass::floating;
    observer_->computed(cost, row.cost == CostClass::reduce ? in[0].count() : results, 1);
}

}  // namespace kpu::values::kernel
