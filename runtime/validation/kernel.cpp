#include "runtime/validation/kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/diagnostics.hpp"
#include "isa/builder.hpp"
#include "runtime/validation/span.hpp"

namespace kpu::validation {
namespace {

using namespace kpu::builder;

/// Elements of the layout's lines; all machines of such kernels have arrays as wide.
constexpr int64_t lanes = 128;

/// A kernel as a program: buffers, transfers one after the other, and what the arrays do between.
class KernelProgram {
  public:
    KernelProgram(const Kernel& kernel, const platforms::Platform& platform)
        : kernel_(kernel), program_("kernel"), platform_(platform) {
        const auto engines = platforms::engines_of(platform);
        const proto::Engine& engine = engines.at(0).get();
        l1_bytes_ = static_cast<int64_t>(engine.l1().size_bytes());
        arrays_ = std::max<int64_t>(1, engine.array().count());
        array_rows_ = std::max<int64_t>(1, engine.array().rows());
        array_columns_ = std::max<int64_t>(1, engine.array().cols());
        elem_bytes_ = std::max(1, bit_width(kernel.elem) / 8);
    }

    Module build() {
        switch (kernel_.kind) {
            case Kernel::Kind::copy:
                copy();
                break;
            case Kernel::Kind::product:
                product();
                break;
            case Kernel::Kind::convolution:
                convolution();
                break;
            case Kernel::Kind::elements:
            case Kernel::Kind::rows:
                vector();
                break;
            case Kernel::Kind::attention:
                attention();
                break;
        }
        return std::move(program_).build();
    }

  private:
    int64_t bytes_of(const std::vector<int64_t>& shape) const { return laid_out(shape, lanes) * elem_bytes_; }
    [[noreturn]] void no_tile(const char* what) const {
        throw UserError(
            fmt::format("{}: no tile of {} fits {} bytes of L1. Fix: set engine.l1.size_bytes, or leave "
                        "the row out.",
                        platform_.name(), what, l1_bytes_));
    }
    /// Makes a buffer in L1 after those before.
    Buffer in_l1(const char* name, int64_t bytes) {
        return program_.l1_buffer(name, 0, std::max<int64_t>(bytes, 1), 64);
    }
    /// Makes a buffer in the memory where the kernel's tensors are; those that it has no more room for lie in
    /// DDR.
    Buffer at_home(const char* name, int64_t bytes) {
        constexpr int64_t line = 64;
        at_home_ += ceil_div(bytes, line) * line;
        const bool fits =
            kernel_.home != Level::l2 || at_home_ <= static_cast<int64_t>(platform_.l2().size_bytes());
        return program_.buffer(name, fits ? kernel_.home : Level::ddr, std::max<int64_t>(bytes, 1), line);
    }
    TensorType elements(std::vector<Expr> shape) const { return tensor(kernel_.elem, std::move(shape)); }

    /// Loads bytes of a buffer at home, from a place on, to the start of one in L1.
    Task load(Buffer to, Buffer from, int64_t at, int64_t bytes, const std::vector<Task>& after) {
        return program_.transfer("", program_.bytes("", to, 0, bytes), program_.bytes("", from, at, bytes))
            .after(after);
    }
    Task store(Buffer to, Buffer from, int64_t at, int64_t bytes, const std::vector<Task>& after) {
        return program_.transfer("", program_.bytes("", to, at, bytes), program_.bytes("", from, 0, bytes))
            .after(after);
    }

    Task gemm(const Region& left, const Region& right, const Region& out) {
        return program_.compute("gemm", {left, right}, {out}).attr("accum_type", ElemType::f32);
    }

    void copy() {
        const Buffer from = program_.buffer("X", Level::ddr, kernel_.m, 64),
                     to = program_.buffer("Y", Level::l2, kernel_.m, 64);
        program_.transfer("", program_.bytes("", to, 0, kernel_.m), program_.bytes("", from, 0, kernel_.m));
    }

