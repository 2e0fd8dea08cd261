#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "isa/device_limits.hpp"
#include "isa/nem/nem.hpp"
#include "platforms/platform.pb.h"

namespace kpu::platforms {

/// Returns the language's type families and those of kpusim_ext.nem.
const std::vector<nem::TypeFamily>& known_families();
/// Returns the shipped families with `own` beside them; of equal names, `own` counts.
std::vector<nem::TypeFamily> families_with(const std::vector<nem::TypeFamily>& own);
/// Returns gemm.float<f16>.no_bias as its parts; nothing when the text has another form.
std::optional<nem::VariantRef> parse_variant(std::string_view text);
/// Puts the variants of the platform's named groups (variant_sets.textproto) before those that it lists itself. Unknown
/// names are errors.
void expand_variant_sets(proto::Platform& platform, Diagnostics& diagnostics);
/// Returns the platform's variants with their types filled in. Unknown ones are errors.
std::vector<TypeVariant> resolve_variants(const proto::Platform& platform, Diagnostics& diagnostics);

}  // namespace kpu::platforms
