// The layout of isa/container.hpp, written a second time on purpose: it must not share the reader's mistakes.
#include "tests/fuzz/container_parts.hpp"

#include <cstdint>

#include "base/digest.hpp"

namespace kpu::fuzz {
namespace {

constexpr size_t header_bytes = 16, entry_bytes = 32, data_alignment = 64;

uint64_t get(std::string_view bytes, size_t at, size_t count) {
    uint64_t value = 0;
    for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
    return value;
}

void put(std::string& out, uint64_t value, size_t count) {
    for (size_t i = 0; i < count; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void put_entry(std::string& out, uint32_t kind, uint32_t index, uint64_t offset, const std::string& body) {
    put(out, kind, 4);
    put(out, index, 4);
    put(out, offset, 8);
    put(out, body.size(), 8);
    put(out, crc32c(body), 4);
    put(out, 0, 4);
}

size_t align_up(size_t value) { return (value + data_alignment - 1) / data_alignment * data_alignment; }

}  // namespace

std::optional<ContainerParts> split_container(std::string_view bytes) {
    if (bytes.size() < header_bytes) return std::nullopt;
    const uint64_t count = get(bytes, 12, 4);
    if (count == 0 || count > (bytes.size() - header_bytes) / entry_bytes) return std::nullopt;
    ContainerParts parts;
    for (uint64_t i = 0; i < count; ++i) {
        const size_t at = header_bytes + i * entry_bytes;
        const uint64_t offset = get(bytes, at + 8, 8), size = get(bytes, at + 16, 8);
        if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
        std::string body(bytes.substr(offset, size));
        if (i == 0) {
            parts.program = std::move(body);
        } else {
            parts.data.push_back(std::move(body));
            parts.indices.push_back(static_cast<uint32_t>(get(bytes, at + 4, 4)));
        }
    }
    return parts;
}

std::string join_container(const ContainerParts& parts) {
    const size_t count = 1 + parts.data.size();
    std::string out("KPUPROG\0", 8);
    put(out, 1, 4);
    put(out, count, 4);
    size_t end = header_bytes + count * entry_bytes + 4;
    put_entry(out, 1, 0, end, parts.program);
    end += parts.program.size();
    for (size_t i = 0; i < parts.data.size(); ++i) {
        put_entry(out, 2, parts.indices[i], align_up(end), parts.data[i]);
        end = align_up(end) + parts.data[i].size();
    }
    put(out, crc32c(out), 4);
    out += parts.program;
    for (const std::string& body : parts.data) {
        out.resize(align_up(out.size()), '\0');
        out += body;
    }
    return out;
}

}  // namespace kpu::fuzz
