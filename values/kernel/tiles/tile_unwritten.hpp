#pragma once
// Which elements of buffers and values depend on memory that nobody wrote. Such memory reads as 0; what matters is where
// its elements end up.
#include <optional>

#include "values/kernel/tiles/tile_window.hpp"

namespace kpu::kernel {
struct Code;
}

namespace kpu::values::kernel {

/// Elements of a value that depend on what nobody wrote.
struct Unwritten {
    std::vector<uint8_t> elements;  ///< 0: it does not
    uint32_t statement = 0;         ///< that read it
    uint32_t buffer = 0;
    uint64_t element = 0;  ///< the buffer's element; the first of them
};

/// The same of buffers: of workgroup memory that is read, and of outputs, which start as zeros.
class UnwrittenMap {
  public:
    explicit UnwrittenMap(const kpu::kernel::Code& code);

    /// Returns the first element of a buffer that nobody wrote; none: all of it was written, or nobody looks.
    std::optional<uint64_t> first_left(uint32_t buffer) const;

    /// Returns what a statement reads unwritten there; null: all of it was written.
    std::shared_ptr<const Unwritten> read(uint32_t statement, const ByteWindow& window) const;
    /// `part`: of the value that is written there; null: none.
    void write(const ByteWindow& window, const Unwritten* part);
    void forget(const ByteWindow& window);
    /// Returns the same for a list of elements.
    std::shared_ptr<const Unwritten> read(uint32_t statement, uint32_t buffer,
                                          const std::vector<uint32_t>& elements) const;
    void write(uint32_t buffer, const std::vector<uint32_t>& elements, const Unwritten* part);

  private:
    struct Buffer {
        std::vector<uint8_t>
            elements;       ///< 0 written, 1 not, 2 written with what depends on others that are not
        uint64_t left = 0;  ///< number of those that are not 0
        Unwritten last;     ///< where the last of those came from
        void set(size_t element, uint8_t state);
    };
    class Reader;
    std::vector<Buffer> buffers_;
};

/// Returns the unwritten elements of an operation's result; null: none. `in` as operate() gets it.
std::shared_ptr<const Unwritten> unwritten_of(const TileExpr& expr, const std::vector<Tile>& in);

}  // namespace kpu::values::kernel
