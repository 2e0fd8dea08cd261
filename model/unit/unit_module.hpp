#pragma once

#include <memory>
#include <vector>

#include "isa/unit_kind.hpp"
#include "model/unit/unit.hpp"

namespace kpu::model {

/// The module that models units of some kinds: `<folder>_unit_module` in each folder of model/units.txt.
struct UnitModule {
    std::vector<UnitKind> kinds;
    std::unique_ptr<Unit> (*make)(const char* name, const UnitPlace& place) = nullptr;
};

template <class Module>
std::unique_ptr<Unit> make_unit(const char* name, const UnitPlace& place) {
    return std::make_unique<Module>(name, place);
}

/// Returns the lines of units.txt; of two modules of one kind the first counts.
const std::vector<const UnitModule*>& units();
/// Throws InternalError for a kind that executes tasks and has no module.
const UnitModule& module_of(UnitKind kind);

}  // namespace kpu::model
