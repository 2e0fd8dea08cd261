#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace kpu {

/// Bytes that travel with a program: weights, mostly. Those of a mapped file are compared with their checksum when
/// somebody first reads them, so that a run without values costs nothing for them.
class DataSection {
  public:
    /// Throws UserError when the bytes are not those that were written.
    using Check = std::function<void(std::string_view)>;

    DataSection() = default;
    static DataSection of(std::string bytes);
    /// Returns the bytes of a mapped file, which `mapping` keeps.
    static DataSection mapped(std::string_view bytes, std::shared_ptr<const void> mapping, Check check);

    /// Makes a section of `size` bytes that nobody made, for a program that only its time is asked of.
    /// Reading them is an InternalError.
    static DataSection promised(uint64_t size);

    uint64_t size() const { return promised_ > 0 ? promised_ : bytes_.size(); }
    /// Throws what the check throws, as the other readers do.
    std::string_view bytes() const;
    /// Passes all bytes to `take` in order; after each block the pages of a mapped file go back to the
    /// system, so that a copy does not hold the bytes twice.
    void read_once(const std::function<void(uint64_t offset, std::string_view block)>& take) const;
    /// Returns the checksum that the container recorded, or else computes that of the bytes.
    uint32_t crc() const;
    void record_crc(uint32_t crc) { recorded_crc_ = crc, has_crc_ = true; }

  private:
    struct Pending;
    void check() const;
    void give_back(std::string_view bytes) const;

    std::string_view bytes_;
    std::shared_ptr<const void> owner_;
    std::shared_ptr<Pending> pending_;  ///< null: bytes of this process
    uint64_t promised_ = 0;
    uint32_t recorded_crc_ = 0;
    bool has_crc_ = false;
};

}  // namespace kpu
