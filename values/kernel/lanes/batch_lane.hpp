#pragma once

#include "values/kernel/lanes/batch.hpp"
#include "values/kernel/lanes/interpreter.hpp"

namespace kpu::values::kernel {

/// True for types that a buffer holds as one word, which is the value but for what is canonical.
inline bool is_word(Type type) { return type == Type::u32 || type == Type::i32 || type == Type::f32; }

/// True if none of the elements lies outside a buffer of `length`.
inline bool all_below(const uint32_t* elements, size_t count, uint64_t length) {
    uint32_t most = 0;
    for (size_t i = 0; i < count; ++i) most = elements[i] > most ? elements[i] : most;
    return most < length;
}

/// An active lane of a batch, for what goes lane by lane.
class Batch::LaneView : public Lane {
  public:
    LaneView(Batch& batch, size_t place) : batch_(batch), place_(place) {
        linear = batch.lanes_[place];
        ids = ids_of(batch.code_, batch.workgroup_, linear);
    }

    uint64_t variable(uint32_t index) const override {
        const Column& column = batch_.variables_[index];
        return column.wide.empty() ? column.words[linear] : column.wide[linear];
    }
    uint64_t exchanged(ExprIndex expr) const override {
        for (const auto& [index, values] : batch_.exchanges_)
            if (index == expr) return values[place_];
        throw InternalError("kernel: an exchange that was not prepared");
    }

    void touched(ExprIndex site, uint32_t buffer, uint32_t element) const override {
        batch_.touch_one(site, buffer, element);
    }

    /// Throws SimulationError that names the statement and the lane.
    uint64_t evaluate(ExprIndex expr) const {
        return guarded(
            [&] { return kernel::evaluate(batch_.code_, batch_.memory_, *this, batch_.next_, expr); });
    }
    template <typename Action>
    auto guarded(const Action& action) const -> decltype(action()) {
        try {
            return action();
        } catch (const Fault& fault) {
            throw SimulationError(fault_text(batch_.code_, batch_.next_, ids, fault.what()));
        }
    }

  private:
    Batch& batch_;
    size_t place_;
};

}  // namespace kpu::values::kernel
