#include "runtime/debug/elements.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/diagnostics.hpp"
#include "runtime/debug/words.hpp"
#include "values/convert.hpp"

namespace kpu::runtime::debug {

using kernel::Shape;
using kernel::Type;

namespace {

constexpr int64_t shown_columns = 6, shown_rows = 4;  ///< before the last one
constexpr int64_t most_elements = 1024;               ///< that one verb shows

/// A range of a dimension from `begin` to before `end`; indices between the first `head` and the last one are
/// left out.
struct Span {
    int64_t begin = 0, end = 0, head = INT64_MAX;
    bool single = false;  ///< given as a number
};

std::vector<int64_t> shown(const Span& span) {
    std::vector<int64_t> places;
    for (int64_t i = span.begin; i < span.end; ++i)
        if (i - span.begin < span.head || i + 1 == span.end) places.push_back(i);
    return places;
}

std::string row_text(const Elements& elements, int64_t first, const Span& columns) {
    std::string text;
    int64_t next = columns.begin;
    for (const int64_t column : shown(columns)) {
        text += text.empty() ? "" : column > next ? " ... " : " ";
        text += elements.element(static_cast<size_t>(first + column));
        next = column + 1;
    }
    return text;
}

/// Returns the lines "[0, 3] 1 2 3", by the places of the dimensions before the last.
std::string rows_text(const Elements& elements, const std::vector<Span>& spans, int64_t head) {
    const std::vector<Span> outer(spans.begin(), spans.end() - 1);
    int64_t rows = 1;
    for (const Span& span : outer) rows *= span.end - span.begin;
    std::string text;
    int64_t next = 0;
    for (const int64_t row : shown({0, rows, head, false})) {
        if (row > next) text += "\n  ...";
        std::vector<int64_t> place(outer.size());
        int64_t left = row, first = 0;
        for (size_t d = outer.size(); d-- > 0;) {
            const int64_t size = outer[d].end - outer[d].begin;
            place[d] = outer[d].begin + left % size;
            left /= size;
        }
        for (size_t d = 0; d < spans.size(); ++d)
            first = first * elements.shape[d] + (d < place.size() ? place[d] : 0);
        const std::string where = place.empty() ? "" : fmt::format("[{}] ", fmt::join(place, ", "));
        text += fmt::format("\n  {}{}", where, row_text(elements, first, spans.back()));
        next = row + 1;
    }
    return text;
}

/// Parses "3", or "0..8" as the loops of kernels write it.
Span span_of(const std::string& text, const std::string& name, const Elements& elements, int64_t size) {
    const size_t dots = text.find("..");
    const uint64_t begin = number_of(text.substr(0, dots));
    const uint64_t end = dots == std::string::npos ? begin + 1 : number_of(text.substr(dots + 2));
    if (begin >= end || end > static_cast<uint64_t>(size))
        throw UserError(fmt::format("`{}` is {}, so `{}` is not a place there. Fix: stay below its sizes.",
                                    name, elements.what, text));
    return {static_cast<int64_t>(begin), static_cast<int64_t>(end), INT64_MAX, dots == std::string::npos};
}

}  // namespace

std::string element_text(Type type, uint64_t bits) {
    switch (type) {
        case Type::boolean:
            return bits != 0 ? "true" : "false";
        case Type::i8:
            return std::to_string(static_cast<int8_t>(bits));
        case Type::i16:
            return std::to_string(static_cast<int16_t>(bits));
        case Type::i32:
            return std::to_string(static_cast<int32_t>(bits));
        case Type::f32:
            return fmt::format("{}", values::float_of(static_cast<uint32_t>(bits)));
        case Type::bytes:
            return fmt::format("0x{:02x}", bits);
        default:
            break;
    }
    if (!values::kernel::computes_wide(type)) return std::to_string(bits);
    const values::kernel::Tile wide = values::kernel::computable(values::kernel::Tile::scalar(type, bits));
    return wide.type == Type::f32 ? fmt::format("{}", wide.as<float>()[0])
                                  : std::to_string(values::kernel::integer_of(wide));
}

Elements elements_of(Type type, Shape shape, const uint8_t* data, unsigned bits) {
    const size_t bytes = std::max(bits / 8, 1u);
    const Type shown = bits < 8 ? Type::bytes : type;  // i4: two elements, as they lie in memory
    std::string what = kernel::tile_text(type, shape);
    return {std::move(what), std::move(shape), [=](size_t i) {
                uint64_t value = 0;
                std::memcpy(&value, data + i * bytes, bytes);
                return element_text(shown, value);
            }};
}

Elements elements_of(const values::kernel::Tile& tile) {
    return elements_of(tile.type, tile.shape, tile.bytes(), 8 * tile.element_bytes());
}

std::string whole_text(const std::string& name, const Elements& elements) {
    const Shape& shape = elements.shape;
    if (shape.empty()) return fmt::format("{} = {}", name, elements.element(0));
    const std::string head = fmt::format("{} = {}", name, elements.what);
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return head;
    std::vector<Span> spans;
    for (const int64_t size : shape) spans.push_back({0, size, INT64_MAX, false});
    spans.back().head = shown_columns;
    return head + rows_text(elements, spans, shown_rows);
}

std::string part_text(const std::string& name, const Elements& elements, const std::string& places) {
    std::vector<Span> spans;
    std::string spaced = places;
    std::replace(spaced.begin(), spaced.end(), ',', ' ');
    const std::vector<std::string> words = words_of(spaced);
    if (words.size() != elements.shape.size() || words.empty())
        throw UserError(fmt::format("`{}` is {}. Fix: give it {}.", name, elements.what,
                                    elements.shape.empty()       ? "no index"
                                    : elements.shape.size() == 1 ? "one index, or a range like 0..8"
                                                                 : "an index or a range like 0..8 for each "
                                                                   "size, with commas"));
    int64_t count = 1, first = 0;
    for (size_t d = 0; d < words.size(); ++d) {
        spans.push_back(span_of(words[d], name, elements, elements.shape[d]));
        count *= spans[d].end - spans[d].begin;
        first = first * elements.shape[d] + spans[d].begin;
    }
    const std::string head = fmt::format("{}[{}] =", name, fmt::join(words, ", "));
    if (count > most_elements)
        throw UserError(fmt::format("{} elements. Fix: ask for {} at most.", count, most_elements));
    const bool in_a_row = std::all_of(spans.begin(), spans.end() - 1, [](const Span& s) { return s.single; });
    if (in_a_row) return head + " " + row_text(elements, first - spans.back().begin, spans.back());
    return head + rows_text(elements, spans, INT64_MAX);
}

}  // namespace kpu::runtime::debug
