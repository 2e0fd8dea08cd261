#include "traces/event_file.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include "base/diagnostics.hpp"
#include "base/host_memory.hpp"
#include "base/read_file.hpp"
#include "isa/bus_address.hpp"

namespace kpu::traces {

namespace {

constexpr std::string_view magic{"KPUEVNT\0", 8};
constexpr uint32_t version = 2;
constexpr size_t record_size = sizeof(Event);
constexpr size_t header_size = 32;
constexpr size_t trailer_size = 4;

template <typename T>
void put(std::string& out, T value) {
    for (size_t i = 0; i < sizeof(T); ++i)
        out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xff);
}

template <typename T>
T get(std::string_view bytes, size_t& at) {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
        value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
    }
    at += sizeof(T);
    return static_cast<T>(value);
}

uint32_t crc_of(std::string_view bytes, uint32_t crc = 0) {
    return static_cast<uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

Event get_event(std::string_view bytes, size_t at) {
    Event event;
    event.time_ps = get<uint64_t>(bytes, at);
    event.value = get<int64_t>(bytes, at);
    event.task = get<uint32_t>(bytes, at);
    event.op = get<uint32_t>(bytes, at);
    event.unit = get<uint16_t>(bytes, at);
    event.kind = static_cast<EventKind>(get<uint8_t>(bytes, at));
    event.cause = get<uint8_t>(bytes, at);
    event.reserved = get<uint32_t>(bytes, at);
    return event;
}

/// What is wrong with a record, or null. Writers index tables with these fields unchecked.
const char* fault_of(const Event& event, const RunInfo& info, size_t events) {
    constexpr uint64_t time_limit = 9'000'000'000'000'000'000u;
    if (static_cast<int>(event.kind) >= event_kind_count) return "unknown kind";
    if (event.time_ps > time_limit) return "time out of range";
    const bool interval = event.kind == EventKind::energy || event.kind == EventKind::active;
    if (event.kind == EventKind::energy && event.unit >= info.prices.actions.size()) return "unknown action";
    if (event.kind == EventKind::active && event.unit >= component_count) return "unknown component";
    if (interval &&
        event.duration() > info.clock().edges_before(time_limit) - info.clock().edges_before(event.time_ps)) {
        return "duration out of range";
    }
    if (!interval && event.task != no_task && event.task >= events) return "task number out of range";
    const bool names_task = event.kind == EventKind::issue || event.kind == EventKind::ready;
    if (names_task && event.reserved > events) return "task number out of range";
    if (event.kind == EventKind::issue) {
        if (event.cause >= issue_cause_count) return "unknown cause of issue";
        return event.op < info.statements.size() ? nullptr : "unknown statement";
    }
    if (event.kind == EventKind::work &&
        (event.value < 0 || static_cast<size_t>(event.value) >= info.works.size()))
        return "unknown work";
    if (event.op != background_op && event.op >= info.ops.size() && event.op != 0) return "unknown operation";
    const bool of_unit = event.kind == EventKind::cause || event.kind == EventKind::counter ||
                         event.kind == EventKind::begin || event.kind == EventKind::end ||
                         event.kind == EventKind::access;
    if (of_unit && event.unit >= info.units.size()) return "unknown unit";
    if (event.kind == EventKind::access &&
        level_of_bus_address(static_cast<uint64_t>(event.value)) > Level::l1) {
        return "unknown memory level";
    }
    if (event.kind == EventKind::cause && event.cause >= cause_count) return "unknown cause";
    if (event.kind == EventKind::counter && event.cause >= counter_count) return "unknown counter";
    return nullptr;
}

}  // namespace

void write_event_file(const RunInfo& info, const std::vector<Event>& events, Output& output) {
    const std::string description = to_json(info);
    std::string block(magic);
    put(block, version);
    put(block, static_cast<uint32_t>(record_size));
    put(block, static_cast<uint64_t>(description.size()));
    put(block, static_cast<uint64_t>(events.size()));
    block += description;
    uint32_t crc = 0;
    constexpr size_t block_size = 1 << 16;
    const auto flush = [&] {
        crc = crc_of(block, crc);
        output.write(block);
        block.clear();
    };
    for (const Event& event : events) {
        put(block, event.time_ps);
        put(block, event.value);
        put(block, event.task);
        put(block, event.op);
        put(block, event.unit);
        put(block, static_cast<uint8_t>(event.kind));
        put(block, event.cause);
        put(block, event.reserved);
        if (block.size() >= block_size) flush();
    }
    flush();
    put(block, crc);
    output.write(block);
}

namespace {

[[noreturn]] void fail(const std::string& origin, const std::string& what) {
    throw UserError(fmt::format(
        "{}: not a valid event file: {}. Fix: write it again with `kpusim run --events`.", origin, what));
}

struct Header {
    uint64_t description = 0;  ///< bytes
    uint64_t records = 0;
    uint64_t total() const { return header_size + description + records * record_size + trailer_size; }
};

Header read_header(std::string_view bytes, const std::string& origin) {
    if (bytes.substr(0, magic.size()) != magic) fail(origin, "it does not start with the magic KPUEVNT");
    if (bytes.size() < header_size) fail(origin, "truncated");
    size_t at = magic.size();
    const auto file_version = get<uint32_t>(bytes, at);
    if (file_version != version)
        fail(origin, fmt::format("version {} but this kpusim reads {}", file_version, version));
    if (get<uint32_t>(bytes, at) != record_size) fail(origin, "unknown record size");
    Header header;
    header.description = get<uint64_t>(bytes, at);
    header.records = get<uint64_t>(bytes, at);
    constexpr uint64_t most = uint64_t{1} << 50;  // bytes: no sum of these wraps
    if (header.description > most || header.records > most / record_size)
        fail(origin, "its sizes are damaged");
    return header;
}

}  // namespace

Recording parse_event_file(std::string_view bytes, const std::string& origin) {
    const Header header = read_header(bytes, origin);
    if (bytes.size() != header.total()) fail(origin, "truncated, or its sizes are damaged");
    size_t crc_at = bytes.size() - trailer_size;
    if (get<uint32_t>(bytes, crc_at) != crc_of(bytes.substr(0, bytes.size() - trailer_size)))
        fail(origin, "checksum mismatch");

    Recording recording{run_info_from_json(bytes.substr(header_size, header.description), origin), {}};
    recording.events.reserve(header.records);
    uint64_t last_time = 0;
    for (uint64_t i = 0; i < header.records; ++i) {
        const Event event = get_event(bytes, header_size + header.description + i * record_size);
        if (const char* fault = fault_of(event, recording.info, header.records))
            fail(origin, fmt::format("record {}: {}", i, fault));
        if (event.time_ps < last_time) fail(origin, fmt::format("record {}: time runs backwards", i));
        last_time = event.time_ps;
        recording.events.push_back(event);
    }
    return recording;
}

Recording read_event_file(const std::string& path) {
    InputFile file(path);
    std::string bytes;
    file.read(header_size, bytes);
    const Header header = read_header(bytes, path);
    if (const auto size = file.size(); size && *size != header.total())
        fail(path, "truncated, or its sizes are damaged");
    const uint64_t available = available_bytes(), needed = header.total() + header.records * sizeof(Event);
    if (available > 0 && needed > available) {
        throw UserError(fmt::format(
            "{}: its {} records take {} bytes of memory, and {} are available. Fix: use a machine with more "
            "memory, or record a shorter run with --max-cycles.",
            path, header.records, needed, available));
    }
    file.read(header.total() + 1 - header_size, bytes);  // one more: nothing may follow
    return parse_event_file(bytes, path);
}

}  // namespace kpu::traces
