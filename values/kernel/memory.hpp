#pragma once

#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "isa/kernel/code.hpp"

namespace kpu::values::kernel {

using kpu::kernel::Code;
using kpu::kernel::CodeBuffer;
using kpu::kernel::ExprIndex;
using kpu::kernel::Type;

struct Bytes {
    uint8_t* data = nullptr;
    uint64_t size = 0;
};

/// An access outside its buffer: a load gives 0, a store is dropped, a copy is filled with zeros or cut.
struct OutsideAccess {
    uint32_t statement = 0;
    uint32_t buffer = 0;
    const char* what = "";     ///< "load", "store", "atomic", "copy"
    uint64_t first_index = 0;  ///< index of the first such access; bytes of a copy
    uint64_t count = 0;
};

/// The buffers of a running kernel. Workgroup buffers are its own; the others belong to the caller.
class Memory {
  public:
    /// `storage`: one for each buffer of the code that is not workgroup memory, in order. Throws UserError when
    /// one is too short.
    Memory(const Code& code, const std::vector<Bytes>& storage);

    /// Zeros, as at the start of every workgroup.
    void clear_workgroup();
    uint64_t length(uint32_t buffer) const { return slots_[buffer].length; }
    const Bytes& bytes(uint32_t buffer) const { return slots_[buffer].bytes; }
    bool inside(uint32_t buffer, uint64_t index) const { return index < slots_[buffer].length; }

    uint64_t load(uint32_t buffer, uint64_t index) const;  ///< inside
    void store(uint32_t buffer, uint64_t index, uint64_t bits);

    /// `site` tells apart accesses of one statement.
    void note_outside(const char* what, uint32_t statement, ExprIndex site, uint32_t buffer, uint64_t index,
                      uint64_t count = 1);
    /// Returns the accesses outside of buffers in order of statement and site.
    std::vector<OutsideAccess> outside() const;

  private:
    struct Slot {
        Bytes bytes;
        uint64_t length = 0;  ///< elements
        Type type = Type::none;
    };
    std::vector<Slot> slots_;
    std::vector<uint8_t> workgroup_;
    std::map<std::pair<uint32_t, ExprIndex>, OutsideAccess> outside_;
};

/// A copy between its start and its wait.
struct Copy {
    bool pending = false;
    uint32_t destination = 0;
    uint64_t from = 0, start = 0;  ///< byte of the source and of the destination
    uint32_t statement = 0;
    std::vector<uint8_t> payload;  ///< as far as the destination has room
    uint64_t bytes = 0;            ///< asked for
};
/// Reads the source; `offset` and `size` are those of the statement.
Copy start_copy(const Code& code, Memory& memory, uint32_t statement, uint64_t offset, uint64_t size);
void finish_copy(Copy& copy, Memory& memory);

inline uint64_t Memory::load(uint32_t buffer, uint64_t index) const {
    const Slot& slot = slots_[buffer];
    switch (kpu::kernel::storage_bits(slot.type)) {
        case 8:
            return slot.bytes.data[index];
        case 16: {
            uint16_t half;
            std::memcpy(&half, slot.bytes.data + 2 * index, sizeof half);
            return half;
        }
        case 64: {
            uint64_t word;
            std::memcpy(&word, slot.bytes.data + 8 * index, sizeof word);
            return word;
        }
        default: {
            uint32_t word;
            std::memcpy(&word, slot.bytes.data + 4 * index, sizeof word);
            if (slot.type == Type::f32) return kpu::kernel::canonical(word);
            return slot.type == Type::boolean ? uint64_t{word != 0} : word;
        }
    }
}

inline void Memory::store(uint32_t buffer, uint64_t index, uint64_t bits) {
    const Slot& slot = slots_[buffer];
    switch (kpu::kernel::storage_bits(slot.type)) {
        case 8:
            slot.bytes.data[index] = static_cast<uint8_t>(bits);
            return;
        case 16:
            std::memcpy(slot.bytes.data + 2 * index, &bits, 2);
            return;
        case 64:
            std::memcpy(slot.bytes.data + 8 * index, &bits, 8);
            return;
        default: {
            auto word = static_cast<uint32_t>(bits);
            if (slot.type == Type::f32) word = kpu::kernel::canonical(word);
            std::memcpy(slot.bytes.data + 4 * index, &word, sizeof word);
        }
    }
}

}  // namespace kpu::values::kernel
