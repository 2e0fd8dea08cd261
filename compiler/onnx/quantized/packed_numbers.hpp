#pragma once
// Weights of com.microsoft, whose numbers of 2, 4 or 8 bits lie several in a byte.
#include <fmt/format.h>

#include <memory>
#include <string_view>

#include "compiler/onnx/call.hpp"

namespace kpu::onnx {

/// Numbers of so many bits, the low ones of a byte first, of a constant of bytes.
class PackedNumbers {
  public:
    PackedNumbers(Call& call, size_t operand, std::string_view role, int64_t bits)
        : bits_(bits), each_(8 / bits) {
        const Operand& given = call.in(operand);
        if (is_real(given.type) || (element_bytes(given.type) != 1 && packed_bits(given.type) == 0))
            Call::refuse(fmt::format("its {} are {}, not bytes", role, name_of(given.type)));
        // as they are in the file: tables of vocabularies have hundreds of millions
        if (given.tensor != nullptr && given.tensor->absent.empty() && element_bytes(given.type) == 1) {
            file_ = given.tensor;
            size_ = file_->data.size;
        } else {
            known_ = &call.known(operand, role);
            size_ = known_->ints.size();
        }
    }
    size_t bytes() const { return size_; }
    /// Returns the number i of a row that begins at a byte.
    int64_t at(int64_t first_byte, int64_t i) const {
        const auto place = static_cast<size_t>(first_byte + i / each_);
        const int64_t byte = file_ != nullptr ? file_->data.bytes[place] : known_->ints[place];
        return byte >> (bits_ * (i % each_)) & ((1 << bits_) - 1);
    }

  private:
    int64_t bits_, each_;
    std::shared_ptr<const Tensor> file_;
    const Known* known_ = nullptr;
    size_t size_ = 0;
};

}  // namespace kpu::onnx
