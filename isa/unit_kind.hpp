#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace kpu {

/// A kind of unit, by its number in event files. The rules of the program form name these; any other kind is
/// a row and a number of its own.
enum class UnitKind : uint8_t {
    nmu = 0,
    cstl = 1,
    vpu = 2,
    dma = 3,
    sdma = 4,
    seq = 5,
    ddr = 6,
    link = 7,
    l1 = 8,
    l2 = 9,
    device = 10,
    wdm = 11
};
constexpr size_t max_unit_kinds = 32;

enum class UnitRole : uint8_t {
    compute,    ///< executes opcodes
    mover,      ///< executes transfers
    sequencer,  ///< dispatches tasks
    memory,     ///< carries bytes: a memory or a link
    other       ///< the device as a whole, units that are not modelled
};

enum class ClockDomain : uint8_t { core, array, sram, interconnect, ddr };

/// The row of a kind of unit: what programs, devices, model, statistics and reports know of it. What only the
/// model knows, its module and its plan of a task, stands in the unit's own folder.
struct UnitKindRow {
    UnitKind kind = UnitKind::device;
    std::string_view name;      ///< in unit names: e0_<name>1
    std::string_view nem_name;  ///< in programs and NEM devices; empty: they cannot name it
    UnitRole role = UnitRole::other;
    bool per_engine = false;   ///< else it belongs to the device
    bool resource = false;     ///< a task may ask for one with @resource
    bool stores = false;       ///< may execute a store
    std::string_view opcodes;  ///< units with the same word here execute each other's opcodes
    bool macs = false;         ///< its work is multiply-accumulates, else elements or bytes
    ClockDomain clock = ClockDomain::core;
    std::string_view count;        ///< platform field; empty: one, or found otherwise (memories)
    std::string_view peak;         ///< platform fields whose product is its work per cycle of its clock
    std::string_view part;         ///< the part of the platform that it belongs to, for reports; empty: none
    std::string_view rate_fields;  ///< platform fields that set the part's rate
    std::string_view phrase;       ///< "an array"
    std::string_view meaning;      ///< for `list units`
};

/// Returns all rows, those that NEM names first.
const std::vector<UnitKindRow>& unit_kinds();
const UnitKindRow& row_of(UnitKind kind);
bool is_unit_kind(uint64_t number);       ///< whether a row has this number
std::string_view name_of(UnitKind kind);  ///< as NEM spells it: NMU CSTL DMA VPU SEQ sDMA WDM
/// Returns the NEM names of the kinds that are wanted, for messages: "NMU, CSTL, DMA or VPU".
std::string names_of_units(bool (*wanted)(const UnitKindRow&), std::string_view separator,
                           std::string_view last);
std::optional<UnitKind> parse_unit_kind(std::string_view nem_name);

/// Returns the level of a memory's kind; nothing for other kinds.
std::optional<Level> level_of(UnitKind kind);
UnitKind kind_of(Level level);

inline bool computes(UnitKind kind) { return row_of(kind).role == UnitRole::compute; }
inline bool moves(UnitKind kind) { return row_of(kind).role == UnitRole::mover; }
/// True if tasks are given to it.
inline bool executes_tasks(UnitKind kind) { return computes(kind) || moves(kind); }
inline bool carries_bytes(UnitKind kind) { return row_of(kind).role == UnitRole::memory; }

}  // namespace kpu
