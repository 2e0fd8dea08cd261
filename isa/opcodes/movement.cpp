// Rows that are listed and documented with the opcodes, but compute nothing.
#include "isa/opcodes/rows.hpp"

namespace kpu::opcodes {
namespace {

OpcodeSpec move(std::string_view name, UnitKind unit, std::string_view formula) {
    OpcodeSpec row;
    row.name = name;
    row.inputs = {src};
    row.outputs = {dst};
    row.formula = formula;
    row.op_class = OpcodeClass::view;
    row.movement = true;
    row.work = WorkCount::result_bytes;
    row.unit = unit;
    row.energy = {"dma.descriptor", "dma.burst"};
    return row;
}

}  // namespace

void add_movement(Table& t) {
    t.push_back(move("transfer", UnitKind::dma, "dst = src"));
    t.push_back(move("store", UnitKind::cstl, "dst = src, committed for later readers"));
}

void add_refused(Table& t) {
    OpcodeSpec row;
    row.name = "compute";
    row.inputs = {x};
    row.outputs = {y};
    row.variadic_inputs = row.variadic_outputs = true;
    row.attributes = {{"op", AttrKind::text, true, "", "name of an operation"}};
    row.formula = "escape hatch of the language: no defined result, refused";
    row.refused = true;
    row.energy = per_element;
    t.push_back(row);
}

}  // namespace kpu::opcodes
