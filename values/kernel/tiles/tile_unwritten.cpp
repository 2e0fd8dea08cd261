#include "values/kernel/tiles/tile_unwritten.hpp"

#include <algorithm>
#include <cstring>

#include "isa/kernel/code.hpp"

namespace kpu::values::kernel {
namespace {

enum : uint8_t { written, not_written, derived };

/// Calls `visit` with the first element, the count and the distance of each row of a window.
template <typename Visit>
void for_each_row(const ByteWindow& given, Visit&& visit) {
    const ByteWindow window = given.merged();
    if (window.count() == 0) return;
    const size_t outer = window.sizes.empty() ? 0 : window.sizes.size() - 1;
    const int64_t count = window.sizes.empty() ? 1 : window.sizes.back();
    const int64_t stride = window.sizes.empty() ? 1 : window.strides.back();
    auto first = static_cast<int64_t>(window.first / window.element_bytes);
    Shape index(outer, 0);
    for (;;) {
        visit(static_cast<size_t>(first), static_cast<size_t>(count), static_cast<size_t>(stride));
        size_t d = outer;
        for (; d-- > 0;) {
            first += window.strides[d];
            if (++index[d] < window.sizes[d]) break;
            first -= window.strides[d] * window.sizes[d];
            index[d] = 0;
        }
        if (d == SIZE_MAX) return;
    }
}

using Mask = std::vector<uint8_t>;

bool any(const Mask& mask) {
    return std::any_of(mask.begin(), mask.end(), [](uint8_t one) { return one != 0; });
}

/// The result's mask of an operation on values of which one at least has a mask.
class Spread {
  public:
    Spread(const TileExpr& expr, const std::vector<Tile>& in)
        : expr_(expr), in_(in), count_(static_cast<size_t>(kpu::kernel::elements_of(expr.shape))) {}

    Mask run() const {
        switch (kpu::kernel::operation(expr_.op).family) {
            case TileFamily::select:
                return selected();
            case TileFamily::move:
                if (expr_.op == Op::dynamic_slice) return moved(1, 2);
                if (expr_.op == Op::dynamic_update) return moved(2, 2);
                return moved(in_.size(), in_.size());
            case TileFamily::pick:
                return moved(1, 2);
            case TileFamily::reduce:
                return along(Op::reduce_or, Type::boolean, in_[0], expr_.shape);
            case TileFamily::scan:
                return along(Op::cumulative_max, Type::i32, in_[0], expr_.shape);
            case TileFamily::sort:
                return sorted();
            case TileFamily::product:
                return product();
            default:
                return can_be_decided() ? decided() : each();
        }
    }

  private:
    static bool at(const Tile& tile, size_t i) {
        return tile.unwritten != nullptr && tile.unwritten->elements[tile.count() == 1 ? 0 : i] != 0;
    }
    static bool truth(const Tile& tile, size_t i) { return tile.bytes()[tile.count() == 1 ? 0 : i] != 0; }

    Mask each() const {
        Mask mask(count_);
        for (const Tile& operand : in_)
            for (size_t i = 0; operand.unwritten != nullptr && i < count_; ++i) mask[i] |= at(operand, i);
        return mask;
    }

    /// Marks the elements of a selection: only the side that is taken counts.
    Mask selected() const {
        Mask mask(count_);
        for (size_t i = 0; i < count_; ++i)
            mask[i] = at(in_[0], i) || at(truth(in_[0], i) ? in_[1] : in_[2], i);
        return mask;
    }

    bool can_be_decided() const {
        const bool logic = expr_.op == Op::bit_and || expr_.op == Op::bit_or || expr_.op == Op::logical_and ||
                           expr_.op == Op::logical_or;
        return logic && in_[0].type == Type::boolean;
    }

    /// Marks the elements of `and` and `or`: a written false, or true, decides alone.
    Mask decided() const {
        const bool decides = expr_.op == Op::bit_or || expr_.op == Op::logical_or;
        Mask mask(count_);
        for (size_t i = 0; i < count_; ++i) {
            const bool a = at(in_[0], i), b = at(in_[1], i);
            mask[i] = (a && b) || (a && truth(in_[1], i) != decides) || (b && truth(in_[0], i) != decides);
        }
        return mask;
    }

