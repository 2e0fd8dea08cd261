#pragma once

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kpu {

/// The first thing that is wrong with the bytes of a serialized message.
struct WireFault {
    uint64_t offset = 0;  ///< offset of the field, or of the byte of it that is wrong
    std::string path;     ///< path of the message that it stands in: "KPUProgram.statement[12].task"
    std::string what;     ///< "field `name` has 300 bytes, but 120 follow"
};

/// Follows the wire format of protobuf, which the library's own parser only accepts or refuses. A field that the type
/// does not have is a fault too, since what it means would be ignored.
std::optional<WireFault> find_wire_fault(std::string_view bytes, const google::protobuf::Descriptor& type);

}  // namespace kpu
