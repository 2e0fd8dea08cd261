// Float convolutions: vectorised across output channels, so that each output keeps its order of kd, kh, kw and channels. Weights
// are packed once for many output pixels, and these go through the kernels in full tiles.
#include <algorithm>

#include "values/fast/fast.hpp"

namespace kpu::values::fast {
namespace {

/// Computes a convolution with one channel per group, vectorised across channels.
void depthwise(const Kernels& kernels, Scratch& scratch, const ConvProblem& p) {
    const int64_t n = p.channels;
    const int64_t image_size = p.height * p.width * n;
    const float* w = as_f32(kernels, *p.w, 0, p.kernel_h * p.kernel_w * n, scratch.right);
    float* acc = scratch.acc.get(n);
    int64_t pixel = 0;
    for (int64_t image = 0; image < p.batch; ++image) {
        const float* x = as_f32(kernels, *p.x, image * image_size, image_size, scratch.left);
        for (int64_t oy = 0; oy < p.out_h; ++oy) {
            const int64_t top = oy * p.stride_h - p.pad_top;
            const TapRange rows = valid_taps(top, p.dilation_h, p.kernel_h, p.height);
            for (int64_t ox = 0; ox < p.out_w; ++ox, ++pixel) {
                const int64_t left = ox * p.stride_w - p.pad_left;
                const TapRange columns = valid_taps(left, p.dilation_w, p.kernel_w, p.width);
                const int64_t c_offset = p.c_offset(image, 0, oy, ox, 0);
                start_row(kernels, scratch, p.b, c_offset, n, n, acc);
                for (int64_t kh = rows.first; kh < rows.last; ++kh) {
                    for (int64_t kw = columns.first; kw < columns.last; ++kw) {
                        const int64_t at = (top + kh * p.dilation_h) * p.width + left + kw * p.dilation_w;
                        kernels.fma_each(acc, x + at * n, w + (kh * p.kernel_w + kw) * n, n);
                    }
                }
                finish_row(kernels, scratch, p.b, c_offset, n, acc, *p.y, pixel * n);
            }
        }
    }
}

constexpr int64_t tap_block = 256;  // of the taps of one row of the window
// Data needed together stay in the second-level cache.
constexpr int64_t pixels_at_once = 384, columns_at_once = 512;

/// Output columns side by side whose windows have the same valid taps.
struct Strip {
    int64_t first, count;
    TapRange taps;
};

std::vector<Strip> strips_of(const ConvProblem& p) {
    std::vector<Strip> strips;
    for (int64_t x = 0; x < p.out_w; ++x) {
        const TapRange taps = valid_taps(x * p.stride_w - p.pad_left, p.dilation_w, p.kernel_w, p.width);
        const bool same =
            !strips.empty() && strips.back().taps.first == taps.first && strips.back().taps.last == taps.last;
        if (!same) strips.push_back({x, 0, taps});
        ++strips.back().count;
    }
    return strips;
}

/// A half-open range.
struct Range {
    int64_t first = 0, last = 0;
    int64_t size() const { return std::max<int64_t>(0, last - first); }
};

/// Rows of output pixels of a plane of an image, and some output channels of a group. Sums stand strip by strip, so that those of
/// neighbouring rows follow each other.
class Block {
  public:
    Block(const Kernels& kernels, Scratch& scratch, const ConvProblem& p, const std::vector<Strip>& strips,
          const float* weights)
        : kernels_(kernels),
          scratch_(scratch),
          p_(p),
          strips_(strips),
          weights_(weights),
          width_(kernels.f32_columns) {}

    int64_t image = 0, plane = 0, group = 0;
    const float* pixels = nullptr;  ///< first element of the image
    Range rows, columns;            ///< rows of the output; columns: channels of the group

    void run() {
        padded_ = round_up(columns.size(), width_);
        acc_ = scratch_.acc.get(rows.size() * p_.out_w * padded_);
        each_pixel([&](int64_t, int64_t c_offset, float* acc) {
            start_row(kernels_, scratch_, p_.b, c_offset, columns.size(), padded_, acc);
        });
        const int64_t front = plane * p_.stride_d - p_.pad_front;
        const TapRange planes = valid_taps(front, p_.dilation_d, p_.kernel_d, p_.depth);
        for (int64_t kd = planes.first; kd < planes.last; ++kd) {
            pixels_ = pixels + (front + kd * p_.dilation_d) * p_.height * p_.width * p_.channels;
            tap_rows_ = kd * p_.kernel_h;
            add_plane();
        }
        each_pixel([&](int64_t y_offset, int64_t c_offset, float* acc) {
            finish_row(kernels_, scratch_, p_.b, c_offset, columns.size(), acc, *p_.y, y_offset);
        });
    }

  private:
    void add_plane() {
        const int64_t k = p_.kernel_w * p_.group_in;
        for (int64_t kh = 0; kh < p_.kernel_h; ++kh) {
            const Range valid = valid_rows(kh);
            for (int64_t first = 0; valid.size() > 0 && first < k; first += tap_block)
                add(kh, valid, {first, std::min(k, first + tap_block)});
        }
    }

    /// visit(element of Y, element of the addend, sums).
    template <class Visit>
    void each_pixel(const Visit& visit) const {
        const int64_t channel = group * p_.group_out + columns.first;
        float* acc = acc_;
        for (const Strip& strip : strips_) {
            for (int64_t y = rows.first; y < rows.last; ++y) {
                for (int64_t x = strip.first; x < strip.first + strip.count; ++x, acc += padded_) {
                    const int64_t pixel = ((image * p_.out_d + plane) * p_.out_h + y) * p_.out_w + x;
                    visit(pixel * p_.out_channels + channel, p_.c_offset(image, plane, y, x, channel), acc);
                }
            }
        }
    }

