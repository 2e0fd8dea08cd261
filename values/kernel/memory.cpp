#include "values/kernel/memory.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kpu::values::kernel {

Memory::Memory(const Code& code, const std::vector<Bytes>& storage) : workgroup_(code.workgroup_bytes() + 8) {
    uint64_t used = 0;
    size_t next = 0;
    for (const CodeBuffer& buffer : code.buffers) {
        Bytes bytes;
        const uint64_t declared = buffer.declared_bytes();
        if (buffer.is_workgroup()) {
            bytes = {workgroup_.data() + used, declared};
            used += declared;
        } else if (next == storage.size()) {
            throw UserError(
                fmt::format("kernel `{}`: missing buffer `{}`. Fix: initialize all declared buffers.",
                            code.name(), buffer.name));
        } else {
            bytes = storage[next++];
        }
        if (bytes.size < declared)
            throw UserError(fmt::format(
                "kernel `{}`: buffer `{}` has {} bytes but requires at least {} bytes ({} "
                "elements of {}). Fix: provide a larger input buffer.",
                code.name(), buffer.name, bytes.size, declared, buffer.count, name_of(buffer.type)));
        slots_.push_back({bytes, buffer.elements_in(bytes.size), buffer.type});
    }
    if (next != storage.size())
        throw UserError(
            fmt::format("kernel `{}`: unused input values supplied. Fix: pass exactly one Value per "
                        "non-workgroup buffer declaration.",
                        code.name()));
}

void Memory::clear_workgroup() { std::fill(workgroup_.begin(), workgroup_.end(), uint8_t{0}); }

void Memory::note_outside(const char* what, uint32_t statement, ExprIndex site, uint32_t buffer,
                          uint64_t index, uint64_t count) {
    const auto [at, inserted] = outside_.try_emplace({statement, site});
    if (inserted) at->second = {statement, buffer, what, index, 0};
    at->second.count += count;
}

std::vector<OutsideAccess> Memory::outside() const {
    std::vector<OutsideAccess> list;
    for (const auto& [site, access] : outside_) list.push_back(access);
    return list;
}

Copy start_copy(const Code& code, Memory& memory, uint32_t statement, uint64_t offset, uint64_t size) {
    const kpu::kernel::CodeStatement& s = code.statements[statement];
    const bool load = s.kind == kpu::kernel::Kind::async_load;
    const Bytes& source = memory.bytes(s.buffer);
    const Bytes& destination = memory.bytes(s.other);
    Copy copy;
    copy.pending = true;
    copy.statement = statement;
    copy.destination = s.other;
    copy.start = load ? 0 : offset;
    copy.bytes = size;
    copy.from = load ? offset : 0;
    const uint64_t from = copy.from;
    const uint64_t room = copy.start < destination.size ? destination.size - copy.start : 0;
    const uint64_t have = from < source.size ? source.size - from : 0;
    copy.payload.resize(std::min(size, room));
    const uint64_t taken = std::min<uint64_t>(copy.payload.size(), have);
    if (taken > 0) std::memcpy(copy.payload.data(), source.data + from, taken);
    const kpu::kernel::ExprIndex site = s.expr[1];
    if (size > have) memory.note_outside("copy", statement, site, s.buffer, from + have);
    if (size > room) memory.note_outside("copy", statement, s.expr[0], s.other, copy.start + room);
    return copy;
}

void finish_copy(Copy& copy, Memory& memory) {
    const Bytes& destination = memory.bytes(copy.destination);
    if (!copy.payload.empty())
        std::memcpy(destination.data + copy.start, copy.payload.data(), copy.payload.size());
    copy.pending = false;
    copy.payload.clear();
}

}  // namespace kpu::values::kernel
