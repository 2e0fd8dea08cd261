#include "compiler/memory/views.hpp"

#include <algorithm>

namespace kpu::compiler {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

std::optional<Dims> reshaped(const Dims& from, const Dims& strides, const Dims& to) {
    std::vector<std::pair<int64_t, int64_t>>
        runs;  // sizes and strides of dimensions, neighbours joined, the last one first
    for (size_t d = from.rank; d-- > 0;) {
        if (from[d] == 1) continue;
        if (!runs.empty() && runs.back().first * runs.back().second == strides[d]) {
            runs.back().first *= from[d];
        } else {
            runs.emplace_back(from[d], strides[d]);
        }
    }
    Dims result = row_major(to);
    size_t run = 0;
    int64_t inside = 1;  // elements of the run that later dimensions show
    for (size_t d = to.rank; d-- > 0;) {
        if (to[d] == 1) continue;
        if (run < runs.size() && inside == runs[run].first) {
            ++run;
            inside = 1;
        }
        if (run == runs.size() || runs[run].first % (inside * to[d]) != 0) return std::nullopt;
        result[d] = runs[run].second * inside;
        inside *= to[d];
    }
    return result;
}

namespace {

/// True if a reshape only cuts dimensions: any window shows its elements so.
bool cuts_dimensions(const Dims& from, const Dims& to) {
    size_t d = 0;
    for (const int64_t size : from) {
        int64_t product = 1;
        while (product < size && d < to.rank) product *= to[d++];
        if (product != size) return false;
        while (d < to.rank && to[d] == 1) ++d;
    }
    return d == to.rank;
}

}  // namespace

Views::Views(const Graph& graph, const Room& room)
    : graph_(graph), producers_(graph::producers(graph)), room_(room), views_(graph.values.size()) {
    for (const graph::Port& port : graph.inputs) inputs_.insert(port.value);
    for (const graph::Port& port : graph.outputs) outputs_.insert(port.value);
    for (const Node& node : graph.nodes) {
        if (is(node, "concat")) find_sinks(node);
        if (is(node, "choose")) find_forms(node);
        if (is(node, "insert_rows")) find_rows(node);
    }
}

bool Views::sunk(const Node& concat, size_t input) {
    const auto found = sinks_.find(concat.inputs[input]);
    if (found != sinks_.end()) return found->second.into == concat.outputs[0] && found->second.input == input;
    const auto whole = updated_.find(concat.outputs[0]);
    return whole != updated_.end() && slice_of(concat.inputs[input]) == whole->second;
}

const View& Views::view(ValueId value) {
    if (!views_[value]) views_[value] = make(value);
    return *views_[value];
}

bool Views::made(ValueId value) const {
    const int32_t producer = producers_[value];
    if (producer < 0 || is_fixed(value)) return false;
    const Node& node = graph_.nodes[static_cast<size_t>(producer)];
    return joins(node) || !renames(graph_, node);
}

std::optional<ValueId> Views::behind(ValueId value) const {
    const int32_t producer = producers_[value];
    if (producer < 0 || is_fixed(value)) return std::nullopt;
    const Node& node = graph_.nodes[static_cast<size_t>(producer)];
    if (!is(node, "reshape")) return std::nullopt;
    const ValueId x = node.inputs[0];
    const bool open = made(x) && sinks_.count(x) == 0 && shown_.count(x) == 0;
    const Dims from = shape_of(graph_.value(value)), to = shape_of(graph_.value(x));
    return open && cuts_dimensions(from, to) ? std::optional(x) : std::nullopt;
}

std::optional<ValueId> Views::slice_of(ValueId value) const {
    const int32_t producer = producers_[value];
    if (producer < 0) return std::nullopt;
    const Node& node = graph_.nodes[static_cast<size_t>(producer)];
    return is(node, "slice") ? std::optional(node.inputs[0]) : std::nullopt;
}

std::optional<ValueId> Views::updated_by(const Node& concat, size_t axis) const {
    const Dims whole = shape_of(graph_.value(concat.outputs[0]));
    std::optional<ValueId> updated;
    std::set<ValueId> parts;
    int64_t at = 0;
    for (const ValueId part : concat.inputs) {
        const Dims shape = shape_of(graph_.value(part));
        if (const std::optional<ValueId> x = slice_of(part); x && inputs_.count(*x) > 0) {
            const Node& slice = graph_.nodes[static_cast<size_t>(producers_[part])];
            const SliceRange range = slice_ranges(shape_of(graph_.value(*x)), slice.attrs)[axis];
            const bool there = range.first == at && range.step == 1 && shape_of(graph_.value(*x)) == whole;
            if (!there || (updated && *updated != *x) || outputs_.count(*x) > 0) return std::nullopt;
            updated = x;
            parts.insert(part);
        }
        at += shape[axis];
    }
    if (!updated) return std::nullopt;
    for (const Node& node : graph_.nodes) {
        const bool reads = std::count(node.inputs.begin(), node.inputs.end(), *updated) > 0;
        if (reads && parts.count(node.outputs[0]) == 0) return std::nullopt;
    }
    return updated;
}

void Views::find_sinks(const Node& concat) {
    const size_t axis = axis_of(shape_of(graph_.value(concat.outputs[0])), concat.attrs);
    const bool output = outputs_.count(concat.outputs[0]) > 0;
    if (const std::optional<ValueId> x = output ? updated_by(concat, axis) : std::nullopt) {
        updated_[concat.outputs[0]] = *x;
        sinks_[*x] = {concat.outputs[0], concat.inputs.size(), 0, axis};
    }
    int64_t offset = 0;
    for (size_t i = 0; i < concat.inputs.size(); ++i) {
        const ValueId value = concat.inputs[i];
        const std::optional<ValueId> x = behind(value);
        const bool given = output && inputs_.count(value) > 0 && outputs_.count(value) == 0;
        if (((made(value) && shown_.count(value) == 0) || x || given) && sinks_.count(value) == 0) {
            sinks_[value] = {concat.outputs[0], i, offset, axis};
            if (x) shown_.emplace(*x, value);
        }
        offset += shape_of(graph_.value(value))[axis];
    }
}

void Views::find_forms(const Node& choose) {
    for (size_t i = 0; i < choose.inputs.size(); ++i) {
        const ValueId value = choose.inputs[i];
        const std::optional<ValueId> x = behind(value);
        if (!x && !(made(value) && shown_.count(value) == 0)) continue;
        if (!sinks_.emplace(value, Sink{choose.outputs[0], i, 0, 0, 0}).second) continue;
        if (x) shown_.emplace(*x, value);
    }
}

void Views::find_rows(const Node& insert) {
    const ValueId cache = insert.inputs[0], rows = insert.inputs[1], whole = insert.outputs[0];
    const size_t axis = axis_of(shape_of(graph_.value(whole)), insert.attrs);
    const bool of_host = inputs_.count(cache) > 0 && outputs_.count(cache) == 0 && outputs_.count(whole) > 0;
    const auto reads = [&](const Node& node) {
        return &node != &insert && std::count(node.inputs.begin(), node.inputs.end(), cache) > 0;
    };
    const bool alone = std::none_of(graph_.nodes.begin(), graph_.nodes.end(), reads);
    if (alone && (of_host || (made(cache) && shown_.count(cache) == 0)))
        sinks_.emplace(cache, Sink{whole, 0, 0, axis, 0});
    if (made(rows) && shown_.count(rows) == 0) sinks_.emplace(rows, Sink{whole, 1, 0, axis, 1});
}

View Views::make(ValueId value) {
    if (const auto sink = sinks_.find(value); sink != sinks_.end()) {
        View result = view(sink->second.into);
        result.offset += sink->second.offset * result.strides[sink->second.axis];
        result.per_position += sink->second.per_position * result.strides[sink->second.axis];
        return result;
    }
    if (const auto shown = shown_.find(value); shown != shown_.end()) {
        View result = view(shown->second);
        const Dims from = shape_of(graph_.value(shown->second)), to = shape_of(graph_.value(value));
        result.strides = *reshaped(from, result.strides, to);
        return result;
    }
    const int32_t producer = producers_[value];
    if (producer >= 0) {
        const Node& node = graph_.nodes[static_cast<size_t>(producer)];
        if (renames(graph_, node) && !joins(node)) return renamed(node, value);
    }
    return stored(value);
}

View Views::stored(ValueId id) {
    const graph::Value& value = graph_.value(id);
    Storage storage;
    storage.name = value.name;
    storage.elem = value.elem;
    storage.bytes = std::max<uint64_t>(1, packed_bytes(value.elem, value.elements()));
    View view{static_cast<uint32_t>(storages_.size()), 0, row_major(shape_of(value))};
    if (const std::optional<Dims> apart = rows_apart(id)) {
        view.strides = *apart;
        storage.bytes += storage.bytes / row_bytes(value) * static_cast<uint64_t>(room_.channel);
    }
    storages_.push_back(std::move(storage));
    return view;
}

uint64_t Views::row_bytes(const graph::Value& value) {
    const Dims shape = shape_of(value);
    return static_cast<uint64_t>(shape[shape.rank - 1U] * bit_width(value.elem) / 8);
}

std::optional<Dims> Views::rows_apart(ValueId id) {
    const graph::Value& value = graph_.value(id);
    const Dims shape = shape_of(value);
    int64_t rows = 1;
    bool matrix = true;  // no other dimensions: pixels, whose channels are short rows, follow each other
    for (size_t d = 0; d + 1 < shape.rank; ++d) {
        matrix = matrix && (shape[d] == 1 || rows == 1);
        rows *= shape[d];
    }
    constexpr int64_t long_row = 2;
    const bool in_ddr = packed_bytes(value.elem, value.elements()) > room_.l2;
    const bool alike = in_ddr && room_.channel > 0 && room_.channel < room_.all_channels && rows > 1 &&
                       matrix && bit_width(value.elem) >= 8 && !is_fixed(id) &&
                       static_cast<int64_t>(row_bytes(value)) >= long_row * room_.all_channels &&
                       static_cast<int64_t>(row_bytes(value)) % room_.all_channels == 0;
    if (!alike) return std::nullopt;
    Dims strides = row_major(shape);
    const int64_t length = shape[shape.rank - 1U];
    for (size_t d = 0; d + 1 < shape.rank; ++d)
        strides[d] = strides[d] / length * (length + room_.channel * 8 / bit_width(value.elem));
    return can_be_seen(id, {0, 0, strides}) ? std::optional(strides) : std::nullopt;
}

bool Views::can_be_seen(ValueId id, const View& view) {
    if (users_.empty()) users_ = graph::users(graph_);
    for (const NodeId user : users_[id]) {
        const Node& node = graph_.nodes[user];
        if (!renames(graph_, node) || joins(node)) continue;
        const Dims x = shape_of(graph_.value(id));
        for (const ValueId y : node.outputs) {
            if (is_fixed(y)) return false;
            if (is(node, "reshape") && !reshaped(x, view.strides, shape_of(graph_.value(y)))) return false;
            if (!can_be_seen(y, renamed(node, y, view))) return false;
        }
    }
    return true;
}

View Views::renamed(const Node& node, ValueId value, const View& from) const {
    const Dims x = shape_of(graph_.value(node.inputs[0])), y = shape_of(graph_.value(value));
    View result = from;
    if (is(node, "reshape")) {
        result.strides =
            reshaped(x, from.strides, y).value_or(row_major(y));  // else a copy will stand before it
    } else if (is(node, "transpose")) {
        const std::vector<int64_t>& perm = node.attrs.find("perm")->ints;
        for (size_t d = 0; d < perm.size(); ++d)
            result.strides[d] = from.strides[static_cast<size_t>(perm[d])];
    } else if (is(node, "slice")) {
        const std::vector<SliceRange> ranges = slice_ranges(x, node.attrs);
        for (size_t d = 0; d < x.rank; ++d) {
            result.offset += ranges[d].first * from.strides[d];
            result.strides[d] = from.strides[d] * ranges[d].step;
        }
    } else {  // split
        const size_t axis = axis_of(x, node.attrs);
        for (const ValueId output : node.outputs) {
            if (output == value) break;
            result.offset += shape_of(graph_.value(output))[axis] * from.strides[axis];
        }
    }
    return result;
}

}  // namespace kpu::compiler