    /// Returns a tile with all bits set in each element that depends on unwritten ones.
    static Tile as_bits(const Tile& tile) {
        Tile bits(tile.type, tile.shape);
        const unsigned bytes = tile.element_bytes();
        if (tile.count() > 0) std::memset(bits.make(), 0, tile.count() * bytes);
        for (size_t i = 0; tile.unwritten != nullptr && i < tile.count(); ++i)
            if (tile.unwritten->elements[i] != 0) std::memset(bits.make() + i * bytes, 0xff, bytes);
        return bits;
    }
    static Mask from_bits(const Tile& tile) {
        Mask mask(tile.count());
        const unsigned bytes = tile.element_bytes();
        for (size_t i = 0; i < mask.size(); ++i)
            mask[i] = std::any_of(tile.bytes() + i * bytes, tile.bytes() + (i + 1) * bytes,
                                  [](uint8_t byte) { return byte != 0; });
        return mask;
    }

    /// Returns the same move of the masks. Operands from `first_place` up to `after_places` say where:
    /// results depend on them.
    Mask moved(size_t first_place, size_t after_places) const {
        std::vector<Tile> masks = in_;
        Mask places;
        for (size_t i = 0; i < masks.size(); ++i) {
            if (is_place(i, first_place, after_places)) {
                if (in_[i].unwritten == nullptr) continue;
                if (expr_.op != Op::permute || in_[i].count() != count_) return Mask(count_, 1);
                places = in_[i].unwritten->elements;
            } else {
                masks[i] = as_bits(in_[i]);
            }
        }
        for (Tile& tile : masks) tile.unwritten = nullptr;
        Mask mask = from_bits(operate(expr_, masks));
        for (size_t i = 0; i < places.size(); ++i) mask[i] |= places[i];
        return mask;
    }
    bool is_place(size_t operand, size_t first_place, size_t after_places) const {
        const bool all_behind = expr_.op == Op::dynamic_slice || expr_.op == Op::dynamic_update;
        return operand >= first_place && (all_behind || operand < after_places);
    }

    /// Moves the mask along dimensions, as the operation's own numbers say.
    Mask along(Op op, Type type, const Tile& x, const Shape& shape) const {
        TileExpr expr = expr_;
        expr.op = op;
        expr.type = type;
        expr.shape = shape;
        Tile flags(type, x.shape);
        with_storage(type, [&](auto zero) {
            auto* out = flags.make_as<decltype(zero)>();
            for (size_t i = 0; i < x.count(); ++i) out[i] = static_cast<decltype(zero)>(at(x, i));
        });
        std::vector<Tile> operands{flags};
        return from_bits(operate(expr, operands));
    }

    /// Marks the rows of a sort: one unwritten key can change the place of all others in its row.
    Mask sorted() const {
        const auto axis = static_cast<size_t>(expr_.dims[0]);
        const Shape& shape = in_[0].shape;
        Shape rows = shape;
        rows.erase(rows.begin() + static_cast<ptrdiff_t>(axis));
        size_t inner = 1;
        for (size_t d = axis + 1; d < shape.size(); ++d) inner *= static_cast<size_t>(shape[d]);
        const size_t length = static_cast<size_t>(shape[axis]) * inner;
        Mask mask(count_);
        for (const Tile& keys : in_) {
            if (keys.unwritten == nullptr) continue;
            Mask row(static_cast<size_t>(kpu::kernel::elements_of(rows)));
            for (size_t i = 0; i < count_; ++i) row[i / length * inner + i % inner] |= at(keys, i);
            for (size_t i = 0; i < count_; ++i) mask[i] |= row[i / length * inner + i % inner];
        }
        return mask;
    }

    /// A result depends on a row of one factor and a column of the other.
    Mask product() const {
        const auto flags = [](const Tile& x, bool ones) {
            Tile tile(Type::f32, x.shape);
            for (size_t i = 0; i < x.count(); ++i) tile.make_as<float>()[i] = ones || at(x, i) ? 1.0F : 0.0F;
            return tile;
        };
        TileExpr expr = expr_;
        expr.type = Type::f32;
        Mask mask(count_);
        for (size_t side = 0; side < 2; ++side) {
            if (in_[side].unwritten == nullptr) continue;
            const Mask one = from_bits(dot_tile(expr, flags(in_[0], side == 1), flags(in_[1], side == 0)));
            for (size_t i = 0; i < count_; ++i) mask[i] |= one[i];
        }
        return mask;
    }

