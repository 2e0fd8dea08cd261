#include "model/vector/kernel_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/diagnostics.hpp"

namespace kpu::model {

using kernel::CostClass;
using kernel::Kind;

namespace {

uint64_t positive(uint64_t value) { return std::max<uint64_t>(value, 1); }

}  // namespace

KernelCost::KernelCost(const kernel::Code& code, const proto::Engine& engine,
                       std::vector<KernelBufferPlace> places)
    : code_(code),
      places_(std::move(places)),
      lanes_(positive(engine.vector().lanes())),
      width_(positive(engine.l1().bank_width_bytes())),
      interleave_(positive(engine.l1().interleave_bytes())),
      banks_(positive(engine.l1().banks())),
      traffic_(code.buffers.size()),
      array_(engine.array()) {
    const auto row = [&](std::string_view name) {
        for (const proto::OpcodeCost& cost : engine.vector().cost())
            if (cost.opcode() == name) return static_cast<uint64_t>(std::ceil(cost.cycles_per_element()));
        for (const kernel::CostRow& cost : kernel::cost_rows())
            if (cost.name == name) return static_cast<uint64_t>(cost.cycles);
        throw InternalError("no cost of " + std::string(name));
    };
    for (size_t i = 1; i < cycles_.size(); ++i)
        cycles_[i] = row("kernel." + std::string(name_of(static_cast<CostClass>(i))));
    statement_cycles_ = positive(row("kernel.statement"));  // else a loop would never let time pass
    barrier_cycles_ = row("kernel.barrier");
    scalar_cycles_ = row("kernel.scalar");
    for (const kernel::CodeStatement& s : code.statements) {
        contents_.emplace_back();
        for (const kernel::ExprIndex root : s.expr)
            if (root != kernel::no_expr) add(contents_.back(), root);
    }
    find_products();
}

void KernelCost::add(Content& content, kernel::ExprIndex root) const {
    std::vector<kernel::ExprIndex> open{root};
    while (!open.empty()) {
        const kernel::CodeExpr& expr = code_.exprs[open.back()];
        open.pop_back();
        const kernel::Type type = expr.arity > 0 ? code_.exprs[expr.operand[0]].type : expr.type;
        ++content.count[static_cast<size_t>(cost_of(kernel::operation(expr.op), type))];
        for (uint8_t i = 0; i < expr.arity; ++i) open.push_back(expr.operand[i]);
    }
}

/// A group of lanes that ask for one element after the other, all inside: without sorting. False: they do not.
bool KernelCost::take_neighbours(const uint32_t* elements, uint32_t count, const KernelBufferPlace& place,
                                 unsigned bytes, KernelTraffic& traffic, Cycles& cycles, uint64_t& words) {
    for (uint32_t i = 1; i < count; ++i)
        if (elements[i] != elements[0] + i) return false;
    const uint64_t begin = place.address + uint64_t{elements[0]} * bytes,
                   end = begin + uint64_t{count} * bytes;
    if (elements[0] + uint64_t{count} > UINT32_MAX || end > place.address + place.bytes) return false;
    if (interleave_ % width_ != 0 || width_ % bytes != 0 || begin % bytes != 0) return false;
    words_of_bank_.assign(banks_, 0);
    uint32_t most = 0;
    for (uint64_t word = begin / width_; word * width_ < end; ++word, ++words)
        most = std::max(most, ++words_of_bank_[word * width_ / interleave_ % banks_]);
    cycles += most;
    traffic.low = std::min(traffic.low, begin);
    traffic.high = std::max(traffic.high, end);
    return true;
}

/// Lanes that go together ask for words of banks; a bank gives one a cycle, whoever asks for it.
Cycles KernelCost::bank_cycles(uint32_t buffer, const uint32_t* elements, uint32_t count, uint64_t& words) {
    const KernelBufferPlace& place = places_[buffer];
    const unsigned bytes = kernel::storage_bits(code_.buffers[buffer].type) / 8;
    KernelTraffic& traffic = traffic_[buffer];
    Cycles cycles = 0;
    for (uint32_t first = 0; first < count; first += static_cast<uint32_t>(lanes_)) {
        const uint32_t end = static_cast<uint32_t>(std::min<uint64_t>(count, first + lanes_));
        if (take_neighbours(elements + first, end - first, place, bytes, traffic, cycles, words)) continue;
        touched_.clear();
        for (uint32_t i = first; i < end; ++i) {
            const uint64_t offset = uint64_t{elements[i]} * bytes;
            if (offset + bytes > place.bytes) continue;  // outside: nothing is asked for
            const uint64_t address = place.address + offset;
            const std::pair<uint64_t, uint64_t> word{address / interleave_ % banks_, address / width_};
            if (touched_.empty() || touched_.back() != word) touched_.push_back(word);
            traffic.low = std::min(traffic.low, address);
            traffic.high = std::max(traffic.high, address + bytes);
        }
        std::sort(touched_.begin(), touched_.end());
        touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
        words += touched_.size();
        Cycles most = 0, run = 0;
        for (size_t i = 0; i < touched_.size(); ++i) {
            run = i > 0 && touched_[i].first == touched_[i - 1].first ? run + 1 : 1;
            most = std::max(most, run);
        }
        cycles += most;
    }
    return cycles;
}

void KernelCost::accessed(kernel::ExprIndex site, uint32_t buffer, const uint32_t* elements, const uint32_t*,
                          uint32_t count) {
    const bool store = site == kernel::no_expr;
    const bool atomic = !store && code_.tiles == nullptr &&
                        kernel::operation(code_.exprs[site].op).syntax == kernel::Syntax::atomic;
    uint64_t words = 0;
    const Cycles cycles = bank_cycles(buffer, elements, count, words);
    const bool scalar = code_.buffers[buffer].access == proto::KernelBuffer::UNIFORM;
    access_ += scalar ? scalar_cycles_ : cycles * (atomic ? 2 : 1);
    if (!store) traffic_[buffer].read += words * width_;
    if (store || atomic) traffic_[buffer].written += words * width_;
}

void KernelCost::copy_started(uint32_t lane, uint32_t tag, const values::kernel::Copy& copy) {
    const kernel::CodeStatement& s = code_.statements[copy.statement];
    KernelCopy started;
    started.tag = tag;
    started.lane = lane;
    started.source = s.buffer;
    started.destination = s.other;
    started.source_byte = copy.from;
    started.destination_byte = copy.start;
    started.bytes = copy.payload.size();
    started_copies_.push_back(started);
}

void KernelCost::executed(uint32_t statement, uint32_t active) {
    const Content& content = contents_[statement];
    const uint64_t groups = (active + lanes_ - 1) / lanes_;
    Cycles cycles = statement_cycles_ + access_ + computing_;
    for (size_t i = 1; i < cycles_.size(); ++i) {
        if (content.count[i] == 0) continue;
        const bool serial = static_cast<CostClass>(i) == CostClass::atomic;
        const uint64_t one = content.count[i] * cycles_[i];
        cycles += one * (serial ? active : groups);
        useful_ += one * (serial ? lanes_ : 1) * active;
        operations_[i] += uint64_t{content.count[i]} * active;
    }
    if (code_.statements[statement].kind == Kind::barrier) cycles += barrier_cycles_;
    cycles_of_last_ = cycles;
    access_ = computing_ = 0;
}

}  // namespace kpu::model
