#include <fmt/format.h>

#include <cstring>

#include "base/diagnostics.hpp"
#include "isa/footprint_runs.hpp"
#include "values/compute.hpp"

namespace kpu::values {
namespace {

/// A region's elements as rows of equally spaced elements, dimensions joined where the strides allow.
struct Rows {
    int outer = 0;
    int64_t count[max_rank] = {};
    int64_t stride[max_rank] = {};  ///< elements
    int64_t row_count = 1;          ///< elements of a row
    int64_t row_stride = 1;
};

Rows rows_of(const BoundRegion& region) {
    int64_t count[max_rank] = {};
    int64_t stride[max_rank] = {};
    int rank = 0;
    for (size_t d = 0; d < region.shape.rank; ++d) {
        if (region.shape[d] == 1) continue;
        if (rank > 0 && stride[rank - 1] == region.shape[d] * region.strides[d]) {
            count[rank - 1] *= region.shape[d];
            stride[rank - 1] = region.strides[d];
            continue;
        }
        count[rank] = region.shape[d];
        stride[rank++] = region.strides[d];
    }
    Rows rows;
    if (rank > 0) {
        rows.row_count = count[rank - 1];
        rows.row_stride = stride[rank - 1];
        rows.outer = rank - 1;
    }
    for (int d = 0; d < rows.outer; ++d) {
        rows.count[d] = count[d];
        rows.stride[d] = stride[d];
    }
    return rows;
}

/// visit(first element's offset, dense index) for each row, in index order.
template <class Visit>
void for_each_row(const Rows& rows, Visit visit) {
    int64_t index[max_rank] = {};
    int64_t offset = 0;
    for (int64_t dense = 0;; dense += rows.row_count) {
        visit(offset, dense);
        int d = rows.outer - 1;
        for (; d >= 0; --d) {
            offset += rows.stride[d];
            if (++index[d] < rows.count[d]) break;
            offset -= rows.stride[d] * rows.count[d];
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

template <class T>
void copy_spaced(T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
}

struct Element16 {
    uint8_t bytes[2];
};
struct Element32 {
    uint8_t bytes[4];
};

/// Copies one row between memory and dense form; T has alignment 1, region addresses have none.
template <class T>
void copy_row(uint8_t* to, int64_t to_stride, const uint8_t* from, int64_t from_stride, int64_t count) {
    if (to_stride == 1 && from_stride == 1) {
        std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    } else {
        copy_spaced(reinterpret_cast<T*>(to), to_stride, reinterpret_cast<const T*>(from), from_stride,
                    count);
    }
}

void copy_row(int bytes, uint8_t* to, int64_t to_stride, const uint8_t* from, int64_t from_stride,
              int64_t count) {
    if (bytes == 1) {
        copy_row<uint8_t>(to, to_stride, from, from_stride, count);
    } else if (bytes == 2) {
        copy_row<Element16>(to, to_stride, from, from_stride, count);
    } else {
        copy_row<Element32>(to, to_stride, from, from_stride, count);
    }
}

int read_nibble(const uint8_t* base, int64_t nibble) { return (base[nibble / 2] >> (nibble % 2 * 4)) & 0xf; }

void write_nibble(uint8_t* base, int64_t nibble, uint8_t value) {
    uint8_t& byte = base[nibble / 2];
    const int shift = static_cast<int>(nibble % 2) * 4;
    byte = static_cast<uint8_t>((byte & ~(0xf << shift)) | ((value & 0xf) << shift));
}

void check_inside(const MemoryLevel& level, const RegionView& view) {
    const BoundRegion& region = *view.region;
    int64_t lowest = 0;
    int64_t highest = 0;  // elements
    for (size_t d = 0; region.typed() && d < region.shape.rank; ++d) {
        const int64_t reach = region.strides[d] * (region.shape[d] - 1);
        (reach < 0 ? lowest : highest) += reach;
    }
    const uint64_t bytes =
        region.typed() ? packed_bytes(region.elem, static_cast<uint64_t>(highest) + 1) : region.extent;
    if (lowest < 0 || view.address > level.size() || bytes > level.size() - view.address) {
        throw InternalError(fmt::format("region `{}` at byte {} leaves its memory level of {} bytes",
                                        region.name, view.address, level.size()));
    }
}

void mark_region(MemoryLevel& level, const RegionView& view) {
    for_each_run(footprint_of(view), [&](uint64_t address, uint64_t bytes) {
        level.mark_written(address, bytes);
        return true;
    });
}

void gather_nibbles(const uint8_t* base, const BoundRegion& region, uint8_t* dense) {
    const Rows rows = rows_of(region);
    const int sign = region.elem == ElemType::i4 ? 8 : 0;  // integers are sign-extended, floats are patterns
    for_each_row(rows, [&](int64_t offset, int64_t at) {
        for (int64_t i = 0; i < rows.row_count; ++i) {
            const int value = read_nibble(base, offset + i * rows.row_stride);
            dense[at + i] = static_cast<uint8_t>((value ^ sign) - sign);
        }
    });
}

void scatter_nibbles(MemoryLevel& level, const RegionView& view, const uint8_t* dense) {
    const Rows rows = rows_of(*view.region);
    uint8_t* base = level.data() + view.address;
    for_each_row(rows, [&](int64_t offset, int64_t at) {
        for (int64_t i = 0; i < rows.row_count; ++i) {
            const int64_t nibble = offset + i * rows.row_stride;
            write_nibble(base, nibble, dense[at + i]);
            level.mark_written(view.address + static_cast<uint64_t>(nibble) / 2, 1);
        }
    });
}

}  // namespace

uint64_t dense_bytes(const BoundRegion& region) {
    const auto elements = static_cast<uint64_t>(region.shape.product());
    return shares_bytes(region.elem) ? elements : packed_bytes(region.elem, elements);
}

void gather(const MemoryMap& memory, const RegionView& view, uint8_t* dense) {
    const BoundRegion& region = *view.region;
    if (region.shape.product() == 0) return;
    const MemoryLevel& level = memory.level(region.level, region.engine);
    check_inside(level, view);
    const uint8_t* base = level.data() + view.address;
    if (shares_bytes(region.elem)) return gather_nibbles(base, region, dense);
    const Rows rows = rows_of(region);
    const int bytes = bit_width(region.elem) / 8;
    for_each_row(rows, [&](int64_t offset, int64_t at) {
        copy_row(bytes, dense + at * bytes, 1, base + offset * bytes, rows.row_stride, rows.row_count);
    });
}

void scatter(MemoryMap& memory, const RegionView& view, const uint8_t* dense) {
    const BoundRegion& region = *view.region;
    if (region.shape.product() == 0) return;
    MemoryLevel& level = memory.level(region.level, region.engine);
    check_inside(level, view);
    if (shares_bytes(region.elem)) return scatter_nibbles(level, view, dense);
    uint8_t* base = level.data() + view.address;
    const Rows rows = rows_of(region);
    const int bytes = bit_width(region.elem) / 8;
    for_each_row(rows, [&](int64_t offset, int64_t at) {
        copy_row(bytes, base + offset * bytes, rows.row_stride, dense + at * bytes, 1, rows.row_count);
    });
    mark_region(level, view);
}

}  // namespace kpu::values
