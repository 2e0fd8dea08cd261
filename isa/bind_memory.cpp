// Buffers get addresses, regions get logical shapes and strides.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/checked.hpp"
#include "isa/binder.hpp"
#include "isa/shapes.hpp"

namespace kpu {
namespace {

constexpr int64_t max_engines = 1024;
constexpr int64_t max_alignment = int64_t{1} << 30;

uint64_t capacity_of(const DeviceLimits& limits, Level level) {
    if (limits.agnostic) return max_level_bytes;
    switch (level) {
        case Level::ddr:
            return std::min(limits.ddr_bytes, max_level_bytes);
        case Level::l2:
            return std::min(limits.l2_bytes, max_level_bytes);
        case Level::l1:
            return std::min(limits.l1_bytes, max_level_bytes);
    }
    return 0;
}

/// Logical order of a tensor written channels first: N C H W -> N H W C.
constexpr std::array<int, 4> nchw_to_logical = {0, 3, 1, 2};

}  // namespace

std::optional<int64_t> reach_bytes(ElemType elem, const Dims& shape, const Dims& strides) {
    int64_t last = 0;
    for (size_t d = 0; d < shape.rank; ++d) {
        const auto step = checked_mul(shape[d] - 1, strides[d]);
        const auto sum = step ? checked_add(last, *step) : std::nullopt;
        if (!sum) return std::nullopt;
        last = *sum;
    }
    if (last > (INT64_MAX >> 8)) return std::nullopt;
    return ((last + 1) * bit_width(elem) + 7) / 8;
}

std::pair<int64_t, int64_t> integer_range(ElemType type) {
    const int bits = bit_width(type);
    const bool is_signed =
        type == ElemType::i4 || type == ElemType::i8 || type == ElemType::i16 || type == ElemType::i32;
    if (is_signed) return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
    return {0, (int64_t{1} << bits) - 1};
}

bool Binder::bind_buffers() {
    const size_t before = diagnostics_.error_count();
    if (!limits_.agnostic) result_.l1_bytes.assign(limits_.num_engines, 0);
    for (size_t i = 0; i < static_cast<size_t>(program_.buffer_size()); ++i) bind_buffer(i);
    return diagnostics_.error_count() == before;
}

void Binder::bind_buffer(size_t index) {
    const proto::Buffer& source = program_.buffer(static_cast<int>(index));
    const SourcePos pos = module_.pos_of_buffer(index);
    const Phrase what{"buffer", source.name(), {}};
    buffer_index_.emplace(source.name(), static_cast<uint32_t>(index));
    BoundBuffer& buffer = result_.buffers.emplace_back();
    buffer.name = source.name();
    buffer.level = static_cast<Level>(source.level());

    int64_t size = 0, align = 1, engine = 0;
    if (!constant_of(source.size(), pos, "size of " + what, size)) return;
    if (source.has_align() && !constant_of(source.align(), pos, "align of " + what, align)) return;
    if (source.has_engine() && !constant_of(source.engine(), pos, "engine of " + what, engine)) return;
    if (size <= 0) return error(pos, fmt::format("{} has size {}. Fix: give at least 1 byte.", what, size));
    if (align <= 0 || (align & (align - 1)) != 0 || align > max_alignment) {
        return error(pos, fmt::format("{} has align {}, not a power of two up to 2^30. Fix: use 1, 2, 4, ...",
                                      what, align));
    }
    const int64_t engines = limits_.agnostic ? max_engines : limits_.num_engines;
    if (engine < 0 || engine >= engines) {
        return error(
            pos, fmt::format("{} is at L1[{}], but {} has {} engine{}. Fix: use L1[0] to L1[{}].", what,
                             engine, limits_.name.empty() ? "a device" : "`" + limits_.name + "`", engines,
                             engines == 1 ? "" : "s", engines - 1));
    }
    buffer.engine = static_cast<uint16_t>(engine);
    buffer.size = static_cast<uint64_t>(size);
    if (buffer.level == Level::l1 && result_.l1_bytes.size() <= static_cast<size_t>(engine)) {
        result_.l1_bytes.resize(static_cast<size_t>(engine) + 1, 0);
    }
    uint64_t& used = buffer.level == Level::ddr  ? result_.ddr_bytes
                     : buffer.level == Level::l2 ? result_.l2_bytes
                                                 : result_.l1_bytes[static_cast<size_t>(engine)];
    const uint64_t mask = static_cast<uint64_t>(align) - 1;
    buffer.base = (used + mask) & ~mask;
    const uint64_t capacity = capacity_of(limits_, buffer.level);
    if (buffer.base > capacity || buffer.size > capacity - buffer.base) {
        const std::string level =
            buffer.level == Level::l1 ? fmt::format("L1[{}]", engine) : std::string(name_of(buffer.level));
        return error(
            pos, fmt::format("{} needs {} bytes at {} of {}, over its capacity of {} bytes. Fix: use smaller "
                             "buffers or a larger device.",
                             what, buffer.size, buffer.base, level, capacity));
    }
    used = buffer.base + buffer.size;
}

bool Binder::bind_regions() {
    const size_t before = diagnostics_.error_count();
    result_.regions.reserve(static_cast<size_t>(program_.region_size()));
    for (size_t i = 0; i < static_cast<size_t>(program_.region_size()); ++i) bind_region(i);
    return diagnostics_.error_count() == before;
}

void Binder::bind_region(size_t index) {
    const proto::Region& source = program_.region(static_cast<int>(index));
    const SourcePos pos = module_.pos_of_region(index);
    const Phrase what{"region", source.name(), {}};
    const BoundBuffer& buffer = result_.buffers[source.buffer()];
    BoundRegion& region = result_.regions.emplace_back();
    region.name = source.name();
    region.buffer = source.buffer();
    region.level = buffer.level;
    region.engine = buffer.engine;
    region.elem = static_cast<ElemType>(source.elem());
    for (const auto* decorators :
         {&program_.buffer(static_cast<int>(source.buffer())).decorator(), &source.decorator()}) {
        for (const proto::Decorator& decorator : *decorators) {
            region.readonly |= decorator.name() == "readonly";
            region.writeonly |= decorator.name() == "writeonly";
            region.materialized |= decorator.name() == "materialized";
        }
    }

    int64_t extent = 0;
    if (!expr_of(source.offset(), pos, "offset of " + what, region.address)) return;
    if (!constant_of(source.extent(), pos, "extent of " + what, extent)) return;
    if (extent <= 0)
        return error(pos, fmt::format("{} has extent {}. Fix: give at least 1 byte.", what, extent));
    region.extent = static_cast<uint64_t>(extent);
    if (region.typed()) {
        if (!bind_shape(source, region, pos, what) || !bind_strides(source, region, pos, what)) return;
        bind_quant(source.quant(), source.layout() == "NCHW", region, pos, what);
        check_extent(region, pos, what);
    }
    const auto base = static_cast<int64_t>(buffer.base);
    if (!region.address.is_constant()) {
        if (region.extent > buffer.size) {
            return error(
                pos, fmt::format(
                         "{} has {} bytes but buffer `{}` has {}. Fix: grow the buffer or shrink the region.",
                         what, region.extent, buffer.name, buffer.size));
        }
        if (base != 0) {  // offset + base, as one more term
            region.address.kinds.insert(region.address.kinds.end(),
                                        {proto::ExprToken::INT, proto::ExprToken::ADD});
            region.address.values.insert(region.address.values.end(), {base, 0});
        }
        return;
    }
    const auto address = checked_add(region.address.constant, base);
    if (!address)
        return error(pos, fmt::format("{} has an offset beyond 64 bits. Fix: use a smaller one.", what));
    region.address.constant = *address;
    try {
        check_region_bounds(result_, static_cast<uint32_t>(index), *address);
    } catch (const UserError& e) {
        error(pos, e.what());
    }
}

bool Binder::bind_shape(const proto::Region& source, BoundRegion& region, const SourcePos& pos,
                        const Phrase& what) {
    const bool channels_first = source.layout() == "NCHW";
    if (channels_first && source.shape_size() != 4) {
        error(pos, fmt::format("{} has layout NCHW but {} dimensions. Fix: give 4, or another layout.", what,
                               source.shape_size()));
        return false;
    }
    region.shape.rank = static_cast<uint8_t>(source.shape_size());
    int64_t elements = 1;
    for (int i = 0; i < source.shape_size(); ++i) {
        int64_t extent = 0;
        if (!constant_of(source.shape(i), pos, "shape of " + what, extent)) return false;
        const auto product = checked_mul(elements, extent);
        if (extent < 1 || !product || *product > static_cast<int64_t>(max_level_bytes)) {
            error(pos, fmt::format("{} has dimension {} of {}. Fix: use sizes from 1 that fit a memory.",
                                   what, i, extent));
            return false;
        }
        elements = *product;
        const int at = channels_first ? nchw_to_logical[static_cast<size_t>(i)] : i;
        region.shape[static_cast<size_t>(at)] = extent;
    }
    return true;
}

bool Binder::bind_strides(const proto::Region& source, BoundRegion& region, const SourcePos& pos,
                          const Phrase& what) {
    const Dims dense = row_major(region.shape);
    region.strides = dense;
    if (source.layout() == "NCHW") {
        const int64_t height = region.shape[1], width = region.shape[2], channels = region.shape[3];
        region.strides[0] = channels * height * width;
        region.strides[1] = width;
        region.strides[2] = 1;
        region.strides[3] = height * width;
    }
    for (int i = 0; i < source.stride_size(); ++i) {
        const auto d = static_cast<size_t>(i);
        if (!constant_of(source.stride(i), pos, "strides of " + what, region.strides[d])) return false;
        if (region.strides[d] < 0) {
            error(pos, fmt::format("{} has stride {} in dimension {}. Fix: strides are in elements, from 0 "
                                   "(repeats) up.",
                                   what, region.strides[d], i));
            return false;
        }
    }
    region.dense = true;
    for (size_t d = 0; d < region.shape.rank; ++d) {
        region.dense = region.dense && (region.shape[d] == 1 || region.strides[d] == dense[d]);
    }
    return true;
}

void Binder::bind_quant(const proto::Quant& source, bool channels_first, BoundRegion& region,
                        const SourcePos& pos, const Phrase& what) {
    BoundQuant& quant = region.quant;
    quant.kind = source.kind();
    if (quant.kind == proto::Quant::NONE) return;
    quant.scales.assign(source.scale().begin(), source.scale().end());
    quant.zero_points.assign(source.zero_point().begin(), source.zero_point().end());
    quant.group_size = source.group_size();
    for (const double scale : quant.scales) {
        if (!(scale > 0 && scale < std::numeric_limits<double>::infinity())) {
            return error(pos, fmt::format("{} has quantization scale {}. Fix: scales are positive numbers.",
                                          what, scale));
        }
    }
    const auto [low, high] =
        is_integer(region.elem) ? integer_range(region.elem) : std::pair<int64_t, int64_t>{0, 0};
    for (const int64_t zero_point : quant.zero_points) {
        if (zero_point < low || zero_point > high) {
            return error(
                pos, fmt::format("{} has zero_point {} outside the range [{}..{}] of {}. Fix: use one its "
                                 "elements can hold.",
                                 what, zero_point, low, high, name_of(region.elem)));
        }
    }
    if (quant.kind == proto::Quant::PER_TENSOR) return;
    const int rank = region.shape.rank;
    const int axis = source.axis() < 0 ? source.axis() + rank : source.axis();
    if (axis < 0 || axis >= rank) {
        return error(pos, fmt::format("{} has quantization axis {} but {} dimensions. Fix: use one of them.",
                                      what, source.axis(), rank));
    }
    quant.axis = channels_first ? nchw_to_logical[static_cast<size_t>(axis)] : axis;
    const int64_t extent = region.shape[static_cast<size_t>(quant.axis)];
    if (quant.kind == proto::Quant::PER_GROUP && quant.group_size <= 0) {
        return error(pos, fmt::format("{}: group_size must be positive, is {}.", what, quant.group_size));
    }
    const int64_t groups =
        quant.kind == proto::Quant::PER_GROUP ? (extent + quant.group_size - 1) / quant.group_size : extent;
    if (static_cast<int64_t>(quant.scales.size()) != groups) {
        error(pos, fmt::format("{} has {} quantization scales, but {} along axis {} (size {}) are needed. "
                               "Fix: give one per channel, or per group.",
                               what, quant.scales.size(), groups, source.axis(), extent));
    }
}

void Binder::check_extent(const BoundRegion& region, const SourcePos& pos, const Phrase& what) {
    const std::optional<int64_t> reach = reach_bytes(region.elem, region.shape, region.strides);
    const auto packed =
        static_cast<int64_t>(packed_bytes(region.elem, static_cast<uint64_t>(region.shape.product())));
    const int64_t needed = reach ? std::max(*reach, region.dense ? packed : int64_t{0}) : INT64_MAX;
    if (needed > static_cast<int64_t>(region.extent)) {
        error(pos, fmt::format(
                       "{} has extent {} but its elements reach byte {}. Fix: give the extent its shape and "
                       "strides need.",
                       what, region.extent, needed));
    }
}

}  // namespace kpu
