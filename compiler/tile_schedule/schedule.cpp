#include "compiler/tile_schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace kpu::tile_schedule {

bool operator==(const Load& a, const Load& b) {
    return std::tie(a.tensor_id, a.tile_row, a.tile_col, a.dst_addr, a.bytes, a.buffer) ==
           std::tie(b.tensor_id, b.tile_row, b.tile_col, b.dst_addr, b.bytes, b.buffer);
}

bool operator==(const Execute& a, const Execute& b) {
    return std::tie(a.m, a.n, a.k, a.a_addr, a.b_addr, a.acc_addr, a.buffer) ==
           std::tie(b.m, b.n, b.k, b.a_addr, b.b_addr, b.acc_addr, b.buffer);
}

bool operator==(const Store& a, const Store& b) {
    return std::tie(a.tensor_id, a.tile_row, a.tile_col, a.src_addr, a.bytes, a.activation, a.buffer) ==
           std::tie(b.tensor_id, b.tile_row, b.tile_col, b.src_addr, b.bytes, b.activation, b.buffer);
}

std::string_view name_of(Role role) {
    static constexpr std::string_view names[] = {"any", "input", "weight", "intermediate", "output"};
    return names[static_cast<size_t>(role)];
}

const Tensor* Header::find(uint32_t id) const {
    if (id < tensors.size() && tensors[id].id == id) return &tensors[id];
    const auto place =
        std::lower_bound(tensors.begin(), tensors.end(), id,
                         [](const Tensor& tensor, uint32_t wanted) { return tensor.id < wanted; });
    return place != tensors.end() && place->id == id ? &*place : nullptr;
}

namespace {

/// Names become file names, words of the text form and arguments NAME=FILE.
bool is_name(std::string_view name) {
    constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    return !name.empty() && name.size() <= 200 && letters.find(name.front()) != std::string_view::npos &&
           name.find_first_not_of(std::string(letters) + ".:-") == std::string_view::npos;
}

}  // namespace

std::string why_not_tile(uint64_t tile) {
    if (tile >= 1 && tile <= largest_tile) return {};
    return fmt::format("the tile size is {}. Fix: give 1 to {}.", tile, largest_tile);
}

std::string why_not_elem(ElemType elem) {
    if (elem == ElemType::f32 || elem == ElemType::f16 || elem == ElemType::bf16 || elem == ElemType::i8)
        return {};
    return fmt::format("the tile type is {}. Fix: f32, f16, bf16 or i8.", name_of(elem));
}

std::string why_not_tensor(const Tensor& tensor, const Format& format) {
    if (!is_name(tensor.name))
        return fmt::format(
            "tensor {} has no name that files can carry. Fix: 1 to 200 letters, digits, _ . : -, a letter, a "
            "digit or _ first.",
            tensor.id);
    if (tensor.rows == 0 || tensor.cols == 0 || tensor.rows > largest_side || tensor.cols > largest_side)
        return fmt::format("tensor `{}` has {} rows and {} columns. Fix: give 1 to {} of each.", tensor.name,
                           tensor.rows, tensor.cols, largest_side);
    const uint64_t bytes =
        tensor.tile_rows(format.tile) * tensor.tile_cols(format.tile) * format.elements() * 4;
    if (bytes > largest_tensor)
        return fmt::format("tensor `{}` takes {} bytes; at most {} are taken. Fix: split it.", tensor.name,
                           bytes, largest_tensor);
    const ElemType elem = tensor.elem;
    const bool fits =
        format.elem == ElemType::i8 ? elem == ElemType::i8 || elem == ElemType::i32 : is_float(elem);
    if (!fits)
        return fmt::format("tensor `{}` is {}, its tiles are {}. Fix: a tensor of {} tiles is {}.",
                           tensor.name, name_of(elem), name_of(format.elem), name_of(format.elem),
                           format.elem == ElemType::i8 ? "i8 or i32" : "f32, f16 or bf16");
    if (tensor.scale != 0 && (elem != ElemType::i8 || !std::isfinite(tensor.scale) || tensor.scale < 0))
        return fmt::format("tensor `{}` ({}) has scale {}. Fix: a positive number, for i8 only.", tensor.name,
                           name_of(elem), tensor.scale);
    return {};
}

namespace {

std::string tensor_name(uint32_t id, const Header& header) {
    const Tensor* tensor = header.find(id);
    return tensor != nullptr ? tensor->name : fmt::format("tensor {}", id);
}

}  // namespace

std::string describe(const Op& op, const Header& header) {
    if (const auto* load = std::get_if<Load>(&op)) {
        return fmt::format("LOAD {}[{},{}]", tensor_name(load->tensor_id, header), load->tile_row,
                           load->tile_col);
    }
    if (const auto* execute = std::get_if<Execute>(&op)) {
        return fmt::format("EXECUTE ({},{},{})", execute->m, execute->n, execute->k);
    }
    const auto& store = std::get<Store>(op);
    return fmt::format("STORE {}[{},{}]", tensor_name(store.tensor_id, header), store.tile_row,
                       store.tile_col);
}

}  // namespace kpu::tile_schedule
