#pragma once

#include "platforms/platform.pb.h"

namespace kpu::platforms {

/// Puts the fields of a file that `extends` another platform on that platform's. Single fields replace; engines are
/// matched by position, where one more than there were begins as a copy of the last; rows of `rate`, `cost` and
/// `characteristic` by their type, opcode and key; variants, groups and families are added. The name and the
/// description are never the other platform's.
void apply_changes(proto::Platform& platform, proto::Platform changes);

}  // namespace kpu::platforms
