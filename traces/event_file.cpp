#include "traces/event_file.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <functional>

#include "base/diagnostics.hpp"
#include "base/read_file.hpp"
#include "isa/bus_address.hpp"
#include "traces/bank_use.hpp"
#include "traces/event_log.hpp"

namespace kpu::traces {

namespace {

constexpr std::string_view magic{"KPUEVNT\0", 8};
constexpr uint32_t version = 3;
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

/// Says what is wrong with a record, or null. Writers index tables with these fields unchecked.
const char* fault_of(const Event& event, const RunInfo& info, size_t events) {
    constexpr uint64_t time_limit = 9'000'000'000'000'000'000u;
    if (static_cast<int>(event.kind) >= event_kind_count) return "unknown kind";
    if (event.time_ps > time_limit) return "time out of range";
    const bool interval = event.kind == EventKind::energy || event.kind == EventKind::active;
    if (event.kind == EventKind::energy && event.unit >= info.prices.actions.size()) return "unknown action";
    if (event.kind == EventKind::energy && event.burner() != no_unit && event.burner() >= info.units.size())
        return "unknown unit";
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
                         event.kind == EventKind::access || event.kind == EventKind::bank;
    if (of_unit && event.unit >= info.units.size()) return "unknown unit";
    if (event.kind == EventKind::access &&
        level_of_bus_address(static_cast<uint64_t>(event.value)) > Level::l1) {
        return "unknown memory level";
    }
    if (event.kind == EventKind::bank) {
        if (event.value < 0 || static_cast<uint64_t>(event.value) >= info.units.size()) return "unknown unit";
        if (event.reserved >= info.dram_banks) return "unknown bank";
        if (!BankUse::of_code(event.cause)) return "unknown use of a bank";
    }
    if (event.kind == EventKind::cause && event.cause >= cause_count) return "unknown cause";
    if (event.kind == EventKind::counter && event.cause >= counter_count) return "unknown counter";
    return nullptr;
}

}  // namespace

void write_event_file(const RunInfo& info, const Events& events, Output& output) {
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
    if (header.description > max_text_bytes || header.records > most / record_size)
        fail(origin, "its sizes are damaged");
    return header;
}

/// Source of what follows the header, taken in pieces: a file or bytes. A piece is good until the next is
/// taken.
using Source = std::function<std::string_view(size_t count)>;

/// Reads description and records.
class Body {
  public:
    Body(const Header& header, std::string_view header_bytes, Source source, const std::string& origin)
        : header_(header), source_(std::move(source)), origin_(origin), crc_(crc_of(header_bytes)) {}

    Recording read() {
        Recording recording{run_info_from_json(piece(header_.description), origin_), {}};
        EventLog log;
        constexpr uint64_t at_once = 2048;
        for (uint64_t first = 0; first < header_.records; first += at_once) {
            const uint64_t count = std::min(at_once, header_.records - first);
            const std::string_view bytes = piece(count * record_size);
            for (uint64_t i = 0; i < count; ++i) log.record(checked(bytes, first, i, recording.info));
        }
        const std::string trailer(source_(trailer_size));
        if (trailer.size() != trailer_size || !source_(1).empty()) fail(origin_, truncated);
        size_t at = 0;
        if (get<uint32_t>(trailer, at) != crc_) fail(origin_, "checksum mismatch");
        recording.events = log.take_sorted();
        return recording;
    }

    static constexpr const char* truncated = "truncated, or its sizes are damaged";

  private:
    std::string_view piece(uint64_t count) {
        const std::string_view bytes = source_(count);
        if (bytes.size() != count) fail(origin_, truncated);
        crc_ = crc_of(bytes, crc_);
        return bytes;
    }

    Event checked(std::string_view bytes, uint64_t first, uint64_t i, const RunInfo& info) {
        const Event event = get_event(bytes, i * record_size);
        if (const char* fault = fault_of(event, info, header_.records))
            fail(origin_, fmt::format("record {}: {}", first + i, fault));
        if (event.time_ps < last_time_)
            fail(origin_, fmt::format("record {}: time runs backwards", first + i));
        last_time_ = event.time_ps;
        return event;
    }

    const Header& header_;
    Source source_;
    const std::string& origin_;
    uint32_t crc_;
    uint64_t last_time_ = 0;
};

}  // namespace

Recording parse_event_file(std::string_view bytes, const std::string& origin) {
    const Header header = read_header(bytes, origin);
    if (bytes.size() != header.total()) fail(origin, Body::truncated);
    const std::string_view start = bytes.substr(0, header_size);
    bytes.remove_prefix(header_size);
    const auto take = [&](size_t count) {
        const std::string_view piece = bytes.substr(0, count);
        bytes.remove_prefix(piece.size());
        return piece;
    };
    return Body(header, start, take, origin).read();
}

Recording read_event_file(const std::string& path) {
    InputFile file(path);
    std::string start, piece;
    file.read(header_size, start);
    const Header header = read_header(start, path);
    if (const auto size = file.size(); size && *size != header.total()) fail(path, Body::truncated);
    const uint64_t disk = scratch_bytes(), needed = header.records * sizeof(Event);
    if (disk > 0 && needed > disk) {
        throw UserError(
            fmt::format("{}: its {} records take {} bytes of disk, and {} has {}. Fix: set TMPDIR to a "
                        "folder on a larger "
                        "disk, or record a shorter run with --max-cycles.",
                        path, header.records, needed, scratch_folder(), disk));
    }
    const auto take = [&](size_t count) -> std::string_view {
        piece.clear();
        file.read(count, piece);
        return piece;
    };
    return Body(header, start, take, path).read();
}

}  // namespace kpu::traces
