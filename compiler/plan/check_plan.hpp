#pragma once
#include <string>
#include <vector>

#include "compiler/plan/plan.hpp"

namespace kpu::compiler {

/// Says why a plan is illegal, a sentence for each reason; empty: it is legal, and the program that emit()
/// makes of it computes the graph without a hazard. Looks at what a plan decides: tiles (sizes, engines,
/// iterations in flight), room in L1 and L2, overlap and alignment of all that lives in L2 and DDR while
/// operations run, homes of operands, order, types.
std::vector<std::string> check_plan(const Plan& plan, const Target& target);

}  // namespace kpu::compiler
