#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/tile_schedule/schedule.hpp"

namespace kpu::tile_schedule {

/// The tensors of an engine in DRAM: row-major, zero-padded to whole tiles, 64-byte aligned.
class TensorStore {
  public:
    explicit TensorStore(const Format& format) { header_.format = format; }

    /// `elem` none: the tile type. Result: the tensor's id, from 0 up. Throws UserError on a name that is
    /// taken or cannot be, and on sizes and types that cannot be.
    uint32_t register_tensor(const std::string& name, uint64_t rows, uint64_t cols,
                             ElemType elem = ElemType::none, double scale = 0);
    uint32_t name_to_id(std::string_view name) const;  ///< throws UserError, naming the nearest name

    const Header& header() const { return header_; }
    const Tensor& tensor(uint32_t id) const;  ///< throws UserError on an unknown id
    /// Returns the first element of a tile; its rows lie row_bytes(id) apart. Throws UserError outside the
    /// tensor.
    uint8_t* tile_ptr(uint32_t id, uint32_t tile_row, uint32_t tile_col);
    uint64_t row_bytes(uint32_t id) const;  ///< bytes of a padded row

    /// Sets rows x cols elements, row-major, without padding; `bytes` must be their size, else UserError.
    void set_data(uint32_t id, const void* data, uint64_t bytes);
    void get_data(uint32_t id, void* data, uint64_t bytes) const;
    uint64_t dense_bytes(uint32_t id) const;

  private:
    struct Free {
        void operator()(uint8_t* bytes) const;
    };
    Header header_;
    std::vector<std::unique_ptr<uint8_t, Free>> data_;  ///< indexed by id
    std::unordered_map<std::string, uint32_t> ids_;
};

}  // namespace kpu::tile_schedule
