#include "tests/accuracy/resnet50_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "isa/builder.hpp"

namespace kpu::accuracy {
namespace {

using namespace kpu::builder;

constexpr int64_t slab = 64;              ///< output channels at a time
constexpr int64_t chunk = 64;             ///< input channels of an accumulation step, 3x3 and larger
constexpr int64_t flat_chunk = 256;       ///< the same, 1x1
constexpr int64_t most_pixels = 128;      ///< limit of a block of output rows
constexpr int64_t most_input = 36 << 10;  ///< bytes of a block's input
constexpr int64_t spill_bytes = 512 << 10;
constexpr int64_t l2_slot = 450 << 10;  ///< bytes of an activation in L2, with its border

/// An activation, height and width alike, with a border of zeros for the layer that reads it.
struct Tensor {
    int64_t size = 0, channels = 0, border = 0;
    Buffer buffer;
    int64_t offset = 0;
    int l2 = -1;  ///< slot in L2; -1: DDR
    int64_t width() const { return size + 2 * border; }
    int64_t bytes() const { return width() * width() * channels; }
    /// Returns the rows and columns from (y, x) on, of some channels; (0, 0) is the first pixel inside the
    /// border.
    TensorType type(int64_t rows, int64_t columns, int64_t part) const {
        return tensor(ElemType::i8, {1, rows, columns, part})
            .layout("NHWC")
            .strides({bytes(), width() * channels, channels, 1});
    }
    int64_t at(int64_t y, int64_t x, int64_t channel) const {
        return offset + ((y + border) * width() + x + border) * channels + channel;
    }
};

/// A place in a memory that tasks use in turn: who comes next waits for those that used it last.
struct Slot {
    Buffer buffer;
    std::vector<Task> users;
};

class Builder {
  public:
    Builder() : p_("resnet50") {
        const auto slots = [&](auto& list, const char* name, Level level, int64_t bytes) {
            for (size_t i = 0; i < list.size(); ++i)
                list[i].buffer = p_.buffer(fmt::format("{}{}", name, i), level, bytes, 64);
        };
        slots(weights_l2_, "weights_l2_", Level::l2, 9 * 512 * slab);
        slots(weights_, "weights_", Level::l1, 9 * chunk * slab);
        slots(input_, "input_", Level::l1, most_input);
        slots(sum_, "sum_", Level::l1, most_pixels * slab * 4);
        slots(result_, "result_", Level::l1, most_pixels * slab);
        slots(shortcut_, "shortcut_", Level::l1, most_pixels * slab);
        slots(activations_, "activations_", Level::l2, l2_slot);
    }

    Module build() {
        Tensor x = tensor(224, 3, 3, true);
        x = pool(convolution("conv1", x, 64, 7, 2, 1));
        const std::array<int64_t, 4> depth = {3, 4, 6, 3};
        for (int64_t stage = 0; stage < 4; ++stage)
            for (int64_t block = 0; block < depth[static_cast<size_t>(stage)]; ++block)
                x = bottleneck(fmt::format("s{}b{}", stage + 1, block + 1), x, int64_t{64} << stage,
                               stage > 0 && block == 0 ? 2 : 1, block == 0);
        Tensor pooled = tensor(1, 2048, 0);
        release(x);
        convolution("fc", pooled, 1000, 1, 1, 0);
        return p_.build();
    }

  private:
    Tensor tensor(int64_t size, int64_t channels, int64_t border, bool in_ddr = false) {
        Tensor t;
        t.size = size;
        t.channels = channels;
        t.border = border;
        if (!in_ddr && size * size * channels <= spill_bytes) {
            for (size_t i = 0; i < taken_.size() && t.l2 < 0; ++i)
                if (!taken_[i]) t.l2 = static_cast<int>(i);
            taken_[static_cast<size_t>(t.l2)] = true;
            t.buffer = activations_[static_cast<size_t>(t.l2)].buffer;
        } else {
            t.buffer = p_.buffer(fmt::format("spilled_{}", spilled_++), Level::ddr, t.bytes(), 64);
        }
        return t;
    }
    void release(const Tensor& t) {
        if (t.l2 >= 0) taken_[static_cast<size_t>(t.l2)] = false;
    }
    static builder::TensorType tensor(ElemType elem, std::vector<Expr> shape) {
        return builder::tensor(elem, std::move(shape));
    }

    Tensor bottleneck(const std::string& name, const Tensor& x, int64_t channels, int64_t stride,
                      bool project) {
        Tensor shortcut = x;
        if (project) shortcut = convolution(name + "_project", x, 4 * channels, 1, stride, 1, nullptr, true);
        const Tensor a = convolution(name + "_1x1", x, channels, 1, 1, 1, nullptr, !project);
        const Tensor b = convolution(name + "_3x3", a, channels, 3, stride, 1);
        const Tensor y = convolution(name + "_expand", b, 4 * channels, 1, 1, 1, &shortcut);
        release(shortcut);
        return y;
    }

