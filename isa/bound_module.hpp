#pragma once

#include <memory>

#include "isa/module.hpp"

namespace kpu {

/// Of a module whose program is bound, all but the statements and regions, which are most of a long program; the
/// module itself where they are needed still: operations name tasks by their statements, parameters can get other
/// values, and data stands in it.
std::shared_ptr<const Module> without_text(std::shared_ptr<const Module> module);

}  // namespace kpu
