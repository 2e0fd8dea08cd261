#include "isa/container.hpp"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <boost/iostreams/device/mapped_file.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/digest.hpp"
#include "base/text_output.hpp"
#include "isa/program_message.hpp"

namespace kpu {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t format_version = 1;
constexpr uint32_t program_section = 1, data_section = 2, packed_program_section = 3;
constexpr uint64_t entry_bytes = 32, data_alignment = 64;
constexpr uint64_t max_sections = 1u << 20;
/// Larger programs are written packed (zlib): compiled networks shrink to a fifth.
constexpr uint64_t packed_above = 64 << 10;

uint64_t align_up(uint64_t value) { return (value + data_alignment - 1) / data_alignment * data_alignment; }

void put(std::string& out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

uint64_t get(std::string_view bytes, uint64_t at, int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; ++i)
        value |= uint64_t{static_cast<uint8_t>(bytes[at + static_cast<uint64_t>(i)])} << (8 * i);
    return value;
}

template <class... Args>
[[noreturn]] void refuse(const std::string& origin, fmt::format_string<Args...> text, Args&&... args) {
    throw UserError(fmt::format("{}: error: {}", origin, fmt::format(text, std::forward<Args>(args)...)));
}

struct Entry {
    uint32_t kind = 0, index = 0;
    uint64_t offset = 0, size = 0;
    uint32_t crc = 0;
};

void check_magic(std::string_view bytes, const std::string& origin) {
    if (bytes.empty()) refuse(origin, "the file is empty. Fix: write the program again.");
    if (is_pickle(bytes)) {
        refuse(origin,
               "this is a Python pickle, which kpusim never unpickles. Fix: export the program as a KPU "
               "container.");
    }
    if (bytes.substr(0, container_magic.size()) != container_magic.substr(0, bytes.size())) {
        refuse(origin, "not a KPU program: the file does not start with KPUPROG. Fix: give a .kpu file.");
    }
}

/// Reads the section table. Everything is compared with the canonical layout, so that no offset needs trust.
std::vector<Entry> read_table(std::string_view bytes, const std::string& origin) {
    check_magic(bytes, origin);
    if (bytes.size() < 16)
        refuse(origin, "truncated: {} bytes are not a header. Fix: copy the file again.", bytes.size());
    const uint64_t version = get(bytes, 8, 4), count = get(bytes, 12, 4);
    if (version != format_version) {
        refuse(origin, "container version {} is not supported (this is version {}). Fix: write it again.",
               version, format_version);
    }
    if (count == 0 || count > max_sections)
        refuse(origin, "{} sections are out of range. Fix: write it again.", count);
    const uint64_t table_end = 16 + count * entry_bytes;
    if (bytes.size() < table_end + 4)
        refuse(origin, "truncated in the section table. Fix: copy the file again.");
    if (get(bytes, table_end, 4) != crc32c(bytes.substr(0, table_end))) {
        refuse(origin, "the header is damaged: its CRC-32C differs. Fix: copy the file again.");
    }
    std::vector<Entry> entries;
    uint64_t end = table_end + 4;
    for (uint64_t i = 0; i < count; ++i) {
        const uint64_t at = 16 + i * entry_bytes;
        const Entry entry{static_cast<uint32_t>(get(bytes, at, 4)),
                          static_cast<uint32_t>(get(bytes, at + 4, 4)), get(bytes, at + 8, 8),
                          get(bytes, at + 16, 8), static_cast<uint32_t>(get(bytes, at + 24, 4))};
        const bool packed = i == 0 && entry.kind == packed_program_section;
        const uint32_t expected = i == 0 ? program_section : data_section;
        if (entry.kind != expected && !packed)
            refuse(origin, "section {} has the kind {}, which cannot stand there. Fix: {}.", i, entry.kind,
                   i == 0 ? "the first section is the program, kind 1 or 3" : "the others are data, kind 2");
        const uint64_t start = i == 0 ? end : align_up(end);
        if (entry.offset != start) {
            refuse(
                origin,
                "section {} is misplaced: the table says byte {}, it belongs at byte {}, {}. Fix: write the "
                "sections in the order of the table, without gaps.",
                i, entry.offset, start,
                i == 0 ? std::string("right after the table's CRC-32C")
                       : fmt::format("the first multiple of {} after section {}, which ends at byte {}",
                                     data_alignment, i - 1, end));
        }
        if (const uint64_t reserved = get(bytes, at + 28, 4); reserved != 0)
            refuse(origin, "the reserved word of section {} is {}. Fix: write 0.", i, reserved);
        if (start > bytes.size() || entry.size > bytes.size() - start) {
            refuse(origin,
                   "truncated: section {} needs {} bytes at {}, the file has {}. Fix: copy the file again.",
                   i, entry.size, entry.offset, bytes.size());
        }
        if (bytes.substr(end, start - end).find_first_not_of('\0') != std::string_view::npos) {
            refuse(origin, "the padding before section {} is not zero. Fix: copy the file again.", i);
        }
        end = start + entry.size;
        entries.push_back(entry);
    }
    if (end != bytes.size()) refuse(origin, "{} bytes follow the last section.", bytes.size() - end);
    return entries;
}

void check_section(std::string_view bytes, uint32_t crc, size_t index, const std::string& origin) {
    if (crc32c(bytes) != crc)
        refuse(origin, "section {} is damaged: its CRC-32C differs. Fix: copy the file again.", index);
}

std::string folder_of(const std::string& path) {
    const std::string folder = fs::path(path).parent_path().string();
    return folder.empty() ? "." : folder;
}

/// `make_section(entry, index)` makes the data section of an entry of the table.
template <class MakeSection>
Module parse(std::string_view bytes, const std::string& origin, const MakeSection& make_section) {
    const std::vector<Entry> entries = read_table(bytes, origin);
    Module module;
    module.origin = origin;
    const std::string_view program = bytes.substr(entries[0].offset, entries[0].size);
    if (program.size() > max_program_bytes)
        refuse(origin, "the program section exceeds {} bytes.", max_program_bytes);
    check_section(program, entries[0].crc, 0, origin);
    const Packing packing = entries[0].kind == packed_program_section ? Packing::zlib : Packing::none;
    if (!parse_message(program, packing, module.program))
        refuse(origin, "the program section is not a valid KPUProgram message{}. Fix: write it again.",
               packing == Packing::none ? fault_text(program) : "");
    check_structure(module.program, origin);
    size_t next = 1;
    for (int i = 0; i < module.program.data_size(); ++i) {
        const proto::Data& data = module.program.data(i);
        if (!data.path().empty()) {
            module.data.push_back(load_side_file(data, folder_of(origin)));
            continue;
        }
        if (next >= entries.size() || entries[next].index != static_cast<uint32_t>(i) ||
            entries[next].size != data.size()) {
            refuse(origin, "data entry {} (`{}`, {} bytes) has no section of that index and size.", i,
                   data.name(), data.size());
        }
        module.data.push_back(make_section(entries[next], next));
        module.data.back().record_crc(entries[next].crc);
        ++next;
    }
    if (next != entries.size()) refuse(origin, "section {} belongs to no data entry.", next);
    use_places(module);
    return module;
}

using Mapping = boost::iostreams::mapped_file_source;

struct MappedFile {
    std::string_view bytes;
    std::shared_ptr<const void> owner;
};

/// Maps a whole regular file; an empty one has no owner.
MappedFile map_file(const std::string& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found)
        throw UserError(fmt::format("{}: error: no such file. Fix: check the path.", path));
    if (error) throw UserError(fmt::format("{}: error: {}. Fix: check the path.", path, error.message()));
    if (!fs::is_regular_file(status)) throw UserError(fmt::format("{}: error: not a regular file.", path));
    if (fs::file_size(path, error) == 0 && !error) return {};
    try {
        auto mapping = std::make_shared<Mapping>(path);
        const std::string_view bytes(mapping->data(), mapping->size());
        return {bytes, std::move(mapping)};
    } catch (const std::exception&) {  // its text says less than errno
        throw UserError(fmt::format("{}: error: cannot be read ({}). Fix: name a file that can be.", path,
                                    std::strerror(errno)));
    }
}

