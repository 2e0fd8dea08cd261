#include "isa/unit_kind.hpp"

#include <algorithm>
#include <array>

#include "base/diagnostics.hpp"

namespace kpu {
namespace {

using Row = UnitKindRow;

Row memory(UnitKind kind, std::string_view name, ClockDomain clock, std::string_view part,
           std::string_view rate_fields, std::string_view meaning) {
    Row row;
    row.kind = kind;
    row.name = name;
    row.role = UnitRole::memory;
    row.per_engine = kind == UnitKind::l1;
    row.clock = clock;
    row.part = part;
    row.rate_fields = rate_fields;
    row.meaning = meaning;
    return row;
}

Row system_dma() {
    Row row;
    row.kind = UnitKind::sdma;
    row.name = "sdma";
    row.nem_name = "sDMA";
    row.role = UnitRole::mover;
    row.count = "system_dma.channels";
    row.peak = row.rate_fields = "system_dma.bytes_per_cycle";
    row.part = "system DMA";
    row.phrase = "the system DMA";
    row.meaning = "system DMA, DDR <-> L2";
    return row;
}

Row engine_dma() {
    Row row;
    row.kind = UnitKind::dma;
    row.name = "dma";
    row.nem_name = "DMA";
    row.role = UnitRole::mover;
    row.per_engine = row.resource = row.stores = true;
    row.count = "engine.dma.channels";
    row.peak = row.rate_fields = "engine.dma.bytes_per_cycle";
    row.part = "engine DMA";
    row.phrase = "an engine's DMA";
    row.meaning = "engine DMA, L2 <-> L1";
    return row;
}

/// The part of a platform that units belong to, in the words of reports.
struct Part {
    std::string_view name, rate_fields, phrase;
};

Row compute_unit(UnitKind kind, std::string_view name, std::string_view nem_name, std::string_view opcodes,
                 std::string_view count, std::string_view peak, Part part, std::string_view meaning) {
    Row row;
    row.kind = kind;
    row.name = name;
    row.nem_name = nem_name;
    row.role = UnitRole::compute;
    row.per_engine = row.resource = true;
    row.opcodes = opcodes;
    row.count = count;
    row.peak = peak;
    row.part = part.name;
    row.rate_fields = part.rate_fields;
    row.phrase = part.phrase;
    row.meaning = meaning;
    return row;
}

Row array() {
    Row row = compute_unit(
        UnitKind::nmu, "nmu", "NMU", "array", "engine.array.count", "engine.array.rows engine.array.cols",
        {"arrays", "engine.array.rate.relative and the array's ports", "an array"}, "systolic array");
    row.macs = true;
    row.clock = ClockDomain::array;
    return row;
}

Row vector_unit(UnitKind kind, std::string_view name, std::string_view nem_name, std::string_view count,
                std::string_view meaning) {
    Row row = compute_unit(
        kind, name, nem_name, "vector", count, "engine.vector.lanes",
        {"vector units", "engine.vector.lanes and the vector units' ports", "a vector unit"}, meaning);
    row.stores = kind == UnitKind::cstl;
    return row;
}

Row other(UnitKind kind, std::string_view name, std::string_view nem_name, UnitRole role,
          std::string_view count, std::string_view meaning) {
    Row row;
    row.kind = kind;
    row.name = name;
    row.nem_name = nem_name;
    row.role = role;
    row.per_engine = role == UnitRole::sequencer;
    row.count = count;
    row.meaning = meaning;
    return row;
}

/// Returns the table. A new kind is one row here, with a number of its own.
std::vector<Row> all_rows() {
    return {
        array(),
        vector_unit(UnitKind::cstl, "cstl", "CSTL", "engine.vector.cstl_count", "vector unit, also stores"),
        engine_dma(),
        vector_unit(UnitKind::vpu, "vpu", "VPU", "engine.vector.vpu_count", "vector unit, conversions"),
        other(UnitKind::seq, "seq", "SEQ", UnitRole::sequencer, "", "dispatches tasks"),
        system_dma(),
        other(UnitKind::wdm, "wdm", "WDM", UnitRole::other, "wdm_count", "decompressor, not modelled"),
        memory(UnitKind::ddr, "ddr", ClockDomain::ddr, "DRAM", "ddr.data_rate_mtps", "DRAM channel"),
        memory(UnitKind::link, "link", ClockDomain::interconnect, "links",
               "interconnect.link_bytes_per_cycle", "interconnect link"),
        memory(UnitKind::l2, "l2", ClockDomain::sram, "L2", "l2.bytes_per_cycle, l2.bank_width_bytes",
               "scratchpad of the device"),
        memory(UnitKind::l1, "l1", ClockDomain::sram, "L1",
               "engine.l1.bytes_per_cycle, engine.l1.bank_width_bytes", "scratchpad of an engine"),
        other(UnitKind::device, "device", "", UnitRole::other, "", "the device as a whole"),
    };
}

/// Makes an index by number: position of its row, -1: none.
std::array<int8_t, max_unit_kinds> make_index() {
    std::array<int8_t, max_unit_kinds> index{};
    index.fill(-1);
    for (size_t i = 0; i < unit_kinds().size(); ++i)
        index.at(static_cast<size_t>(unit_kinds()[i].kind)) = static_cast<int8_t>(i);
    return index;
}

int place_of(size_t number) {
    static const std::array<int8_t, max_unit_kinds> index = make_index();
    return number < index.size() ? index[number] : -1;
}

}  // namespace

const std::vector<UnitKindRow>& unit_kinds() {
    static const std::vector<UnitKindRow> rows = all_rows();
    return rows;
}

bool is_unit_kind(uint64_t number) { return place_of(number) >= 0; }

const UnitKindRow& row_of(UnitKind kind) {
    const int place = place_of(static_cast<size_t>(kind));
    if (place < 0) throw InternalError("a unit of a kind that has no row");
    return unit_kinds()[static_cast<size_t>(place)];
}

std::string_view name_of(UnitKind kind) { return row_of(kind).nem_name; }

UnitKind kind_of(Level level) {
    constexpr std::array<UnitKind, 3> kinds{UnitKind::ddr, UnitKind::l2, UnitKind::l1};
    return kinds[static_cast<size_t>(level)];
}

std::optional<Level> level_of(UnitKind kind) {
    for (const Level level : {Level::ddr, Level::l2, Level::l1})
        if (kind_of(level) == kind) return level;
    return std::nullopt;
}

std::string names_of_units(bool (*wanted)(const UnitKindRow&), std::string_view separator,
                           std::string_view last) {
    std::vector<std::string_view> names;
    for (const Row& row : unit_kinds())
        if (!row.nem_name.empty() && wanted(row)) names.push_back(row.nem_name);
    std::string text;
    for (size_t i = 0; i < names.size(); ++i) {
        if (i > 0) text += i + 1 < names.size() ? separator : last;
        text += names[i];
    }
    return text;
}

std::optional<UnitKind> parse_unit_kind(std::string_view nem_name) {
    for (const Row& row : unit_kinds())
        if (!nem_name.empty() && row.nem_name == nem_name) return row.kind;
    return std::nullopt;
}

}  // namespace kpu
