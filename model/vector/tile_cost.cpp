// Costs of operations, accesses and copies of tiles.
#include <algorithm>

#include "isa/kernel/tile_code.hpp"
#include "model/timing/systolic.hpp"
#include "model/vector/kernel_cost.hpp"

namespace kpu::model {

using values::kernel::ByteWindow;

void KernelCost::computed(kernel::CostClass cost, uint64_t elements, uint64_t times) {
    const uint64_t one = cycles_[static_cast<size_t>(cost)] * times;
    computing_ += (elements + lanes_ - 1) / lanes_ * one;
    useful_ += elements * one;
    operations_[static_cast<size_t>(cost)] += elements * times;
}

void KernelCost::find_products() {
    multiplies_.assign(code_.statements.size(), false);
    if (!kernel::has_products(code_) || array_.count() == 0) return;
    for (size_t s = 0; s < code_.statements.size(); ++s) {
        std::vector<kernel::ExprIndex> open;
        for (const kernel::ExprIndex root : code_.tiles->statements[s].expr)
            if (root != kernel::no_expr) open.push_back(root);
        while (!open.empty() && !multiplies_[s]) {
            const kernel::TileExpr& expr = code_.tiles->exprs[open.back()];
            open.pop_back();
            multiplies_[s] = expr.op == kernel::Op::dot;
            open.insert(open.end(), expr.operands.begin(), expr.operands.end());
        }
    }
}

namespace {

ElemType element_of(kernel::Type type) {
    return parse_elem_type(kernel::name_of(type)).value_or(ElemType::none);
}

}  // namespace

/// Notes a product; of types that the array has no rate for, the lanes do it.
void KernelCost::multiplied(const values::kernel::TileProduct& given) {
    if (given.macs() == 0) return;
    Product product{element_of(given.a), element_of(given.b), element_of(given.result)};
    const std::string type = timing::rate_name(product.a, product.b);
    const bool has_rate = std::any_of(array_.rate().begin(), array_.rate().end(),
                                      [&](const proto::MacRate& rate) { return rate.type() == type; });
    if (array_.count() == 0 || !has_rate) {
        const bool real = kernel::contains(kernel::tile_floats, given.a);
        return computed(real ? kernel::CostClass::floating : kernel::CostClass::integer, given.macs(), 1);
    }
    product.groups = given.groups;
    product.m = given.m;
    product.n = given.n;
    product.k = given.k;
    products_.push_back(product);
}

/// Returns the cycles of elements side by side, `lanes` of them at a time.
Cycles KernelCost::row_cycles(const ByteWindow& window, uint64_t byte, uint64_t elements, uint64_t& words) {
    const uint64_t address = places_[window.buffer].address + byte;
    Cycles cycles = 0;
    for (uint64_t first = 0; first < elements; first += lanes_) {
        const uint64_t begin = address + first * window.element_bytes;
        const uint64_t end = address + std::min(elements, first + lanes_) * window.element_bytes;
        const uint64_t touched = (end - 1) / width_ - begin / width_ + 1;
        words += touched;
        cycles += (touched + banks_ - 1) / banks_;
    }
    return cycles;
}

void KernelCost::touched(const ByteWindow& window, bool writes) {
    const uint64_t count = window.count();
    if (count == 0) return;
    KernelTraffic& traffic = traffic_[window.buffer];
    uint64_t words = 0;
    const size_t rank = window.sizes.size();
    const bool dense = rank == 0 || window.strides.back() == 1;
    const uint64_t row = rank == 0 ? 1 : static_cast<uint64_t>(window.sizes.back());
    const bool by_rows = dense && (row >= lanes_ || row == count) && interleave_ == width_;
    if (by_rows) {
        const uint64_t address = places_[window.buffer].address;
        traffic.low = std::min(traffic.low, address + window.first);
        traffic.high = std::max(traffic.high, address + window.end());
    }
    scattered_.clear();
    kernel::Shape index(rank, 0);
    for (uint64_t done = 0; done < count; done += by_rows ? row : 1) {
        uint64_t element = window.first / window.element_bytes;
        for (size_t d = 0; d < rank; ++d) element += static_cast<uint64_t>(index[d] * window.strides[d]);
        if (by_rows)
            access_ += row_cycles(window, element * window.element_bytes, row, words);
        else
            scattered_.push_back(static_cast<uint32_t>(element));
        for (size_t d = by_rows && rank > 0 ? rank - 1 : rank; d-- > 0;) {
            if (++index[d] < window.sizes[d]) break;
            index[d] = 0;
        }
    }
    if (!by_rows)
        access_ +=
            bank_cycles(window.buffer, scattered_.data(), static_cast<uint32_t>(scattered_.size()), words);
    (writes ? traffic.written : traffic.read) += words * width_;
}

namespace {

Footprint pattern_of(const ByteWindow& given) {
    const ByteWindow window = given.merged();
    Footprint pattern;
    pattern.address = window.first;
    pattern.run_bytes = window.element_bytes;
    size_t outer = window.sizes.size();
    if (outer > 0 && window.strides.back() == 1)
        pattern.run_bytes *= static_cast<uint64_t>(window.sizes[--outer]);
    for (; outer > 0; --outer) {  // dimension 0 is the fastest
        pattern.count[pattern.dims] = window.sizes[outer - 1];
        pattern.stride_bytes[pattern.dims] = window.strides[outer - 1] * window.element_bytes;
        ++pattern.dims;
    }
    return pattern;
}

}  // namespace

void KernelCost::copy_started(const values::kernel::TileCopy& copy) {
    KernelCopy started;
    started.of_tiles = true;
    started.number = copy.number;
    started.source = copy.source.buffer;
    started.destination = copy.destination.buffer;
    started.bytes = copy.source.bytes();
    if (started.bytes > 0) {
        started.source_pattern = pattern_of(copy.source);
        started.destination_pattern = pattern_of(copy.destination);
    }
    started_copies_.push_back(started);
}

}  // namespace kpu::model
