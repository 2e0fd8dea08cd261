#include "runtime/schedule_engine/tensor_store.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "base/diagnostics.hpp"
#include "base/text.hpp"

namespace kpu::tile_schedule {
namespace {

uint64_t element_bytes(const Tensor& tensor) { return static_cast<uint64_t>(bit_width(tensor.elem)) / 8; }

}  // namespace

void TensorStore::Free::operator()(uint8_t* bytes) const { std::free(bytes); }

uint32_t TensorStore::register_tensor(const std::string& name, uint64_t rows, uint64_t cols, ElemType elem,
                                      double scale) {
    const Format& format = header_.format;
    if (ids_.count(name) != 0)
        throw UserError(fmt::format("tensor `{}` is registered already. Fix: give another name.", name));
    if (rows > largest_side || cols > largest_side)
        throw UserError(fmt::format("tensor `{}` has {} rows and {} columns. Fix: give 1 to {} of each.",
                                    name, rows, cols, largest_side));
    Tensor tensor;
    tensor.id = static_cast<uint32_t>(header_.tensors.size());
    tensor.name = name;
    tensor.rows = static_cast<uint32_t>(rows);
    tensor.cols = static_cast<uint32_t>(cols);
    tensor.elem = elem == ElemType::none ? format.elem : elem;
    tensor.scale = scale;
    if (const std::string why = why_not_tensor(tensor, format); !why.empty()) throw UserError(why);
    const uint64_t bytes = tensor.tile_rows(format.tile) * tensor.tile_cols(format.tile) * format.elements() *
                           element_bytes(tensor);
    const uint64_t whole = (bytes + address_align - 1) / address_align * address_align;
    std::unique_ptr<uint8_t, Free> data(static_cast<uint8_t*>(std::aligned_alloc(address_align, whole)));
    if (!data) throw UserError(fmt::format("no memory for tensor `{}` of {} bytes.", name, bytes));
    std::memset(data.get(), 0, whole);
    data_.push_back(std::move(data));
    ids_.emplace(name, tensor.id);
    header_.tensors.push_back(std::move(tensor));
    return header_.tensors.back().id;
}

uint32_t TensorStore::name_to_id(std::string_view name) const {
    const auto found = ids_.find(std::string(name));
    if (found != ids_.end()) return found->second;
    std::vector<std::string_view> names;
    for (const Tensor& tensor : header_.tensors) names.push_back(tensor.name);
    const std::string near = nearest_name(name, names);
    throw UserError(fmt::format("there is no tensor `{}`. Fix: {}.", name,
                                near.empty() ? "register it first" : fmt::format("did you mean `{}`", near)));
}

const Tensor& TensorStore::tensor(uint32_t id) const {
    if (id < header_.tensors.size()) return header_.tensors[id];
    throw UserError(fmt::format("there is no tensor {}. Fix: ids go from 0 to {}.", id,
                                static_cast<int64_t>(header_.tensors.size()) - 1));
}

uint64_t TensorStore::row_bytes(uint32_t id) const {
    const Tensor& t = tensor(id);
    return t.tile_cols(header_.format.tile) * header_.format.tile * element_bytes(t);
}

uint8_t* TensorStore::tile_ptr(uint32_t id, uint32_t tile_row, uint32_t tile_col) {
    const Tensor& t = tensor(id);
    const uint32_t tile = header_.format.tile;
    if (tile_row >= t.tile_rows(tile) || tile_col >= t.tile_cols(tile))
        throw UserError(fmt::format("tile [{},{}] is outside tensor `{}`, which has {} x {} tiles.", tile_row,
                                    tile_col, t.name, t.tile_rows(tile), t.tile_cols(tile)));
    return data_[id].get() + uint64_t{tile_row} * tile * row_bytes(id) +
           uint64_t{tile_col} * tile * element_bytes(t);
}

uint64_t TensorStore::dense_bytes(uint32_t id) const {
    const Tensor& t = tensor(id);
    return uint64_t{t.rows} * t.cols * element_bytes(t);
}

void TensorStore::set_data(uint32_t id, const void* data, uint64_t bytes) {
    const Tensor& t = tensor(id);
    if (bytes != dense_bytes(id))
        throw UserError(fmt::format("{} bytes for tensor `{}`, whose {} x {} elements of {} take {}.", bytes,
                                    t.name, t.rows, t.cols, name_of(t.elem), dense_bytes(id)));
    const uint64_t line = t.cols * element_bytes(t), padded = row_bytes(id);
    for (uint64_t row = 0; row < t.rows; ++row)
        std::memcpy(data_[id].get() + row * padded, static_cast<const uint8_t*>(data) + row * line, line);
}

void TensorStore::get_data(uint32_t id, void* data, uint64_t bytes) const {
    const Tensor& t = tensor(id);
    if (bytes != dense_bytes(id))
        throw UserError(fmt::format("room of {} bytes for tensor `{}`, whose {} x {} elements of {} take {}.",
                                    bytes, t.name, t.rows, t.cols, name_of(t.elem), dense_bytes(id)));
    const uint64_t line = t.cols * element_bytes(t), padded = row_bytes(id);
    for (uint64_t row = 0; row < t.rows; ++row)
        std::memcpy(static_cast<uint8_t*>(data) + row * line, data_[id].get() + row * padded, line);
}

}  // namespace kpu::tile_schedule
