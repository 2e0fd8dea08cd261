// Execution of statements for all active lanes.
#include <algorithm>
#include <cstring>

#include "values/kernel/columns.hpp"
#include "values/kernel/lanes/arithmetic.hpp"
#include "values/kernel/lanes/batch.hpp"
#include "values/kernel/lanes/batch_lane.hpp"

namespace kpu::values::kernel {

using kpu::kernel::CodeStatement;

void Batch::bind() {
    const CodeStatement& s = code_.statements[next_];
    const Values values = evaluate_column(s.expr[0]);
    assign_variable(s.variable, values);
}

void Batch::assign_variable(uint32_t variable, const Values& values) {
    Column& target = variables_[variable];
    const size_t count = lanes_.size();
    if (values.wide != nullptr) {
        for (size_t i = 0; i < count; ++i) target.wide[lanes_[i]] = values.wide[i];
    } else if (!full()) {
        for (size_t i = 0; i < count; ++i) target.words[lanes_[i]] = values.words[i];
    } else if (values.words != target.words.data()) {
        std::copy_n(values.words, count, target.words.data());
    }
}

const std::vector<uint8_t>& Batch::truths(size_t operand) {
    const ExprIndex root = code_.statements[next_].expr[operand];
    const Values values = evaluate_column(root);
    truths_.resize(lanes_.size());
    for (size_t i = 0; i < lanes_.size(); ++i) truths_[i] = truthy(type_of(root), values.at(i)) ? 1 : 0;
    return truths_;
}

void Batch::store() {
    const CodeStatement& s = code_.statements[next_];
    if (facts_[next_].atomic || facts_[next_].index_loads_target) return store_lane_by_lane();
    const size_t touched = touched_count_;
    try {
        const Values indices = column(s.expr[0], 0);
        store_buffer_ = s.buffer;
        store_indices_ = facts_[next_].loads_target ? indices.words : nullptr;
        const Values values = column(s.expr[1], 1);
        store_indices_ = nullptr;
        flush_outside();
        store_column(indices, values);
    } catch (const Abandoned&) {
        store_indices_ = nullptr;
        outside_.clear();
        touched_count_ = touched;
        store_lane_by_lane();
    }
}

void Batch::store_column(const Values& indices, const Values& values) {
    const CodeStatement& s = code_.statements[next_];
    if (!observers_.empty()) touch(kpu::kernel::no_expr, s.buffer, indices.words, lanes_.size());
    const Type type = code_.buffers[s.buffer].type;
    if (is_word(type) && values.wide == nullptr) {
        const size_t count = lanes_.size();
        const uint64_t length = memory_.length(s.buffer);
        uint8_t* const data = memory_.bytes(s.buffer).data;
        const bool real = type == Type::f32;
        const auto put = [real](uint8_t* place, uint32_t value) {
            const uint32_t word = real ? kpu::kernel::canonical(value) : value;
            std::memcpy(place, &word, sizeof word);
        };
        if (consecutive(indices.words, count)) {
            if (indices.words[0] + count <= length) {
                uint8_t* const first = data + 4 * uint64_t{indices.words[0]};
                each(count, [=](size_t i) { put(first + 4 * i, values.words[i]); });
                return;
            }
        } else if (all_below(indices.words, count, length)) {
            for (size_t i = 0; i < count; ++i) put(data + 4 * uint64_t{indices.words[i]}, values.words[i]);
            return;
        }
    }
    for (size_t i = 0; i < lanes_.size(); ++i) {
        const uint32_t element = indices.words[i];
        if (memory_.inside(s.buffer, element))
            memory_.store(s.buffer, element, values.at(i));
        else
            memory_.note_outside("store", next_, kpu::kernel::no_expr, s.buffer, element);
    }
}

void Batch::store_lane_by_lane() {
    const CodeStatement& s = code_.statements[next_];
    for (size_t i = 0; i < lanes_.size(); ++i) {
        const LaneView lane(*this, i);
        const auto element = static_cast<uint32_t>(lane.evaluate(s.expr[0]));
        const uint64_t bits = lane.evaluate(s.expr[1]);
        touch_one(kpu::kernel::no_expr, s.buffer, element);
        if (memory_.inside(s.buffer, element))
            memory_.store(s.buffer, element, bits);
        else
            memory_.note_outside("store", next_, kpu::kernel::no_expr, s.buffer, element);
    }
}

void Batch::copy() {
    const CodeStatement& s = code_.statements[next_];
    for (size_t i = 0; i < lanes_.size(); ++i) {
        const LaneView lane(*this, i);
        Copy& copy = copies_[s.tag][lane.linear];
        const uint64_t offset = lane.evaluate(s.expr[0]), size = lane.evaluate(s.expr[1]);
        lane.guarded([&] {
            const uint64_t from = byte_count(code_, next_, 0, offset),
                           bytes = byte_count(code_, next_, 1, size);
            if (copy.pending) fail_second_start(code_, next_);
            copy = start_copy(code_, memory_, next_, from, bytes);
            return 0;
        });
        for (StepObserver* observer : observers_) observer->copy_started(lane.linear, s.tag, copy);
    }
}

void Batch::wait() {
    const CodeStatement& s = code_.statements[next_];
    for (size_t i = 0; i < lanes_.size(); ++i) {
        const LaneView lane(*this, i);
        Copy& copy = copies_[s.tag][lane.linear];
        lane.guarded([&] {
            if (!copy.pending) fail_lone_wait(code_, next_);
            return 0;
        });
        for (StepObserver* observer : observers_) observer->copy_awaited(lane.linear, s.tag);
        finish_copy(copy, memory_);
    }
}

void Batch::trap() {
    const CodeStatement& s = code_.statements[next_];
    const LaneView lane(*this, 0);
    const uint64_t address = lane.evaluate(s.expr[0]);
    lane.guarded([&] {
        fail_trap(code_, next_, type_of(s.expr[0]), address);
        return 0;
    });
}

}  // namespace kpu::values::kernel