    /// `border`: of the result. The input is released unless `keep`.
    Tensor convolution(const std::string& name, const Tensor& x, int64_t channels, int64_t kernel,
                       int64_t stride, int64_t border, const Tensor* shortcut = nullptr, bool keep = false) {
        if (!last_.empty()) p_.wait(last_);
        last_.clear();
        op_ = p_.op(name, "conv2d");
        const Tensor y = tensor((x.size + stride - 1) / stride, channels, border);
        const Buffer weights =
            p_.buffer(name + "_weights", Level::ddr, kernel * kernel * x.channels * channels, 64);
        const int64_t step = std::min(x.channels, kernel == 1 && stride == 1 ? flat_chunk : chunk);
        const int64_t rows = block_rows(y, kernel, stride, step);
        for (int64_t n = 0; n < channels; n += slab) {
            const int64_t count = std::min(slab, channels - n);
            const int64_t bytes = kernel * kernel * x.channels * count;
            Slot& slab_slot = weights_l2_[slabs_++ % 2];
            const Task load = p_.transfer("", p_.bytes("", slab_slot.buffer, 0, bytes),
                                          p_.bytes("", weights, kernel * kernel * x.channels * n, bytes))
                                  .after(slab_slot.users)
                                  .op(op_);
            slab_slot.users = {load};
            in_l1_ = {};
            for (int64_t row = 0; row < y.size; row += rows)
                block({x, y, shortcut, slab_slot, load, n, count, row, std::min(rows, y.size - row), kernel,
                       stride, step});
        }
        if (!keep) release(x);
        return y;
    }

    static int64_t block_rows(const Tensor& y, int64_t kernel, int64_t stride, int64_t step) {
        int64_t rows = std::max<int64_t>(1, std::min(y.size, most_pixels / y.size));
        const auto input = [&](int64_t r) {
            return ((r - 1) * stride + kernel) * ((y.size - 1) * stride + kernel) * step;
        };
        while (rows > 1 && input(rows) > most_input) --rows;
        return rows;
    }

    /// One block of rows of one slab of channels.
    struct Block {
        const Tensor& x;
        const Tensor& y;
        const Tensor* shortcut;
        Slot& slab_slot;
        Task slab_load;
        int64_t n, count, row, rows, kernel, stride, step;
    };

    void block(const Block& b) {
        Slot& sum = sum_[blocks_ % 2];
        const auto shape = std::vector<Expr>{1, b.rows, b.y.size, b.count};
        const Region total = p_.region(
            "", sum.buffer, 0, tensor(ElemType::i32, shape).layout("NHWC").quant(per_tensor(1.0 / 512)));
        std::vector<Task> before = sum.users;
        for (int64_t c = 0; c < b.x.channels; c += b.step) before = {accumulate(b, c, total, before)};
        sum.users = {finish(b, total, before, shape)};
        ++blocks_;
    }

    Task accumulate(const Block& b, int64_t c, const Region& total, const std::vector<Task>& before) {
        const int64_t part = std::min(b.step, b.x.channels - c);
        const int64_t rows = (b.rows - 1) * b.stride + b.kernel,
                      columns = (b.y.size - 1) * b.stride + b.kernel;
        Slot& input = input_[steps_++ % 2];
        const Region in =
            p_.region("", input.buffer, 0, tensor(ElemType::i8, {1, rows, columns, part}).layout("NHWC"));
        const int64_t edge = b.kernel / 2;
        std::vector<Task> needed = before;
        needed.push_back(p_.transfer("", in,
                                     p_.region("", b.x.buffer, b.x.at(b.row * b.stride - edge, -edge, c),
                                               b.x.type(rows, columns, part)))
                             .after(input.users)
                             .op(op_));
        Slot* weights = nullptr;
        needed.push_back(load_weights(b, c, part, weights));
        const Region w = p_.region("", weights->buffer, 0,
                                   tensor(ElemType::i8, {b.kernel, b.kernel, part, b.count}).layout("HWIO"));
        std::vector<Region> operands = {in, w};
        if (c > 0) operands.push_back(total);
        Task task = p_.compute("conv2d.acc", operands, {total})
                        .attr("strides", {b.stride, b.stride})
                        .attr("pads", {0, 0, 0, 0})
                        .attr("dilations", {1, 1})
                        .attr("accum_type", ElemType::i32)
                        .after(needed)
                        .op(op_);
        input.users = {task};
        weights->users.push_back(task);
        return task;
    }