    /// Sides of a product's tile: the sum is whole.
    std::array<int64_t, 2> tile_of_product() const {
        std::array<int64_t, 2> tile{kernel_.m, kernel_.n};
        for (;;) {
            const int64_t bytes = bytes_of({tile[0], kernel_.k}) + bytes_of({kernel_.k, tile[1]}) +
                                  split_of(tile[0], tile[1], arrays_).sum * bytes_of({tile[0], tile[1]});
            if (bytes <= l1_bytes_) return tile;
            int64_t& longer = tile[0] >= tile[1] ? tile[0] : tile[1];
            if (longer <= lanes) no_tile("a product with the whole sum");
            longer = ceil_div(longer / 2, lanes) * lanes;
        }
    }

    /// Numbers of parts that a product is cut into, for as many arrays.
    struct Split {
        int64_t rows = 1, columns = 1, sum = 1;
        int64_t cycles = INT64_MAX;
    };
    /// Returns, of all cuts of rows, columns and the sum, the one that takes fewest cycles of the arrays, and
    /// of the vector unit, which adds the parts of a sum.
    Split split_of(int64_t m, int64_t n, int64_t most_sums) const {
        constexpr int64_t vector_lanes = 1024;
        const int64_t blocks = ceil_div(n, array_columns_), folds = ceil_div(kernel_.k, array_rows_);
        Split best;
        for (int64_t rows = 1; rows <= arrays_; ++rows) {
            for (int64_t columns = 1; rows * columns <= arrays_; ++columns) {
                for (int64_t sum = 1; sum <= most_sums && rows * columns * sum <= arrays_; ++sum) {
                    const int64_t cycles = ceil_div(blocks, columns) * ceil_div(folds, sum) *
                                               std::max(ceil_div(m, rows), array_rows_) +
                                           (sum - 1) * ceil_div(m * n, vector_lanes);
                    if (cycles < best.cycles) best = {rows, columns, sum, cycles};
                }
            }
        }
        return best;
    }

    /// Multiplies on all arrays; `parts` has room for the parts of a sum after the first.
    std::vector<Task> multiply(Buffer a, Buffer b, Buffer y, Buffer parts, int64_t most_sums, int64_t m,
                               int64_t n, const std::vector<Task>& after) {
        const Split split = split_of(m, n, most_sums);
        const int64_t k_part = ceil_div(ceil_div(kernel_.k, array_rows_), split.sum) * array_rows_;
        const int64_t n_part = ceil_div(ceil_div(n, array_columns_), split.columns) * array_columns_;
        std::vector<Task> tasks;
        const std::vector<Span> sums = cut(kernel_.k, k_part);
        for (size_t s = 0; s < sums.size(); ++s) {
            const int64_t at = s == 0 ? 0 : (static_cast<int64_t>(s) - 1) * m * n * elem_bytes_;
            for (const Span rows : cut(m, ceil_div(m, split.rows)))
                for (const Span columns : cut(n, n_part))
                    tasks.push_back(part(a, b, s == 0 ? y : parts, at, rows, columns, sums[s], n, after));
        }
        for (size_t s = 1; s < sums.size(); ++s) {
            const Region total = program_.region("", y, 0, elements({m, n}));
            const Region addend = program_.region(
                "", parts, (static_cast<int64_t>(s) - 1) * m * n * elem_bytes_, elements({m, n}));
            tasks = {program_.compute("add", {total, addend}, {total}).after(tasks)};
        }
        return tasks;
    }
    Task part(Buffer a, Buffer b, Buffer y, int64_t y_at, Span rows, Span columns, Span sum, int64_t n,
              const std::vector<Task>& after) {
        const int64_t k = kernel_.k;
        const Region left = program_.region("", a, (rows.first * k + sum.first) * elem_bytes_,
                                            elements({rows.size, sum.size}).strides({k, 1}));
        const Region right = program_.region("", b, (sum.first * n + columns.first) * elem_bytes_,
                                             elements({sum.size, columns.size}).strides({n, 1}));
        const Region out = program_.region("", y, y_at + (rows.first * n + columns.first) * elem_bytes_,
                                           elements({rows.size, columns.size}).strides({n, 1}));
        return gemm(left, right, out).after(after);
    }

