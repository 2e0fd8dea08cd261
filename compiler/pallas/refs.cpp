// Loads, stores, copies and semaphores: refs and what indexes them.
#include "base/diagnostics.hpp"
#include "compiler/pallas/body.hpp"

namespace kpu::compiler::pallas {
namespace {

int64_t count_of(const Shape& shape) { return kernel::elements_of(shape); }

Shape strides_of(const Shape& shape) {
    Shape strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    return strides;
}

}  // namespace

RefPlace Body::scratch(const VariableType& type, const std::string& name) {
    RefPlace place;
    place.type = type.type;
    place.shape = type.shape;
    place.buffer = out_.buffer(name, "workgroup", type.is_semaphore ? Type::u32 : stored(type.type),
                               count_of(type.shape));
    return place;
}

const RefPlace& Body::place(const Equation& e, const Ref& ref) const {
    const auto found = refs_.find(ref.variable);
    if (found == refs_.end())
        refuse(e, fmt::format("ref {} has no storage here. Fix: export it again.", ref.variable));
    return found->second;
}

/// Applies as much of the transforms as makes a window.
RefView Body::view(const Equation& e, const Ref& ref) const {
    RefView view;
    view.place = &place(e, ref);
    for (const int64_t size : view.place->shape) view.dims.push_back({{}, size, 1, false, size});
    for (const Transform& transform : ref.at) {
        if (transform.kind == Transform::Kind::reshape && view.reshape(transform.numbers)) {
            ++view.applied;
            continue;
        }
        if (transform.kind != Transform::Kind::index) break;
        bool plain = true;
        for (const IndexDim& dim : transform.dims)
            plain = plain && (dim.start.is_literal() || type_of(dim.start).shape.empty());
        if (!plain) break;
        size_t next = 0;
        for (RefView::Dim& dim : view.dims) {
            if (dim.dropped) continue;
            if (next == transform.dims.size()) refuse(e, "too few indices. Fix: export it again.");
            const IndexDim& at = transform.dims[next++];
            Sum start;
            if (at.start.is_literal())
                start.number = at.start.type == Type::i32
                                   ? static_cast<int32_t>(static_cast<uint32_t>(at.start.bits))
                                   : static_cast<int64_t>(at.start.bits);
            else
                start.expression = index(at.start);
            dim.start = dim.start.plus(start, dim.stride);
            dim.size = at.slice ? at.size : 1;
            dim.stride *= at.slice ? at.stride : 1;
            dim.dropped = !at.slice;
        }
        if (next != transform.dims.size()) refuse(e, "too many indices. Fix: export it again.");
        ++view.applied;
    }
    return view;
}

std::string Body::direct_load(const RefView& view, const std::string& mask) {
    std::string value =
        fmt::format("{}[{}{}{}]", view.place->buffer, view.window(), mask.empty() ? "" : ", ", mask);
    value = loaded(view.place->type, value);
    return view.is_whole() ? value : fmt::format("reshape{}({})", braces(view.shape()), value);
}

void Body::direct_store(const RefView& view, const std::string& value, const std::string& mask) {
    std::string stored =
        view.is_whole() ? value : fmt::format("reshape{}({})", braces(view.window_shape()), value);
    stored = to_store(view.place->type, stored);
    if (mask.empty())
        out_.line("{}[{}] = {}", view.place->buffer, view.window(), stored);
    else
        out_.line("masked_store({}, {}, {}, {})", view.place->buffer, view.window(), mask, stored);
}

/// Returns an operand as the mask of a window.
std::string Body::mask(const Equation& e, size_t at, const RefView& view) {
    const Shape own = type_of(operand(e, at)).shape, whole = view.window_shape();
    const std::string value = in(e, at);
    if (own.empty() && !whole.empty()) return fmt::format("broadcast_to{}({})", braces(whole), value);
    if (own != view.shape()) refuse(e, "a mask of another shape. Fix: use one of the shape of the access.");
    return own == whole ? value : fmt::format("reshape{}({})", braces(whole), value);
}

/// Loads with a mask. After transforms that are no window all of it moves, and the mask selects.
void Body::masked_load(const Equation& e, const Ref& ref) {
    const RefView from = view(e, ref);
    const bool direct = !from.place->in_ddr && from.applied == ref.at.size();
    const std::string value = direct ? direct_load(from, mask(e, 0, from)) : load(e, ref);
    result(e, e.in.size() > 1 ? fmt::format("select({}, {}, {})", in(e, 0), value, spread(e, 1)) : value);
}

void Body::masked_store(const Equation& e, const Ref& ref) {
    const RefView to = view(e, ref);
    const bool direct = !to.place->in_ddr && to.applied == ref.at.size();
    if (direct) {
        const std::string which = mask(e, 1, to);
        if (!e.out.empty()) result(e, direct_load(to, which));
        return direct_store(to, in(e, 0), which);
    }
    const std::string old = out_.let(load(e, ref));
    store(e, ref, out_.let(fmt::format("select({}, {}, {})", in(e, 1), in(e, 0), old)));
    if (!e.out.empty()) name_variable(e.out[0], old);
}

std::string Body::load(const Equation& e, const Ref& ref) {
    const RefView from = view(e, ref);
    if (from.place->in_ddr)
        refuse(e,
               "Buffers with a memory space of HBM or ANY cannot be referenced directly. Fix: copy it to "
               "VMEM first, with pltpu.sync_copy or make_async_copy.");
    if (from.applied == ref.at.size()) return direct_load(from);
    Value value{out_.let(direct_load(from)), from.place->type, from.shape()};
    for (size_t i = from.applied; i < ref.at.size(); ++i) value = transformed(e, value, ref.at[i]);
    return value.name;
}

void Body::store(const Equation& e, const Ref& ref, const std::string& value) {
    const RefView to = view(e, ref);
    if (to.place->in_ddr)
        refuse(e,
               "Buffers with a memory space of HBM or ANY cannot be referenced directly. Fix: copy it from "
               "VMEM, with pltpu.sync_copy or make_async_copy.");
    if (to.applied == ref.at.size()) return direct_store(to, value);
    // what the transforms see, then the new value the way back through them
    std::vector<Value> values{{out_.let(direct_load(to)), to.place->type, to.shape()}};
    for (size_t i = to.applied; i < ref.at.size(); ++i)
        values.push_back(transformed(e, values.back(), ref.at[i]));
    values.back().name = out_.let(value);
    for (size_t i = ref.at.size(); i-- > to.applied;) {
        Value& before = values[i - to.applied];
        before.name = out_.let(untransformed(e, before, ref.at[i], values[i - to.applied + 1]));
    }
    direct_store(to, values.front().name);
}

/// Returns, for an indexer with arrays or strides on a value, the row-major place of each element of the
/// result.
Body::Value Body::places_of(const Equation& e, const Shape& shape, const Transform& transform) {
    if (transform.dims.size() != shape.size()) refuse(e, "indices of another rank. Fix: export it again.");
    const Shape strides = strides_of(shape);
    Shape block;  // of the index arrays
    bool adjacent = true;
    int first = -1, last = -1;
    for (size_t i = 0; i < shape.size(); ++i) {
        const IndexDim& dim = transform.dims[i];
        if (dim.slice) continue;
        adjacent = adjacent && (first < 0 || last + 1 == static_cast<int>(i));
        if (first < 0) first = static_cast<int>(i);
        last = static_cast<int>(i);
        const Shape own = type_of(dim.start).shape;
        if (own.size() > block.size()) block.insert(block.begin(), own.size() - block.size(), 1);
        for (size_t d = 0; d < own.size(); ++d)
            block[block.size() - own.size() + d] = std::max(block[block.size() - own.size() + d], own[d]);
    }
    Value result{"", Type::i32, {}};
    const auto put_block = [&] { result.shape.insert(result.shape.end(), block.begin(), block.end()); };
    size_t block_at = 0;
    std::vector<size_t> slice_at(shape.size(), 0);
    if (first >= 0 && !adjacent) put_block();
    for (size_t i = 0; i < shape.size(); ++i) {
        if (static_cast<int>(i) == first && adjacent) {
            block_at = result.shape.size();
            put_block();
        }
        slice_at[i] = result.shape.size();
        if (transform.dims[i].slice) result.shape.push_back(transform.dims[i].size);
    }
    result.name = out_.let(fmt::format("broadcast_to{}(0i32)", braces(result.shape)));
    for (size_t i = 0; i < shape.size(); ++i) {
        const IndexDim& dim = transform.dims[i];
        std::string part = index(dim.start);
        if (dim.slice) {
            Shape numbers{static_cast<int64_t>(slice_at[i])};
            numbers.insert(numbers.end(), result.shape.begin(), result.shape.end());
            part = fmt::format("({} + iota{{i32, {}}}() * {})", part, join(numbers), index_text(dim.stride));
        } else if (const Shape own = type_of(dim.start).shape; !own.empty()) {
            Shape numbers = result.shape;
            for (size_t d = 0; d < own.size(); ++d)
                numbers.push_back(static_cast<int64_t>(block_at + block.size() - own.size() + d));
            part = fmt::format("broadcast_to{{{}}}({})", join(numbers), part);
        }
        result.name = out_.let(fmt::format("{} + {} * {}", result.name, part, index_text(strides[i])));
    }
    return result;
}

void Body::check_permutation(const Equation& e, size_t rank, const Shape& numbers) const {
    std::vector<bool> seen(rank);
    bool good = numbers.size() == rank;
    for (size_t i = 0; good && i < rank; ++i) {
        const auto from = static_cast<size_t>(numbers[i]);
        good = from < rank && !seen[from];
        if (good) seen[from] = true;
    }
    if (!good) refuse(e, "no permutation of the dimensions of its ref. Fix: export it again.");
}

Body::Value Body::transformed(const Equation& e, const Value& x, const Transform& transform) {
    Value result = x;
    switch (transform.kind) {
        case Transform::Kind::bitcast: {
            result.type = transform.type;
            const int64_t from = kernel::tile_bits(x.type), to = kernel::tile_bits(transform.type);
            if (from != to && x.shape.size() >= 2)
                result.shape[x.shape.size() - 2] = x.shape[x.shape.size() - 2] * from / to;
            result.name = out_.let(fmt::format("bitcast{{{}}}({})", kernel::name_of(transform.type), x.name));
            break;
        }
        case Transform::Kind::reshape:
            result.shape = transform.numbers;
            result.name = out_.let(fmt::format("reshape{}({})", braces(transform.numbers), x.name));
            break;
        case Transform::Kind::transpose:
            check_permutation(e, x.shape.size(), transform.numbers);
            for (size_t i = 0; i < x.shape.size(); ++i)
                result.shape[i] = x.shape[static_cast<size_t>(transform.numbers[i])];
            result.name = out_.let(fmt::format("transpose{}({})", braces(transform.numbers), x.name));
            break;
        case Transform::Kind::index: {
            const Value places = places_of(e, x.shape, transform);
            result.shape = places.shape;
            result.name = out_.let(fmt::format(
                "reshape{}(permute{{0}}(reshape{{{}}}({}), reshape{{{}}}({})))", braces(places.shape),
                count_of(x.shape), x.name, count_of(places.shape), places.name));
            break;
        }
    }
    return result;
}

/// Returns `before` with the part that the transform sees replaced by `after`.
std::string Body::untransformed(const Equation& e, const Value& before, const Transform& transform,
                                const Value& after) {
    switch (transform.kind) {
        case Transform::Kind::bitcast:
            return fmt::format("bitcast{{{}}}({})", kernel::name_of(before.type), after.name);
        case Transform::Kind::reshape:
            return fmt::format("reshape{}({})", braces(before.shape), after.name);
        case Transform::Kind::transpose: {
            Shape back(transform.numbers.size());
            for (size_t i = 0; i < back.size(); ++i)
                back[static_cast<size_t>(transform.numbers[i])] = static_cast<int64_t>(i);
            return fmt::format("transpose{}({})", braces(back), after.name);
        }
        case Transform::Kind::index:
            break;
    }
    return fmt::format("scatter({}, {}, {})", before.name, places_of(e, before.shape, transform).name,
                       after.name);
}

bool Body::access(const Equation& e) {
    if (e.op != "get" && e.op != "swap" && e.op != "addupdate" && e.op != "masked_load" &&
        e.op != "masked_swap")
        return false;
    if (e.refs.size() != 1) refuse(e, "it has one ref. Fix: export it again.");
    const Ref& ref = e.refs[0];
    if (e.op == "get") {
        result(e, load(e, ref));
    } else if (e.op == "swap") {
        if (!e.out.empty()) result(e, load(e, ref));
        store(e, ref, in(e, 0));
    } else if (e.op == "addupdate") {
        store(e, ref, out_.let(fmt::format("{} + {}", load(e, ref), in(e, 0))));
    } else if (e.op == "masked_load") {
        masked_load(e, ref);
    } else {
        masked_store(e, ref);
    }
    return true;
}

/// Returns the buffer of a semaphore, and its index there.
std::string Body::semaphore(const Equation& e, const Ref& ref, std::string& index) {
    const RefView at = view(e, ref);
    if (at.place->type != Type::none || at.applied != ref.at.size() || count_of(at.shape()) != 1)
        refuse(e, "no single semaphore. Fix: index the array of semaphores.");
    Shape extents;
    for (const RefView::Dim& dim : at.dims) extents.push_back(dim.extent);
    const Shape strides = strides_of(extents);
    Sum place;
    for (size_t i = 0; i < at.dims.size(); ++i) place = place.plus(at.dims[i].start, strides[i]);
    index = place.text();
    return at.place->buffer;
}

bool Body::copies(const Equation& e) {
    std::string index;
    if (e.op == "dma_start" || e.op == "dma_wait") {
        if (e.refs.size() != 3)
            refuse(e, "it has a source, a destination and a semaphore. Fix: export it again.");
        const RefView from = view(e, e.refs[0]), to = view(e, e.refs[1]);
        const std::string counter = semaphore(e, e.refs[2], index);
        if (from.applied != e.refs[0].at.size() || to.applied != e.refs[1].at.size())
            refuse(e,
                   "a copy between refs that are bitcast, transposed, indexed by arrays, or reshaped where "
                   "dimensions are cut. Fix: slice the refs only.");
        const int64_t bytes = count_of(to.shape()) * kernel::tile_bytes(stored(to.place->type));
        if (e.op == "dma_start")
            out_.line("async_copy({}, {}, {}, {}, {}[{}])", from.place->buffer, to.place->buffer,
                      from.window(), to.window(), counter, index);
        else
            out_.line("wait({}, {}, {})", counter, index, index_text(bytes));
        return true;
    }
    if (e.op != "semaphore_signal" && e.op != "semaphore_wait" && e.op != "semaphore_read") return false;
    if (e.refs.size() != 1) refuse(e, "it has one semaphore. Fix: export it again.");
    const std::string counter = semaphore(e, e.refs[0], index);
    if (e.op == "semaphore_read") {
        result(e, fmt::format("i32({}[{}])", counter, index));
        return true;
    }
    const std::string amount = this->index(operand(e, 0));
    if (e.op == "semaphore_wait") {
        out_.line("wait({}, {}, {})", counter, index, amount);
        if (e.parameters.find("decrement") && !e.flag("decrement"))
            out_.line("signal({}, {}, {})", counter, index, amount);
    } else {
        out_.line("signal({}, {}, {})", counter, index, amount);
    }
    return true;
}

}  // namespace kpu::compiler::pallas
