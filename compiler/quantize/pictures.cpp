#include "compiler/quantize/pictures.hpp"

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cctype>
#include <csetjmp>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/diagnostics.hpp"
#include "base/read_file.hpp"

namespace kpu::quantize {
namespace {

constexpr size_t max_file_bytes = size_t{256} << 20;
/// Most compressed data of a PNG after its last row: the end of the stream, and what a writer left over.
constexpr size_t most_behind = size_t{64} << 10;

[[noreturn]] void damaged(const std::string& path, const std::string& why) {
    throw UserError(
        fmt::format("{}: the picture cannot be read: {}. Fix: save it again as PNG or JPEG.", path, why));
}

void check_size(const std::string& path, uint32_t width, uint32_t height, const Picture& wanted) {
    if (width == wanted.width && height == wanted.height) return;
    throw UserError(fmt::format(
        "{}: the picture has {} x {} pixels, but {} x {} (width x height) are needed. Fix: resize it.", path,
        width, height, wanted.width, wanted.height));
}

// ---- PNG: libpng reports errors by a jump, so nothing that owns memory may live in the function that jumps.

struct PngReader {
    png_structp png = nullptr;
    png_infop info = nullptr;
    const std::string* bytes = nullptr;
    size_t at = 0;
    std::string error;
    std::vector<png_bytep> rows;
    bool in_rows = false;  ///< png_read_image() is at work
    size_t behind = 0;     ///< bytes that it has read although all rows are there

    explicit PngReader(const std::string& file) : bytes(&file) {
        png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error,
                                     [](png_structp, png_const_charp) {});
        info = png == nullptr ? nullptr : png_create_info_struct(png);
    }
    ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
    PngReader(const PngReader&) = delete;
    PngReader& operator=(const PngReader&) = delete;

    bool has_all_rows() const {
        constexpr int passes = 7;
        if (png_get_interlace_type(png, info) != PNG_INTERLACE_NONE)
            return png_get_current_pass_number(png) >= passes;
        return png_get_current_row_number(png) >= png_get_image_height(png, info);
    }

    static void on_error(png_structp png, png_const_charp text) {
        static_cast<PngReader*>(png_get_error_ptr(png))->error = text;
        png_longjmp(png, 1);
    }
    static void on_read(png_structp png, png_bytep out, size_t count) {
        auto* self = static_cast<PngReader*>(png_get_io_ptr(png));
        if (count > self->bytes->size() - self->at) png_error(png, "the file is truncated");
        // libpng looks for the end of compressed data, and would inflate all there is
        if (self->in_rows && self->has_all_rows()) self->behind += count;
        if (self->behind > most_behind) png_error(png, "its data go on after its last row");
        std::memcpy(out, self->bytes->data() + self->at, count);
        self->at += count;
    }
};

/// Reads the header, and sets the transformations to 8-bit RGB. False: reader.error says why.
bool read_png_header(PngReader& reader) {
    if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
    png_set_read_fn(reader.png, &reader, PngReader::on_read);
    png_set_user_limits(reader.png, 1 << 16, 1 << 16);
    png_set_chunk_cache_max(reader.png, 64);
    png_set_chunk_malloc_max(reader.png, 1 << 20);
    png_read_info(reader.png, reader.info);
    png_set_expand(reader.png);
    png_set_strip_16(reader.png);
    png_set_gray_to_rgb(reader.png);
    png_set_strip_alpha(reader.png);
    png_set_interlace_handling(reader.png);
    png_read_update_info(reader.png, reader.info);
    return true;
}

bool read_png_rows(PngReader& reader) {
    if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
    reader.in_rows = true;
    png_read_image(reader.png, reader.rows.data());
    reader.in_rows = false;
    png_read_end(reader.png, nullptr);
    return true;
}

void read_png(const std::string& path, const std::string& bytes, Picture& picture) {
    PngReader reader(bytes);
    if (reader.info == nullptr) throw InternalError("libpng does not start");
    if (!read_png_header(reader)) damaged(path, reader.error);
    check_size(path, png_get_image_width(reader.png, reader.info),
               png_get_image_height(reader.png, reader.info), picture);
    const size_t row_bytes = size_t{3} * picture.width;
    if (png_get_rowbytes(reader.png, reader.info) != row_bytes) damaged(path, "its pixels are not RGB");
    for (size_t y = 0; y < picture.height; ++y) reader.rows.push_back(picture.rgb.data() + y * row_bytes);
    if (!read_png_rows(reader)) damaged(path, reader.error);
}

// ---- JPEG

struct JpegClose {
    void operator()(void* handle) const { tjDestroy(handle); }
};

void read_jpeg(const std::string& path, const std::string& bytes, Picture& picture) {
    const std::unique_ptr<void, JpegClose> handle(tjInitDecompress());
    if (!handle) throw InternalError("libturbojpeg does not start");
    const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
    int width = 0, height = 0, sampling = 0, colours = 0;
    if (tjDecompressHeader3(handle.get(), data, bytes.size(), &width, &height, &sampling, &colours) != 0)
        damaged(path, tjGetErrorStr2(handle.get()));
    if (width < 1 || height < 1) damaged(path, "the file is truncated");
    check_size(path, static_cast<uint32_t>(width), static_cast<uint32_t>(height), picture);
    if (colours == TJCS_CMYK || colours == TJCS_YCCK) damaged(path, "its colours are CMYK, not RGB");
    if (tjDecompress2(handle.get(), data, bytes.size(), picture.rgb.data(), width, 0, height, TJPF_RGB,
                      TJFLAG_ACCURATEDCT) != 0)
        damaged(path, tjGetErrorStr2(handle.get()));
}

std::string ending(const std::string& path) {
    std::string text = std::filesystem::path(path).extension().string();
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

}  // namespace

bool is_picture_name(const std::string& path) {
    const std::string end = ending(path);
    return end == ".png" || end == ".jpg" || end == ".jpeg";
}

Picture read_picture(const std::string& path, uint32_t width, uint32_t height) {
    const std::string bytes = read_file(path, max_file_bytes + 1);
    if (bytes.size() > max_file_bytes)
        throw UserError(
            fmt::format("{}: more than {} MiB are too large for a sample. Fix: use a smaller file.", path,
                        max_file_bytes >> 20));
    Picture picture{width, height, std::vector<uint8_t>(size_t{3} * width * height)};
    constexpr std::string_view png_magic{"\x89PNG\r\n\x1a\n", 8};
    if (bytes.compare(0, png_magic.size(), png_magic) == 0) {
        read_png(path, bytes, picture);
    } else if (bytes.compare(0, 2, "\xff\xd8") == 0) {
        read_jpeg(path, bytes, picture);
    } else {
        damaged(path, "it is neither PNG nor JPEG");
    }
    return picture;
}

}  // namespace kpu::quantize
