// Loads and stores of which a mask says the elements.
#include <algorithm>
#include <cstring>

#include "values/kernel/tiles/tile_machine.hpp"

namespace kpu::values::kernel {

/// Returns the places where the mask is true; only these have to be inside.
TileMachine::MaskedPlaces TileMachine::masked_places(uint32_t buffer, ExprIndex index, const Tile& mask) {
    const TileExpr& window = tiles_.exprs[index];
    const Shape starts = starts_of(window);
    const size_t rank = starts.size();
    MaskedPlaces places;
    Shape at(rank, 0);
    for (uint32_t lane = 0; lane < mask.count(); ++lane) {
        if (mask.bytes()[lane] != 0) {
            Shape one = starts;
            for (size_t d = 0; d < rank; ++d) one[d] += at[d] * window.dims[2 * rank + d];
            const WindowPart part{Shape(rank, 0), Shape(rank, 1)};
            check_inside(window, one);
            places.elements.push_back(static_cast<uint32_t>(part_of(window, one, part, buffer, 1).first));
            places.lanes.push_back(lane);
        }
        for (size_t d = rank; d-- > 0;) {
            if (++at[d] < window.dims[rank + d]) break;
            at[d] = 0;
        }
    }
    return places;
}

void TileMachine::touch_each(uint32_t buffer, const MaskedPlaces& places, bool writes) {
    const unsigned bytes = kpu::kernel::tile_bytes(code_.buffers[buffer].type);
    for (size_t i = 0; copies_.any() && i < places.elements.size(); ++i)
        copies_.touch(next_, {buffer, uint64_t{places.elements[i]} * bytes, bytes, {}, {}}, writes);
    if (observer_ != nullptr)
        observer_->accessed(writes ? kpu::kernel::no_expr : 0, buffer, places.elements.data(),
                            places.lanes.data(), static_cast<uint32_t>(places.elements.size()));
}

/// 0 where the mask is false; that is no value that a kernel may use.
Tile TileMachine::masked_load(const TileExpr& expr) {
    const Tile mask = deciding(expr.operands[1]);
    const MaskedPlaces places = masked_places(expr.place, expr.operands[0], mask);
    touch_each(expr.place, places, false);
    Tile tile(expr.type, expr.shape);
    const unsigned bytes = tile.element_bytes();
    if (tile.count() > 0) std::memset(tile.make(), 0, tile.count() * bytes);
    for (size_t i = 0; i < places.lanes.size(); ++i)
        std::memcpy(tile.make() + size_t{places.lanes[i]} * bytes,
                    storage_[expr.place].data + size_t{places.elements[i]} * bytes, bytes);
    if (!unwritten_) return tile;
    const auto part = unwritten_->read(next_, expr.place, places.elements);
    if (part == nullptr && places.lanes.size() == tile.count()) return tile;
    Unwritten whole{std::vector<uint8_t>(tile.count(), 1), next_, expr.place, 0};
    if (part != nullptr) whole = {std::move(whole.elements), part->statement, part->buffer, part->element};
    for (size_t i = 0; i < places.lanes.size(); ++i)
        whole.elements[places.lanes[i]] = part == nullptr ? 0 : part->elements[i];
    tile.unwritten = std::make_shared<const Unwritten>(std::move(whole));
    return tile;
}

void TileMachine::masked_store(const kpu::kernel::CodeStatement& s, const kpu::kernel::TileStatement& t) {
    const Tile tile = value(t.expr[2]), mask = deciding(t.expr[1]);
    const MaskedPlaces places = masked_places(s.buffer, t.expr[0], mask);
    note_leaving(s.buffer, tile);
    touch_each(s.buffer, places, true);
    const unsigned bytes = tile.element_bytes();
    for (size_t i = 0; i < places.lanes.size(); ++i)
        std::memcpy(storage_[s.buffer].data + size_t{places.elements[i]} * bytes,
                    tile.bytes() + size_t{places.lanes[i]} * bytes, bytes);
    if (!unwritten_) return;
    if (tile.unwritten == nullptr) return unwritten_->write(s.buffer, places.elements, nullptr);
    Unwritten part = *tile.unwritten;
    part.elements.clear();
    for (const uint32_t lane : places.lanes) part.elements.push_back(tile.unwritten->elements[lane]);
    unwritten_->write(s.buffer, places.elements, &part);
}

}  // namespace kpu::values::kernel
