#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kpu::fuzz {

/// The bodies of a container's sections. Whether they make sense is not asked.
struct ContainerParts {
    std::string program;
    std::vector<std::string> data;
    std::vector<uint32_t> indices;  ///< indices of the data sections
};

/// Splits a container; nothing when the section table does not fit the bytes.
std::optional<ContainerParts> split_container(std::string_view bytes);
/// Returns a container of the canonical layout with right checksums.
std::string join_container(const ContainerParts& parts);

}  // namespace kpu::fuzz