std::string serialize_program(const KPUProgram& program) {
    std::string bytes;
    {
        google::protobuf::io::StringOutputStream stream(&bytes);
        google::protobuf::io::CodedOutputStream coded(&stream);
        coded.SetSerializationDeterministic(true);
        if (!program.SerializeToCodedStream(&coded)) throw InternalError("program cannot be serialized");
    }
    return bytes;
}

std::string packed(const std::string& bytes) {
    std::string result;
    {
        google::protobuf::io::StringOutputStream stream(&result);
        google::protobuf::io::GzipOutputStream::Options options;
        options.format = google::protobuf::io::GzipOutputStream::ZLIB;
        google::protobuf::io::GzipOutputStream gzip(&stream, options);
        google::protobuf::io::CodedOutputStream coded(&gzip);
        coded.WriteRaw(bytes.data(), static_cast<int>(bytes.size()));
    }
    return result;
}

}  // namespace

bool is_pickle(std::string_view head) {
    return head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

Module read_container(const std::string& path) {
    const MappedFile file = map_file(path);
    return parse(file.bytes, path, [&](const Entry& entry, size_t index) {
        return DataSection::mapped(file.bytes.substr(entry.offset, entry.size), file.owner,
                                   [path, crc = entry.crc, index](std::string_view bytes) {
                                       check_section(bytes, crc, index, path);
                                   });
    });
}

Module parse_container(std::string_view bytes, const std::string& origin) {
    return parse(bytes, origin, [&](const Entry& entry, size_t index) {
        const std::string_view section = bytes.substr(entry.offset, entry.size);
        check_section(section, entry.crc, index, origin);
        return DataSection::of(std::string(section));
    });
}

DataSection load_side_file(const proto::Data& data, const std::string& folder) {
    const fs::path relative(data.path());
    bool inside = relative.is_relative() && !relative.empty();
    for (const fs::path& part : relative) inside = inside && part != "..";
    if (!inside) {
        throw UserError(
            fmt::format("data `{}`: error: side file `{}` is not below the program's folder. Fix: give a "
                        "relative path without `..`.",
                        data.name(), data.path()));
    }
    const std::string path = (fs::path(folder) / relative).string();
    const MappedFile file = map_file(path);
    if (file.bytes.size() != data.size()) {
        throw UserError(
            fmt::format("{}: error: has {} bytes, data `{}` expects {}. Fix: use the file that was written "
                        "with the program.",
                        path, file.bytes.size(), data.name(), data.size()));
    }
    return DataSection::mapped(
        file.bytes, file.owner, [path, name = data.name(), sha256 = data.sha256()](std::string_view bytes) {
            if (sha256_hex(bytes) == sha256) return;
            throw UserError(fmt::format(
                "{}: error: SHA-256 differs from what data `{}` expects. Fix: use the file that was "
                "written with the program.",
                path, name));
        });
}

std::string serialize_container(const Module& module) {
    if (module.data.size() != static_cast<size_t>(module.program.data_size())) {
        throw InternalError("Module.data is not parallel to KPUProgram.data");
    }
    std::string program = serialize_program(module.program);
    const bool packs = program.size() > packed_above;
    if (packs) program = packed(program);
    std::vector<Entry> entries{
        {packs ? packed_program_section : program_section, 0, 0, program.size(), crc32c(program)}};
    std::vector<std::string_view> bodies{program};
    for (size_t i = 0; i < module.data.size(); ++i) {
        const proto::Data& data = module.program.data(static_cast<int>(i));
        if (!data.path().empty()) continue;
        if (data.size() != module.data[i].size()) throw InternalError("data section size differs");
        bodies.push_back(module.data[i].bytes());
        entries.push_back({data_section, static_cast<uint32_t>(i), 0, data.size(), module.data[i].crc()});
    }
    uint64_t end = 16 + entries.size() * entry_bytes + 4;
    for (size_t i = 0; i < entries.size(); ++i) {
        entries[i].offset = i == 0 ? end : align_up(end);
        end = entries[i].offset + entries[i].size;
    }
    std::string out;
    out.reserve(end);
    out += container_magic;
    put(out, format_version, 4);
    put(out, entries.size(), 4);
    for (const Entry& entry : entries) {
        put(out, entry.kind, 4);
        put(out, entry.index, 4);
        put(out, entry.offset, 8);
        put(out, entry.size, 8);
        put(out, entry.crc, 4);
        put(out, 0, 4);
    }
    put(out, crc32c(out), 4);
    for (size_t i = 0; i < entries.size(); ++i) {
        out.resize(entries[i].offset, '\0');
        out += bodies[i];
    }
    return out;
}

std::string program_digest(const Module& module) {
    std::string text = serialize_program(module.program);
    for (size_t i = 0; i < module.data.size(); ++i) {
        if (module.program.data(static_cast<int>(i)).sha256().empty())
            text += fmt::format(" {:08x}", module.data[i].crc());
    }
    return sha256_hex(text);
}

void write_container(const Module& module, const std::string& path) {
    check_structure(module.program, path);
    write_file(path, serialize_container(module));
}

}  // namespace kpu