    int64_t top(int64_t y, int64_t kh) const { return y * p_.stride_h - p_.pad_top + kh * p_.dilation_h; }

    /// Output rows whose window has its row kh inside the image.
    Range valid_rows(int64_t kh) const {
        Range valid = rows;
        while (valid.size() > 0 && top(valid.first, kh) < 0) ++valid.first;
        while (valid.size() > 0 && top(valid.last - 1, kh) >= p_.height) --valid.last;
        return valid;
    }

    /// [panel][k][width], zero-filled.
    const float* packed_weights(int64_t kh, Range k) {
        float* to = scratch_.panels.get(k.size() * padded_);
        const int64_t channel = group * p_.group_out + columns.first, n = columns.size();
        for (int64_t i = 0; i < k.size(); ++i) {
            const float* from =
                weights_ + ((tap_rows_ + kh) * p_.kernel_w * p_.group_in + k.first + i) * p_.out_channels +
                channel;
            for (int64_t first = 0; first < n; first += width_) {
                float* at = to + first * k.size() + i * width_;
                const int64_t used = std::min(width_, n - first);
                std::copy_n(from + first, used, at);
                std::fill(at + used, at + width_, 0.0F);
            }
        }
        return to;
    }

    /// Packs what the pixels of a strip multiply: their taps k of row kh, pixel after pixel.
    void pack_pixels(const Strip& strip, int64_t kh, Range valid, Range k, float* to) const {
        const int64_t at_once = p_.dilation_w == 1 && p_.groups == 1 ? k.size() : p_.group_in;
        for (int64_t y = valid.first; y < valid.last; ++y) {
            for (int64_t x = strip.first; x < strip.first + strip.count; ++x) {
                const int64_t left = x * p_.stride_w - p_.pad_left;
                for (int64_t i = k.first; i < k.last;) {
                    const int64_t kw = i / p_.group_in, channel = i % p_.group_in;
                    const int64_t count =
                        std::min(at_once - (at_once == p_.group_in ? channel : 0), k.last - i);
                    const int64_t pixel = top(y, kh) * p_.width + left + kw * p_.dilation_w;
                    std::copy_n(pixels_ + pixel * p_.channels + group * p_.group_in + channel, count, to);
                    to += count;
                    i += count;
                }
            }
        }
    }

    /// Adds the products of the taps k of row kh of the window.
    void add(int64_t kh, Range valid, Range k) {
        struct Part {
            Range k;
            int64_t count;  ///< pixels
            const float* a;
            float* acc;
        };
        std::vector<Part> parts;
        float* left = scratch_.rows.get(valid.size() * p_.out_w * k.size());
        float* acc = acc_;
        for (const Strip& strip : strips_) {
            const Range own{std::max(k.first, strip.taps.first * p_.group_in),
                            std::min(k.last, strip.taps.last * p_.group_in)};
            if (own.size() > 0) {
                parts.push_back({own, valid.size() * strip.count, left,
                                 acc + (valid.first - rows.first) * strip.count * padded_});
                pack_pixels(strip, kh, valid, own, left);
                left += parts.back().count * own.size();
            }
            acc += rows.size() * strip.count * padded_;
        }
        const float* right = packed_weights(kh, k);
        for (int64_t first = 0; first < padded_; first += width_) {
            for (const Part& part : parts) {
                const float* b = right + first * k.size() + (part.k.first - k.first) * width_;
                for (int64_t r = 0; r < part.count; r += kernels_.f32_rows) {
                    kernels_.f32_tile(static_cast<int>(std::min<int64_t>(kernels_.f32_rows, part.count - r)),
                                      part.k.size(), part.a + r * part.k.size(), part.k.size(), b,
                                      part.acc + r * padded_ + first, padded_);
                }
            }
        }
    }

    const Kernels& kernels_;
    Scratch& scratch_;
    const ConvProblem& p_;
    const std::vector<Strip>& strips_;
    const float* weights_;
    const int64_t width_;
    const float* pixels_ = nullptr;  ///< plane that taps are taken from
    int64_t tap_rows_ = 0;           ///< rows of the window before those of this plane
    int64_t padded_ = 0;
    float* acc_ = nullptr;
};

}  // namespace

bool float_conv(const Kernels& kernels, Scratch& scratch, const ConvProblem& p) {
    if (p.flat() && p.groups > 1 && p.group_in == 1 && p.group_out == 1) {
        depthwise(kernels, scratch, p);
        return true;
    }
    const int64_t taps = p.kernel_d * p.kernel_h * p.kernel_w * p.group_in;
    const int64_t image_size = p.depth * p.height * p.width * p.channels;
    const std::vector<Strip> strips = strips_of(p);
    Block block(kernels, scratch, p, strips, as_f32(kernels, *p.w, 0, taps * p.out_channels, scratch.right));
    const auto run_plane = [&] {
        const int64_t rows = std::max<int64_t>(1, pixels_at_once / std::max<int64_t>(1, p.out_w));
        for (int64_t row = 0; row < p.out_h; row += rows) {
            block.rows = {row, std::min(p.out_h, row + rows)};
            for (int64_t column = 0; column < p.group_out; column += columns_at_once) {
                block.columns = {column, std::min(p.group_out, column + columns_at_once)};
                block.run();
            }
        }
    };
    for (block.image = 0; block.image < p.batch; ++block.image) {
        block.pixels = as_f32(kernels, *p.x, block.image * image_size, image_size, scratch.left);
        for (block.group = 0; block.group < p.groups; ++block.group) {
            for (block.plane = 0; block.plane < p.out_d; ++block.plane) run_plane();
        }
    }
    return true;
}

}  // namespace kpu::values::fast
