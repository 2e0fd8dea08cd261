#include "model/unit/unit_module.hpp"

#include <algorithm>
#include <string>

#include "base/diagnostics.hpp"

namespace kpu::model {

const UnitModule& module_of(UnitKind kind) {
    for (const UnitModule* module : units())
        if (std::find(module->kinds.begin(), module->kinds.end(), kind) != module->kinds.end())
            return *module;
    throw InternalError("units of kind " + std::string(row_of(kind).name) +
                        " execute tasks and have no module");
}

}  // namespace kpu::model