    void product() {
        const int64_t k = kernel_.k;
        const auto [tile_m, tile_n] = tile_of_product();
        const Buffer a_home = at_home("A", bytes_of({kernel_.m, k})),
                     b_home = at_home("B", bytes_of({k, kernel_.n})),
                     y_home = at_home("Y", bytes_of({kernel_.m, kernel_.n}));
        const Buffer a = in_l1("a", bytes_of({tile_m, k})), b = in_l1("b", bytes_of({k, tile_n})),
                     y = in_l1("y", bytes_of({tile_m, tile_n}));
        const int64_t sums = split_of(tile_m, tile_n, arrays_).sum;
        const Buffer parts = sums > 1 ? in_l1("parts", (sums - 1) * bytes_of({tile_m, tile_n})) : y;
        std::vector<Task> before;
        for (const Span columns : cut(kernel_.n, tile_n)) {
            for (const Span rows : cut(kernel_.m, tile_m)) {
                std::vector<Task> loads;
                if (rows.first == 0)  // the right operand stays for all rows
                    loads.push_back(load(b, b_home, 0, bytes_of({k, columns.size}), before));
                if (!kernel_.left_is_here && (columns.first == 0 || tile_m < kernel_.m))
                    loads.push_back(load(a, a_home, 0, bytes_of({rows.size, k}), before));
                if (loads.empty()) loads = before;
                const std::vector<Task> done = multiply(a, b, y, parts, sums, rows.size, columns.size, loads);
                before = done;
                if (!kernel_.result_stays)
                    before = {store(y_home, y, 0, bytes_of({rows.size, columns.size}), done)};
            }
        }
    }

    /// Pictures of one tile: as many as L1 holds, with sums of four bytes.
    int64_t pictures_of_tile() const {
        const Kernel& c = kernel_;
        for (int64_t pictures = c.batch; pictures > 0; pictures = pictures > 1 ? ceil_div(pictures, 2) : 0) {
            const int64_t padded =
                pictures * (c.height + 2 * c.pad) * (c.width + 2 * c.pad) * c.k * elem_bytes_;
            const int64_t input = std::max(padded, bytes_of({pictures, c.height, c.width, c.k}));
            const int64_t result = pictures * c.out_height() * c.out_width() * c.n;
            const int64_t output =
                std::max(result * sum_bytes, bytes_of({pictures, c.out_height(), c.out_width(), c.n}));
            if (input + output + bytes_of({c.window, c.window, c.k, c.n}) <= l1_bytes_) return pictures;
        }
        no_tile("a picture");
    }

    void convolution() {
        const Kernel& c = kernel_;
        const int64_t most = pictures_of_tile(), out_height = c.out_height(), out_width = c.out_width();
        const int64_t in_rows = c.height + 2 * c.pad, in_columns = c.width + 2 * c.pad;
        const auto input_bytes = [&](int64_t n) { return bytes_of({n, c.height, c.width, c.k}); };
        const auto output_bytes = [&](int64_t n) { return bytes_of({n, out_height, out_width, c.n}); };
        const int64_t weight_bytes = bytes_of({c.window, c.window, c.k, c.n});
        const Buffer x_home = at_home("X", input_bytes(c.batch)), w_home = at_home("W", weight_bytes),
                     y_home = at_home("Y", output_bytes(c.batch));
        const Buffer x =
            in_l1("x", std::max(input_bytes(most), most * in_rows * in_columns * c.k * elem_bytes_));
        const Buffer w = in_l1("w", weight_bytes);
        const Buffer y =
            in_l1("y", std::max(output_bytes(most), most * out_height * out_width * c.n * sum_bytes));
        const Task weights = load(w, w_home, 0, weight_bytes, {});
        std::vector<Task> before = {weights};
        for (const Span pictures : cut(c.batch, most)) {
            const std::vector<Task> loads = {load(x, x_home, 0, input_bytes(pictures.size), before)};
            std::vector<Task> done;
            const bool by_picture = pictures.size >= arrays_;
            const int64_t all = by_picture ? pictures.size : out_height;
            for (const Span share : cut(all, ceil_div(all, arrays_))) {
                const Span rows = by_picture ? Span{0, out_height} : share;
                const Span own = by_picture ? share : Span{0, pictures.size};
                const auto array = static_cast<int64_t>(done.size());
                done.push_back(window(x, w, y, own, rows, in_rows, in_columns, array, loads));
            }
            before = {store(y_home, y, 0, output_bytes(pictures.size), done)};
        }
    }

