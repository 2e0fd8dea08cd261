#pragma once
// Programs that the compiler wants to compare (--effort 3), run on the model without values.
#include "compiler/front_end.hpp"

namespace kpu::runtime {

/// A program that was run before on the same platform is not run again. Throws UserError when it does not end.
compiler::Simulate simulate_trials();

}  // namespace kpu::runtime
