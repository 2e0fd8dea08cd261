#pragma once
// Tile schedules: a flat list of LOAD, EXECUTE and STORE of square tiles at fixed SRAM addresses
// (tile_schedule.md).
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/types.hpp"

namespace kpu::tile_schedule {

inline constexpr const char* default_platform = "tile32";
constexpr uint64_t address_align = 64;  ///< bytes, of the arena and of every address in it

/// DRAM tile -> arena, in the tile type.
struct Load {
    uint32_t tensor_id = 0;
    uint32_t tile_row = 0, tile_col = 0;
    uint32_t dst_addr = 0;
    uint32_t bytes = 0;
    int32_t buffer = -1;  ///< number of a double buffer, for people; -1: none
};

/// acc += a . b; with k == 0 acc = a . b.
struct Execute {
    uint32_t m = 0, n = 0, k = 0;
    uint32_t a_addr = 0, b_addr = 0, acc_addr = 0;
    int32_t buffer = -1;
};

enum class Activation : uint8_t { none = 0, relu = 1 };

/// Accumulator tile -> DRAM tile; a ReLU happens in the arena, before.
struct Store {
    uint32_t tensor_id = 0;
    uint32_t tile_row = 0, tile_col = 0;
    uint32_t src_addr = 0;
    uint32_t bytes = 0;
    Activation activation = Activation::none;
    int32_t buffer = -1;
};

using Op = std::variant<Load, Execute, Store>;

bool operator==(const Load& a, const Load& b);
bool operator==(const Execute& a, const Execute& b);
bool operator==(const Store& a, const Store& b);

/// Role of a tensor for the host; `any` when nobody said: both may be.
enum class Role : uint8_t { any, input, weight, intermediate, output };
std::string_view name_of(Role role);

/// A row-major matrix in DRAM, zero-padded to whole tiles.
struct Tensor {
    uint32_t id = 0;
    std::string name;
    uint32_t rows = 0, cols = 0;
    Role role = Role::any;
    ElemType elem = ElemType::f32;
    double scale = 0;  ///< real value of one step of i8; 0: not given
    uint64_t tile_rows(uint32_t tile) const { return (uint64_t{rows} + tile - 1) / tile; }
    uint64_t tile_cols(uint32_t tile) const { return (uint64_t{cols} + tile - 1) / tile; }
};

/// Properties that all tiles have in common, and where the arena is.
struct Format {
    uint32_t tile = 32;             ///< rows and columns of a tile
    ElemType elem = ElemType::f32;  ///< type of operands: f32, f16, bf16, i8
    Level arena = Level::l1;        ///< L1[0] or L2
    uint64_t arena_bytes = 0;       ///< 0: all of that level
    ElemType acc_elem() const { return elem == ElemType::i8 ? ElemType::i32 : ElemType::f32; }
    uint32_t elements() const { return tile * tile; }
    uint32_t operand_bytes() const { return elements() * static_cast<uint32_t>(bit_width(elem)) / 8; }
    uint32_t acc_bytes() const { return elements() * 4; }
};

struct Header {
    Format format;
    std::vector<Tensor> tensors;  ///< ascending id, which need not be dense
    const Tensor* find(uint32_t id) const;
};

struct Schedule {
    std::string origin;  ///< file name for messages
    bool has_header = false;
    Header header;
    std::vector<Op> ops;
    std::vector<uint32_t> lines;  ///< line of each op in its text; empty for the other forms
};

constexpr uint32_t largest_tile = 1024;
constexpr uint32_t largest_side = 1u << 24;             ///< rows or columns of a tensor
constexpr uint64_t largest_tensor = uint64_t{1} << 38;  ///< bytes, padded

/// Say why a tile size, a tile type or a tensor cannot be; empty when it can.
std::string why_not_tile(uint64_t tile);
std::string why_not_elem(ElemType elem);
std::string why_not_tensor(const Tensor& tensor, const Format& format);

/// Returns "LOAD x[0,1]", "EXECUTE (0,0,3)", "STORE out[0,0]".
std::string describe(const Op& op, const Header& header);

}  // namespace kpu::tile_schedule