    /// Computes the positions of the window for some pictures and rows, on one array, which keeps their
    /// order: no token has to. Returns the last task.
    Task window(Buffer x, Buffer w, Buffer y, Span pictures, Span rows, int64_t in_rows, int64_t in_columns,
                int64_t array, const std::vector<Task>& after) {
        const Kernel& c = kernel_;
        const int64_t out_height = c.out_height(), out_width = c.out_width();
        const int64_t y_at = (pictures.first * out_height + rows.first) * out_width * c.n * sum_bytes;
        const Region sums =
            program_.region("", y, y_at,
                            tensor(ElemType::f32, {pictures.size, rows.size, out_width, c.n})
                                .strides({out_height * out_width * c.n, out_width * c.n, c.n, 1}));
        std::optional<Task> last;
        for (int64_t i = 0; i < c.window; ++i) {
            for (int64_t j = 0; j < c.window; ++j) {
                const int64_t x_at = (pictures.first * in_rows + rows.first * c.stride + i) * in_columns + j;
                const Region input =
                    program_.region("", x, x_at * c.k * elem_bytes_,
                                    elements({pictures.size, rows.size, out_width, c.k})
                                        .strides({in_rows * in_columns * c.k, c.stride * in_columns * c.k,
                                                  c.stride * c.k, 1}));
                const Region position = program_.region("", w, (i * c.window + j) * c.k * c.n * elem_bytes_,
                                                        elements({1, 1, c.k, c.n}));
                last = program_.compute("conv2d.acc", {input, position, sums}, {sums})
                           .attr("pads", {0, 0, 0, 0})
                           .attr("strides", {1, 1})
                           .attr("dilations", {1, 1})
                           .attr("accum_type", ElemType::f32)
                           .resource(UnitKind::nmu, array)
                           .after(after);
            }
        }
        return *last;
    }

    /// Computes rows, or elements, as many at a time as L1 holds.
    void vector() {
        const bool by_rows = kernel_.kind == Kernel::Kind::rows;
        const auto shape = [&](int64_t part) {
            return by_rows ? std::vector<int64_t>{part, kernel_.n} : std::vector<int64_t>{part};
        };
        const auto inputs = static_cast<size_t>(kernel_.inputs);
        int64_t most = kernel_.m;
        while (most > 1 && bytes_of(shape(most)) * (kernel_.inputs + 1) > l1_bytes_) most = ceil_div(most, 2);
        if (bytes_of(shape(most)) * (kernel_.inputs + 1) > l1_bytes_) no_tile("a row");
        std::vector<Buffer> home, here;
        for (size_t i = 0; i < inputs; ++i) {
            home.push_back(at_home(fmt::format("X{}", i).c_str(), bytes_of(shape(kernel_.m))));
            here.push_back(in_l1(fmt::format("x{}", i).c_str(), bytes_of(shape(most))));
        }
        const Buffer y_home = at_home("Y", bytes_of(shape(kernel_.m))), y = in_l1("y", bytes_of(shape(most)));
        std::vector<Task> before;
        for (const Span part : cut(kernel_.m, most)) {
            std::vector<Expr> dims;
            for (const int64_t size : shape(part.size)) dims.emplace_back(size);
            std::vector<Task> loads;
            std::vector<Region> operands;
            for (size_t i = 0; i < inputs; ++i) {
                loads.push_back(load(here[i], home[i], 0, bytes_of(shape(part.size)), before));
                operands.push_back(program_.region("", here[i], 0, elements(dims)));
            }
            Task work =
                program_.compute(kernel_.opcode, operands, {program_.region("", y, 0, elements(dims))});
            if (by_rows) work.attr("axis", 1);
            if (kernel_.opcode == "layernorm") work.attr("epsilon", 1e-5);
            if (kernel_.opcode == "leaky_relu" || kernel_.opcode == "elu") work.attr("alpha", 0.1);
            if (kernel_.opcode == "selu") work.attr("alpha", 1.6733).attr("gamma", 1.0507);
            work.after(loads);
            before = {store(y_home, y, 0, bytes_of(shape(part.size)), {work})};
        }
    }

