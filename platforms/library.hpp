#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kpu::platforms {

/// Returns a text file that is compiled in: npm_lite.nem, swkpu-v1.textproto. Nothing when there is none of
/// that name.
std::optional<std::string_view> embedded_text(std::string_view file_name);
/// Returns the embedded file that a name in circulation means (npm_lite.cfg, nem_baseline_1.0.nem, swkpu-v1),
/// or nothing.
std::optional<std::string> embedded_file_of(std::string_view name);
std::vector<std::string> embedded_names();
/// Returns a device under the name that its file declares: nem_baseline_1_0 is npm_baseline_1_0, others are
/// as they are.
std::string_view declared_name(std::string_view device);

/// Returns the whole text of a file. Throws UserError when it cannot be read or is larger than 16 MiB.
std::string read_text_file(const std::string& path);
bool is_regular_file(const std::string& path);

}  // namespace kpu::platforms