    /// Returns the weights of a chunk, from the slab in L2; they stay while the chunks of a layer fit the
    /// slots.
    Task load_weights(const Block& b, int64_t c, int64_t part, Slot*& slot) {
        const size_t place = static_cast<size_t>(c / b.step) % 2;
        slot = &weights_[place];
        if (in_l1_[place] == c + 1) return slot->users.front();
        in_l1_[place] = c + 1;
        const int64_t bytes = b.kernel * b.kernel * part * b.count;
        std::vector<Task> needed = slot->users;
        needed.push_back(b.slab_load);
        const Task load =
            p_.transfer("", p_.bytes("", slot->buffer, 0, bytes),
                        p_.bytes("", b.slab_slot.buffer, b.kernel * b.kernel * c * b.count, bytes))
                .after(needed)
                .op(op_);
        b.slab_slot.users.push_back(load);
        slot->users = {load};
        return load;
    }

    /// Requantises, adds the shortcut and brings the result home. The task after which the sum is free.
    Task finish(const Block& b, const Region& total, const std::vector<Task>& before,
                const std::vector<Expr>& shape) {
        Slot& result = result_[blocks_ % 2];
        const auto type = tensor(ElemType::i8, shape).layout("NHWC").quant(per_tensor(1.0 / 16));
        const Region out = p_.region("", result.buffer, 0, type);
        std::vector<Task> needed = before;
        needed.insert(needed.end(), result.users.begin(), result.users.end());
        const Task requant = p_.compute("requant", {total}, {out}).after(needed).op(op_);
        Task last = requant;
        if (b.shortcut != nullptr) {
            Slot& other = shortcut_[blocks_ % 2];
            const Region added = p_.region("", other.buffer, 0, type);
            const Task load = p_.transfer("", added,
                                          p_.region("", b.shortcut->buffer, b.shortcut->at(b.row, 0, b.n),
                                                    b.shortcut->type(b.rows, b.y.size, b.count)))
                                  .after(other.users)
                                  .op(op_);
            last = p_.compute("add", {out, added}, {out}).after({requant, load}).op(op_);
            other.users = {last};
        }
        const Region home =
            p_.region("", b.y.buffer, b.y.at(b.row, 0, b.n), b.y.type(b.rows, b.y.size, b.count));
        Task save = b.y.l2 >= 0 ? p_.store("", home, out) : p_.transfer("", home, out);
        save.after({last}).op(op_);
        result.users = {save};
        last_.push_back(save);
        return requant;
    }

    /// Returns the 3x3 maximum pool after conv1.
    Tensor pool(const Tensor& x) {
        p_.wait(last_);
        last_.clear();
        op_ = p_.op("pool", "maxpool");
        const Tensor y = tensor(56, 64, 1);
        for (int64_t row = 0; row < y.size; ++row) {
            Slot &input = input_[static_cast<size_t>(row) % 2],
                 &result = result_[static_cast<size_t>(row) % 2];
            const Region in =
                p_.region("", input.buffer, 0, tensor(ElemType::i8, {1, 3, 113, 64}).layout("NHWC"));
            const Region out =
                p_.region("", result.buffer, 0, tensor(ElemType::i8, {1, 1, y.size, 64}).layout("NHWC"));
            const Task load =
                p_.transfer("", in, p_.region("", x.buffer, x.at(2 * row - 1, -1, 0), x.type(3, 113, 64)))
                    .after(input.users)
                    .op(op_);
            std::vector<Task> needed = result.users;
            needed.push_back(load);
            const Task work = p_.compute("maxpool", {in}, {out})
                                  .attr("kernel_shape", {3, 3})
                                  .attr("strides", {2, 2})
                                  .attr("pads", {0, 0, 0, 0})
                                  .after(needed)
                                  .op(op_);
            input.users = {work};
            Task save = p_.store("", p_.region("", y.buffer, y.at(row, 0, 0), y.type(1, y.size, 64)), out);
            save.after({work}).op(op_);
            result.users = {save};
            last_.push_back(save);
        }
        release(x);
        return y;
    }

    Program p_;
    std::array<Slot, 2> weights_l2_, weights_, input_, sum_, result_, shortcut_;
    std::array<Slot, 3> activations_;
    std::array<bool, 3> taken_{};
    std::array<int64_t, 2> in_l1_{};  ///< for each slot: 1 + first channel of the weights there; 0: none
    std::vector<Task> last_;          ///< tasks that write the present layer's result
    uint32_t op_ = 0;
    size_t slabs_ = 0, blocks_ = 0, steps_ = 0, spilled_ = 0;
};

}  // namespace

Module resnet50() { return Builder().build(); }

}  // namespace kpu::accuracy
