#pragma once

#include <memory>

#include "isa/unit_kind.hpp"
#include "model/unit/unit.hpp"

namespace kpu::model {

/// Makes the module of one unit.
using MakeUnit = std::unique_ptr<Unit> (*)(const char* name, const UnitPlace& place);

template <class Module>
std::unique_ptr<Unit> make_unit(const char* name, const UnitPlace& place) {
    return std::make_unique<Module>(name, place);
}

/// The module that models a kind of unit. Each unit's folder defines one function `add_<folder>_module` that
/// calls this for the kinds that it models; CMake gathers them (model/units.cmake). Not while anything runs.
void set_unit_module(UnitKind kind, MakeUnit make);
/// Throws InternalError for a kind that executes tasks and has no module.
MakeUnit unit_module(UnitKind kind);

/// Generated: calls every folder's function, once.
void add_unit_modules();

}  // namespace kpu::model
