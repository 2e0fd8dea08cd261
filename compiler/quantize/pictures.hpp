#pragma once
// PNG and JPEG files as RGB: what samples of a network are made of.
#include <cstdint>
#include <string>
#include <vector>

namespace kpu::quantize {

struct Picture {
    uint32_t width = 0, height = 0;
    std::vector<uint8_t> rgb;  ///< rows from the top, three bytes a pixel
};

/// True if the name ends like that of a picture (.png, .jpg, .jpeg, in any case).
bool is_picture_name(const std::string& path);

/// Reads a picture of exactly this size; pixels of another one are not even decoded. Grey and palettes become
/// RGB, 16 bits lose the lower 8, transparency is dropped, colour profiles are not applied. Throws UserError
/// that names the file.
Picture read_picture(const std::string& path, uint32_t width, uint32_t height);

}  // namespace kpu::quantize
