#include "model/unit/unit_module.hpp"

#include <array>
#include <string>

#include "base/diagnostics.hpp"

namespace kpu::model {

namespace {

std::array<MakeUnit, max_unit_kinds>& modules() {
    static std::array<MakeUnit, max_unit_kinds> all{};
    return all;
}

}  // namespace

void set_unit_module(UnitKind kind, MakeUnit make) { modules().at(static_cast<size_t>(kind)) = make; }

MakeUnit unit_module(UnitKind kind) {
    static const bool added = (add_unit_modules(), true);
    (void)added;
    const MakeUnit make = modules().at(static_cast<size_t>(kind));
    if (make == nullptr)
        throw InternalError("units of kind " + std::string(row_of(kind).name) +
                            " execute tasks and have no module");
    return make;
}

}  // namespace kpu::model