    const TileExpr& expr_;
    const std::vector<Tile>& in_;
    size_t count_;
};

}  // namespace

UnwrittenMap::UnwrittenMap(const kpu::kernel::Code& code) : buffers_(code.buffers.size()) {
    std::vector<bool> is_read(buffers_.size());
    for (const kpu::kernel::CodeStatement& s : code.statements)
        if (s.kind == kpu::kernel::Kind::async_copy) is_read[s.buffer] = true;
    for (const TileExpr& expr : code.tiles->exprs)
        if (expr.op == Op::load) is_read[expr.place] = true;
    for (uint32_t i = 0; i < code.buffers.size(); ++i) {
        const kpu::kernel::CodeBuffer& buffer = code.buffers[i];
        if (code.tiles->semaphores[i] || !(buffer.is_workgroup() ? is_read[i] : buffer.starts_zero()))
            continue;
        buffers_[i].left = buffer.count;
        buffers_[i].elements.assign(buffer.count, not_written);
    }
}

/// Takes elements one after the other.
class UnwrittenMap::Reader {
  public:
    Reader(const Buffer& buffer, uint32_t number, uint32_t statement, size_t count)
        : buffer_(buffer), part_(std::make_shared<Unwritten>()) {
        part_->elements.reserve(count);
        part_->statement = statement;
        part_->buffer = number;
    }
    void take(size_t element) {
        const uint8_t state = buffer_.elements[element];
        part_->elements.push_back(state != written);
        if (state == written || found_) return;
        found_ = true;
        part_->element = element;
        if (state != derived) return;
        part_->statement = buffer_.last.statement;
        part_->buffer = buffer_.last.buffer;
        part_->element = buffer_.last.element;
    }
    std::shared_ptr<const Unwritten> result() const { return found_ ? part_ : nullptr; }

  private:
    const Buffer& buffer_;
    std::shared_ptr<Unwritten> part_;
    bool found_ = false;
};

std::shared_ptr<const Unwritten> UnwrittenMap::read(uint32_t statement, const ByteWindow& window) const {
    const Buffer& buffer = buffers_[window.buffer];
    if (buffer.left == 0) return nullptr;
    Reader reader(buffer, window.buffer, statement, window.count());
    for_each_row(window, [&](size_t first, size_t count, size_t stride) {
        for (size_t i = 0; i < count; ++i) reader.take(first + i * stride);
    });
    return reader.result();
}

std::shared_ptr<const Unwritten> UnwrittenMap::read(uint32_t statement, uint32_t number,
                                                    const std::vector<uint32_t>& elements) const {
    const Buffer& buffer = buffers_[number];
    if (buffer.left == 0) return nullptr;
    Reader reader(buffer, number, statement, elements.size());
    for (const uint32_t element : elements) reader.take(element);
    return reader.result();
}

void UnwrittenMap::Buffer::set(size_t element, uint8_t state) {
    left += size_t{state != written} - size_t{elements[element] != written};
    elements[element] = state;
}

void UnwrittenMap::write(const ByteWindow& window, const Unwritten* part) {
    Buffer& buffer = buffers_[window.buffer];
    if (buffer.elements.empty() || (buffer.left == 0 && part == nullptr)) return;
    if (part != nullptr) buffer.last = {{}, part->statement, part->buffer, part->element};
    size_t next = 0;
    for_each_row(window, [&](size_t first, size_t count, size_t stride) {
        for (size_t i = 0; i < count; ++i, ++next)
            buffer.set(first + i * stride, part != nullptr && part->elements[next] != 0 ? derived : written);
    });
}

void UnwrittenMap::write(uint32_t number, const std::vector<uint32_t>& elements, const Unwritten* part) {
    Buffer& buffer = buffers_[number];
    if (buffer.elements.empty() || (buffer.left == 0 && part == nullptr)) return;
    if (part != nullptr) buffer.last = {{}, part->statement, part->buffer, part->element};
    for (size_t i = 0; i < elements.size(); ++i)
        buffer.set(elements[i], part != nullptr && part->elements[i] != 0 ? derived : written);
}

std::optional<uint64_t> UnwrittenMap::first_left(uint32_t buffer) const {
    const Buffer& of = buffers_[buffer];
    if (of.left == 0) return std::nullopt;
    const auto first = std::find(of.elements.begin(), of.elements.end(), not_written);
    if (first == of.elements.end()) return std::nullopt;
    return static_cast<uint64_t>(first - of.elements.begin());
}

void UnwrittenMap::forget(const ByteWindow& window) {
    Buffer& buffer = buffers_[window.buffer];
    if (buffer.elements.empty()) return;
    for_each_row(window, [&](size_t first, size_t count, size_t stride) {
        for (size_t i = 0; i < count; ++i) buffer.set(first + i * stride, not_written);
    });
}

std::shared_ptr<const Unwritten> unwritten_of(const TileExpr& expr, const std::vector<Tile>& in) {
    const auto first =
        std::find_if(in.begin(), in.end(), [](const Tile& tile) { return tile.unwritten != nullptr; });
    if (first == in.end()) return nullptr;
    Mask mask = Spread(expr, in).run();
    if (!any(mask)) return nullptr;
    const Unwritten& from = *first->unwritten;
    return std::make_shared<Unwritten>(Unwritten{std::move(mask), from.statement, from.buffer, from.element});
}

}  // namespace kpu::values::kernel
