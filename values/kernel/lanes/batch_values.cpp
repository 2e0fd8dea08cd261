// Expressions of all active lanes at once. What a statement does to memory happens after all of its values are
// known, so a column that meets an error, or would see a store of the same statement, is abandoned without a
// trace, and the lanes go one by one as the interpreter defines it.
#include <algorithm>
#include <cstring>

#include "values/kernel/columns.hpp"
#include "values/kernel/lanes/arithmetic.hpp"
#include "values/kernel/lanes/batch.hpp"
#include "values/kernel/lanes/batch_lane.hpp"
#include "values/kernel/lanes/interpreter.hpp"

namespace kpu::values::kernel {

using kpu::kernel::CodeExpr;
using kpu::kernel::Syntax;

namespace {

template <typename T>
struct Register {
    using type = uint32_t;
};
template <>
struct Register<uint64_t> {
    using type = uint64_t;
};

/// Returns the types that a function of arithmetic.hpp takes and gives.
template <typename F, typename R, typename A, typename... Rest>
A argument_type(R (F::*)(A, Rest...) const);
template <typename F, typename R, typename... A>
R result_type(R (F::*)(A...) const);

template <typename T>
const typename Register<T>::type* pointer(const uint32_t* words, const uint64_t* wide) {
    if constexpr (std::is_same_v<T, uint64_t>)
        return (void)words, wide;
    else
        return (void)wide, words;
}
template <typename T>
typename Register<T>::type* pointer(uint32_t* words, uint64_t* wide) {
    if constexpr (std::is_same_v<T, uint64_t>)
        return (void)words, wide;
    else
        return (void)wide, words;
}

}  // namespace

Batch::Values Batch::slot_for(size_t slot, Type type) {
    while (slots_.size() <= slot) slots_.emplace_back();
    Column& column = slots_[slot];
    if (type == Type::u64) {
        column.wide.resize(total_);
        return {nullptr, column.wide.data()};
    }
    column.words.resize(total_);
    return {column.words.data(), nullptr};
}

Batch::Values Batch::fill(size_t slot, Type type, uint64_t bits) {
    const Values values = slot_for(slot, type);
    if (values.wide != nullptr)
        std::fill_n(values.wide, lanes_.size(), bits);
    else
        std::fill_n(values.words, lanes_.size(), static_cast<uint32_t>(bits));
    return values;
}

Batch::Values Batch::gathered(const Column& source, Type type, size_t slot) {
    if (full())
        return {const_cast<uint32_t*>(source.words.data()),
                type == Type::u64 ? const_cast<uint64_t*>(source.wide.data()) : nullptr};
    const Values values = slot_for(slot, type);
    for (size_t i = 0; i < lanes_.size(); ++i) {
        if (values.wide != nullptr)
            values.wide[i] = source.wide[lanes_[i]];
        else
            values.words[i] = source.words[lanes_[i]];
    }
    return values;
}

/// Returns the values of an expression; lane by lane where it holds an atomic or meets an error.
Batch::Values Batch::evaluate_column(ExprIndex root) {
    if (facts_[next_].atomic) return lane_by_lane(root, 0);
    const size_t touched = touched_count_;
    try {
        const Values values = column(root, 0);
        flush_outside();
        return values;
    } catch (const Abandoned&) {
        outside_.clear();
        touched_count_ = touched;
        return lane_by_lane(root, 0);
    }
}

Batch::Values Batch::lane_by_lane(ExprIndex root, size_t slot) {
    const Values values = slot_for(slot, type_of(root));
    for (size_t i = 0; i < lanes_.size(); ++i) {
        const LaneView lane(*this, i);
        const uint64_t bits = lane.evaluate(root);
        if (values.wide != nullptr)
            values.wide[i] = bits;
        else
            values.words[i] = static_cast<uint32_t>(bits);
    }
    return values;
}

void Batch::flush_outside() {
    for (const Outside& access : outside_)
        memory_.note_outside("load", next_, access.site, access.buffer, access.index);
    outside_.clear();
}

Batch::Values Batch::column(ExprIndex index, size_t slot) {
    const CodeExpr& expr = code_.exprs[index];
    switch (kpu::kernel::operation(expr.op).syntax) {
        case Syntax::literal:
            return fill(slot, expr.type, expr.bits);
        case Syntax::variable:
            return gathered(variables_[expr.place], expr.type, slot);
        case Syntax::length:
            return fill(slot, Type::u32, std::min<uint64_t>(memory_.length(expr.place), UINT32_MAX));
        case Syntax::axis: {
            if (expr.op == Op::wgid) return fill(slot, Type::u32, workgroup_[expr.place]);
            std::vector<uint32_t>& ids = expr.op == Op::gid ? gid_[expr.place] : lid_[expr.place];
            if (full()) return {ids.data(), nullptr};
            const Values values = slot_for(slot, Type::u32);
            for (size_t i = 0; i < lanes_.size(); ++i) values.words[i] = ids[lanes_[i]];
            return values;
        }
        case Syntax::load:
            return load(index, slot);
        case Syntax::cast:
            return cast_column(expr, slot);
        case Syntax::atomic:
            throw Abandoned{};
        default:
            break;
    }
    switch (expr.op) {
        case Op::ballot:
        case Op::shuffle:
        case Op::subgroup_add:
            return exchange_column(index, slot);
        case Op::subgroup_size:
            return fill(slot, Type::u32, kpu::kernel::subgroup_lanes);
        case Op::subgroup_id: {
            const Values values = slot_for(slot, Type::u32);
            for (size_t i = 0; i < lanes_.size(); ++i)
                values.words[i] = lanes_[i] % kpu::kernel::subgroup_lanes;
            return values;
        }
        default:
            return expr.arity == 1   ? unary(expr, slot)
                   : expr.arity == 2 ? binary(expr, slot)
                                     : ternary(expr, slot);
    }
}

Batch::Values Batch::unary(const CodeExpr& expr, size_t slot) {
    const Values a = column(expr.operand[0], slot);
    const Values out = slot_for(slot, expr.type);
    const size_t count = lanes_.size();
    const auto apply = [&](auto f) {
        using Function = decltype(f);
        using Argument = decltype(argument_type(&Function::operator()));
        using Result = decltype(result_type(&Function::operator()));
        const auto* from = pointer<Argument>(static_cast<const uint32_t*>(a.words), a.wide);
        auto* to = pointer<Result>(out.words, out.wide);
        each(count, [=](size_t i) {
            to[i] = static_cast<typename Register<Result>::type>(to_bits(f(from_bits<Argument>(from[i]))));
        });
        return true;
    };
    if (!visit_unary(expr.op, type_of(expr.operand[0]), apply))
        throw InternalError("kernel: unary operation");
    return out;
}

Batch::Values Batch::binary(const CodeExpr& expr, size_t slot) {
    const Type type = type_of(expr.operand[0]);
    const Values a = column(expr.operand[0], slot);
    const Values b = column(expr.operand[1], slot + 1);
    const Values out = slot_for(slot, expr.type);
    const size_t count = lanes_.size();
    if (type == Type::i32 && (expr.op == Op::div || expr.op == Op::mod))
        for (size_t i = 0; i < count; ++i)
            if (undefined_quotient(a.words[i], b.words[i])) throw Abandoned{};
    const auto apply = [&](auto f) {
        using Function = decltype(f);
        using Argument = decltype(argument_type(&Function::operator()));
        using Result = decltype(result_type(&Function::operator()));
        const auto* left = pointer<Argument>(static_cast<const uint32_t*>(a.words), a.wide);
        const auto* right = pointer<Argument>(static_cast<const uint32_t*>(b.words), b.wide);
        auto* to = pointer<Result>(out.words, out.wide);
        each(count, [=](size_t i) {
            to[i] = static_cast<typename Register<Result>::type>(
                to_bits(f(from_bits<Argument>(left[i]), from_bits<Argument>(right[i]))));
        });
        return true;
    };
    if (!visit_binary(expr.op, type, apply)) throw InternalError("kernel: binary operation");
    return out;
}

Batch::Values Batch::ternary(const CodeExpr& expr, size_t slot) {
    const Type type = type_of(expr.operand[0]);
    const Values a = column(expr.operand[0], slot);
    const Values b = column(expr.operand[1], slot + 1);
    const Values c = column(expr.operand[2], slot + 2);
    // a condition of u64 does not stand where the result of a narrower select goes
    const Values out = slot_for(slot, expr.type);
    const size_t count = lanes_.size();
    if (expr.op == Op::fma) {
        each(count, [=](size_t i) {
            out.words[i] = static_cast<uint32_t>(fused(a.words[i], b.words[i], c.words[i]));
        });
        return out;
    }
    if (type != Type::u64 && out.wide == nullptr) {
        const uint32_t sign = type == Type::f32 ? 0x80000000u : 0;  // -0 is false
        each(count, [=](size_t i) {
            const uint32_t yes = b.words[i], no = c.words[i];
            out.words[i] = (a.words[i] & ~sign) != 0 ? yes : no;
        });
        return out;
    }
    for (size_t i = 0; i < count; ++i) {
        const bool yes = truthy(type, a.at(i));
        if (out.wide != nullptr)
            out.wide[i] = yes ? b.wide[i] : c.wide[i];
        else
            out.words[i] = yes ? b.words[i] : c.words[i];
    }
    return out;
}

Batch::Values Batch::cast_column(const CodeExpr& expr, size_t slot) {
    const Type from = type_of(expr.operand[0]), to = expr.type;
    const Values a = column(expr.operand[0], slot);
    const bool same_bits =
        from == to || (from == Type::u32 && to == Type::i32) || (from == Type::i32 && to == Type::u32) ||
        (from == Type::boolean && to == Type::u32) || (from == Type::boolean && to == Type::i32);
    if (same_bits) return a;
    const Values out = slot_for(slot, to);
    const size_t count = lanes_.size();
    if (to == Type::f32 && (from == Type::u32 || from == Type::i32)) {
        const bool is_signed = from == Type::i32;
        each(count, [=](size_t i) {
            const uint32_t word = a.words[i];
            const auto from_signed = static_cast<float>(static_cast<int32_t>(word));
            out.words[i] = bits_of(is_signed ? from_signed : static_cast<float>(word));
        });
        return out;
    }
    for (size_t i = 0; i < count; ++i) {
        uint64_t bits = 0;
        if (!cast(from, to, a.at(i), bits)) throw Abandoned{};
        if (out.wide != nullptr)
            out.wide[i] = bits;
        else
            out.words[i] = static_cast<uint32_t>(bits);
    }
    return out;
}

Batch::Values Batch::exchange_column(ExprIndex index, size_t slot) {
    const Values out = slot_for(slot, type_of(index));
    for (const auto& [expr, values] : exchanges_) {
        if (expr != index) continue;
        for (size_t i = 0; i < lanes_.size(); ++i) out.words[i] = static_cast<uint32_t>(values[i]);
        return out;
    }
    throw InternalError("kernel: an exchange that was not prepared");
}

/// Operands see what was before the statement; nested exchanges come first.
void Batch::prepare_exchanges() {
    exchanges_.clear();
    const kpu::kernel::CodeStatement& s = code_.statements[next_];
    ExprIndex first = s.expr[0];
    while (code_.exprs[first].arity > 0) first = code_.exprs[first].operand[0];
    const ExprIndex last = s.expr[1] == kpu::kernel::no_expr ? s.expr[0] : s.expr[1];
    const Facts kept = facts_[next_];
    facts_[next_].atomic = false;  // no operand holds one
    for (ExprIndex index = first; index <= last; ++index) {
        const CodeExpr& expr = code_.exprs[index];
        if (expr.op != Op::ballot && expr.op != Op::shuffle && expr.op != Op::subgroup_add) continue;
        std::array<std::vector<uint64_t>, 2> operands;
        for (uint8_t k = 0; k < expr.arity; ++k) {
            const Values values = evaluate_column(expr.operand[k]);
            for (size_t i = 0; i < lanes_.size(); ++i) operands[k].push_back(values.at(i));
        }
        exchanges_.emplace_back(index, exchange(expr, type_of(expr.operand[0]), lanes_, operands));
    }
    facts_[next_] = kept;
}

Batch::Values Batch::load(ExprIndex index, size_t slot) {
    const CodeExpr& expr = code_.exprs[index];
    const Type from = type_of(expr.operand[0]);
    Values at = column(expr.operand[0], slot);
    const size_t count = lanes_.size();
    if (from != Type::u32 && from != Type::boolean) {
        const Values given = at;
        if (from != Type::i32) at = slot_for(slot, Type::u32);
        for (size_t i = 0; i < count; ++i) {
            uint32_t element = 0;
            if (!as_u32(from, given.at(i), element)) throw Abandoned{};
            if (from != Type::i32) at.words[i] = element;
        }
    }
    if (store_indices_ != nullptr && expr.place == store_buffer_) check_order(at.words);
    if (!observers_.empty()) touch(index, expr.place, at.words, count);
    const Values out = slot_for(slot, expr.type);
    const uint64_t length = memory_.length(expr.place);
    if (is_word(code_.buffers[expr.place].type)) {
        const uint8_t* const data = memory_.bytes(expr.place).data;
        const bool real = expr.type == Type::f32;
        const auto word_at = [real](const uint8_t* place) {
            uint32_t word;
            std::memcpy(&word, place, sizeof word);
            return real ? kpu::kernel::canonical(word) : word;
        };
        if (consecutive(at.words, count)) {
            if (at.words[0] + count <= length) {
                const uint8_t* const first = data + 4 * uint64_t{at.words[0]};
                each(count, [=](size_t i) { out.words[i] = word_at(first + 4 * i); });
                return out;
            }
        } else if (all_below(at.words, count, length)) {
            each(count, [=](size_t i) { out.words[i] = word_at(data + 4 * uint64_t{at.words[i]}); });
            return out;
        }
    }
    const auto read = [&](size_t i) -> uint64_t {
        const uint32_t element = at.words[i];
        if (element < length) return memory_.load(expr.place, element);
        outside_.push_back({index, expr.place, element});
        return 0;
    };
    if (out.wide != nullptr)
        for (size_t i = 0; i < count; ++i) out.wide[i] = read(i);
    else
        for (size_t i = 0; i < count; ++i) out.words[i] = static_cast<uint32_t>(read(i));
    return out;
}

/// Remembers elements that the statement asks for, until it is done.
void Batch::touch(ExprIndex site, uint32_t buffer, const uint32_t* elements, size_t count) {
    if (touched_count_ == touched_.size()) touched_.emplace_back();
    Touched& touched = touched_[touched_count_++];
    touched.site = site;
    touched.buffer = buffer;
    touched.elements.assign(elements, elements + count);
}

/// Adds one more element of a site that goes lane by lane.
void Batch::touch_one(ExprIndex site, uint32_t buffer, uint32_t element) {
    if (observers_.empty()) return;
    for (size_t i = touched_count_; i-- > 0;)
        if (touched_[i].site == site) return touched_[i].elements.push_back(element);
    touch(site, buffer, &element, 1);
}

/// Abandons the column if a lane reads what an earlier lane stores in this statement.
void Batch::check_order(const uint32_t* loaded) {
    const size_t count = lanes_.size();
    const uint32_t* stored = store_indices_;
    if (std::equal(loaded, loaded + count, stored)) {
        uint32_t ascending = 1;
        for (size_t i = 1; i < count; ++i) ascending &= uint32_t{stored[i] > stored[i - 1]};
        if (ascending) return;
    }
    const auto [least, most] = std::minmax_element(stored, stored + count);
    const uint32_t first = *least, span = *most - first;
    if (span > (1u << 20)) throw Abandoned{};
    if (stored_in_.size() <= span) {
        stored_in_.resize(span + 1, 0);
    }
    if (++round_ == 0) {
        std::fill(stored_in_.begin(), stored_in_.end(), 0);
        round_ = 1;
    }
    for (size_t i = 0; i < count; ++i) {
        const uint32_t read = loaded[i] - first;
        if (loaded[i] >= first && read <= span && stored_in_[read] == round_) throw Abandoned{};
        stored_in_[stored[i] - first] = round_;
    }
}

}  // namespace kpu::values::kernel
