// Precompiled for every target: what most sources include and what takes long to parse.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isa/kpu_program.pb.h"
#include "platforms/platform.pb.h"