    /// Computes attention: Q, K and V come at once; scores of a head stay in L1.
    void attention() {
        const int64_t places = kernel_.m, width = kernel_.n;
        const int64_t whole = bytes_of({kernel_.heads, places, width}), head = places * width * elem_bytes_,
                      scores_bytes = places * places * elem_bytes_;
        if (4 * whole + 2 * arrays_ * scores_bytes > l1_bytes_) no_tile("an attention");
        std::array<Buffer, 3> parts;
        std::vector<Task> loads;
        for (size_t i = 0; i < parts.size(); ++i) {
            parts.at(i) = in_l1(fmt::format("x{}", i).c_str(), whole);
            loads.push_back(load(parts.at(i), at_home(fmt::format("X{}", i).c_str(), whole), 0, whole, {}));
        }
        const Buffer y = in_l1("y", whole), y_home = at_home("Y", whole);
        const auto slots = static_cast<size_t>(2 * arrays_);
        const Buffer scores = in_l1("scores", static_cast<int64_t>(slots) * scores_bytes);
        std::vector<std::optional<Task>> used(slots);
        std::vector<Task> done;
        for (int64_t h = 0; h < kernel_.heads; ++h) {
            const size_t slot = static_cast<size_t>(h) % slots;
            const auto of_head = [&](Buffer buffer, const TensorType& type) {
                return program_.region("", buffer, h * head, type);
            };
            const Region table = program_.region("", scores, static_cast<int64_t>(slot) * scores_bytes,
                                                 elements({places, places}));
            std::vector<Task> first = loads;
            if (used[slot]) first.push_back(*used[slot]);
            const Region query = of_head(parts[0], elements({places, width})),
                         key = of_head(parts[1], elements({width, places})),
                         value = of_head(parts[2], elements({places, width}));
            const Task dots = gemm(query, key, table).after(first);
            const Task weights = program_.compute("softmax", {table}, {table}).attr("axis", 1).after({dots});
            used[slot] = gemm(table, value, of_head(y, elements({places, width}))).after({weights});
            done.push_back(*used[slot]);
        }
        store(y_home, y, 0, whole, done);
    }

    const Kernel& kernel_;
    Program program_;
    const platforms::Platform& platform_;
    int64_t at_home_ = 0;  ///< bytes there so far
    int64_t l1_bytes_ = 0, arrays_ = 1, array_rows_ = 1, array_columns_ = 1, elem_bytes_ = 1;
};

}  // namespace

std::string Kernel::text() const {
    return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", int(kind), opcode, int(elem),
                       int(home), m, n, k, heads, inputs, batch, height, width, window, stride, pad,
                       left_is_here, result_stays);
}

int64_t laid_out(const std::vector<int64_t>& shape, int64_t lane_count) {
    constexpr int64_t block = 8;
    const auto up = [](int64_t value, int64_t unit) { return ceil_div(value, unit) * unit; };
    if (shape.size() == 1) return up(shape[0], block * lane_count);
    int64_t all = 1;
    for (const int64_t size : shape) all *= size;
    int64_t least = INT64_MAX;
    for (size_t last = 0; last < shape.size(); ++last) {
        for (size_t second = 0; second < shape.size(); ++second) {
            if (second == last) continue;
            least = std::min(least, all / shape[last] / shape[second] * up(shape[last], lane_count) *
                                        up(shape[second], block));
        }
    }
    return least;
}

Module kernel_program(const Kernel& kernel, const platforms::Platform& platform) {
    return KernelProgram(kernel, platform).build();
}

}  // namespace kpu::validation
