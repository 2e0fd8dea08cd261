// Pass 5: the shapes that each class of opcode asks for.
#include <fmt/format.h>

#include <algorithm>

#include "isa/verify_passes.hpp"

namespace kpu {
namespace {

class ShapeCheck {
  public:
    ShapeCheck(const VerifyContext& context, const BoundTask& task, const SourcePos& pos)
        : context_(context), task_(task), pos_(pos), spec_(opcode(task.opcode)) {}

    void run() {
        switch (spec_.op_class) {
            case OpcodeClass::gemm:
                return check_gemm();
            case OpcodeClass::conv:
                return check_conv();
            case OpcodeClass::pooling:
                return check_pool();
            case OpcodeClass::norm:
                return check_norm();
            case OpcodeClass::elementwise:
            case OpcodeClass::convert:
            case OpcodeClass::softmax:
                return check_identical();
            case OpcodeClass::view:
            case OpcodeClass::reduction:
                return;  // no such opcode is in the table yet
        }
    }

  private:
    const BoundRegion& in(size_t i) const { return context_.region(task_.inputs[i]); }
    const BoundRegion& out() const { return context_.region(task_.outputs[0]); }

    template <class... Args>
    void fail(fmt::format_string<Args...> text, Args&&... args) const {
        context_.error(pos_,
                       fmt::format("{}: {}", spec_.name, fmt::format(text, std::forward<Args>(args)...)));
    }

    void check_identical() const {
        for (size_t i = 0; i < task_.inputs.size(); ++i) {
            if (in(i).shape == out().shape) continue;
            return fail("shapes must be identical, {} and {} differ. Fix: give both the same shape.",
                        operand_text(spec_.inputs[i].name, in(i)),
                        operand_text(spec_.outputs[0].name, out()));
        }
    }

    void check_gemm() const {
        const Dims &a = in(0).shape, &b = in(1).shape, &y = out().shape;
        const std::string operands = fmt::format("{}, {}, {}", operand_text("A", in(0)),
                                                 operand_text("B", in(1)), operand_text("Y", out()));
        if (a.rank < 2 || b.rank != a.rank || y.rank != a.rank) {
            return fail("operands need one rank of at least 2: {}. Fix: reshape the regions.", operands);
        }
        const size_t m = a.rank - 2u, n = a.rank - 1u;
        for (size_t d = 0; d < m; ++d) {
            if (a[d] != b[d] || a[d] != y[d]) {
                return fail("leading dimensions must be equal: {}. Fix: use equal batches.", operands);
            }
        }
        if (a[n] != b[m])
            return fail("inner dimensions must be equal: {}. Fix: A is [M,K], B is [K,N].", operands);
        if (y[m] != a[m] || y[n] != b[n])
            return fail("Y must be [M,N] of A and B: {}. Fix: change its shape.", operands);
        if (task_.inputs.size() < 3) return;
        const Dims& c = in(2).shape;
        bool fits = c.rank <= y.rank;
        for (size_t d = 1; fits && d <= c.rank; ++d)
            fits = c[c.rank - d] == 1 || c[c.rank - d] == y[y.rank - d];
        if (!fits) {
            fail("{} cannot be broadcast to {}. Fix: use [N], [1,N], [M,1] or [M,N].",
                 operand_text("C", in(2)), operand_text("Y", out()));
        }
    }

    /// A list attribute of `count` integers, none below `least`.
    const std::vector<int64_t>* list(std::string_view name, size_t count, int64_t least) const {
        const BoundAttr* attr = task_.attrs.find(name);
        if (attr == nullptr) return nullptr;  // reported when the attributes were bound
        if (attr->ints.size() != count) {
            fail("{} needs {} integers, has {}. Fix: write {}=[{}].", name, count, attr->ints.size(), name,
                 count == 4 ? "top, left, bottom, right" : "vertical, horizontal");
            return nullptr;
        }
        for (const int64_t value : attr->ints) {
            if (value < least || value > INT32_MAX) {
                fail("{} has {}; {} to {} are allowed.", name, value, least, INT32_MAX);
                return nullptr;
            }
        }
        return &attr->ints;
    }

    /// Output size along one axis by the rule of the opcode table; 0 when the window does not fit at all.
    static int64_t derived(int64_t in, int64_t before, int64_t after, int64_t window, int64_t stride) {
        const int64_t room = in + before + after - window;
        return room < 0 ? 0 : room / stride + 1;
    }

    void check_output(const std::array<int64_t, 2>& size, bool may_be_smaller) const {
        const Dims& y = out().shape;
        for (size_t d = 0; d < 2; ++d) {
            if (size[d] < 1)
                return fail("the window does not fit into {}. Fix: add pads.", operand_text("X", in(0)));
            if (y[d + 1] == size[d]) continue;
            if (y[d + 1] < size[d] && may_be_smaller) {
                context_.warning(
                    pos_,
                    fmt::format("{}: output {} is smaller than the derived {}x{}; only the declared extents "
                                "are computed. Fix: declare the derived size.",
                                spec_.name, operand_text("Y", out()), size[0], size[1]));
                continue;
            }
            return fail("output {} must be {}x{} by pads, strides and window. Fix: change its shape.",
                        operand_text("Y", out()), size[0], size[1]);
        }
    }

    void check_conv() const {
        const Dims &x = in(0).shape, &w = in(1).shape, &y = out().shape;
        if (x.rank != 4 || w.rank != 4 || y.rank != 4) {
            return fail("X (NHWC), W (HWIO) and Y need 4 dimensions: {}, {}, {}. Fix: reshape the regions.",
                        operand_text("X", in(0)), operand_text("W", in(1)), operand_text("Y", out()));
        }
        const auto* pads = list("pads", 4, 0);
        const auto* strides = list("strides", 2, 1);
        const auto* dilations = list("dilations", 2, 1);
        const int64_t groups = task_.attrs.integer("groups", 1);
        if (groups < 1 || x[3] % groups != 0 || w[3] % groups != 0 || w[2] != x[3] / groups) {
            return fail(
                "{} and {} do not fit with groups={}: W is [Kh,Kw,Cin/groups,Cout]. Fix: change W or groups.",
                operand_text("X", in(0)), operand_text("W", in(1)), groups);
        }
        if (y[0] != x[0] || y[3] != w[3]) {
            return fail(
                "{} must have the batch of X ({}) and the output channels of W ({}). Fix: change its shape.",
                operand_text("Y", out()), x[0], w[3]);
        }
        if (pads == nullptr || strides == nullptr || dilations == nullptr) return;
        std::array<int64_t, 2> size{};
        for (size_t d = 0; d < 2; ++d) {
            const int64_t window = (*dilations)[d] * (w[d] - 1) + 1;
            size[d] = derived(x[d + 1], (*pads)[d], (*pads)[d + 2], window, (*strides)[d]);
        }
        check_output(size, true);
        if (task_.inputs.size() < 3) return;
        const Dims& bias = in(2).shape;
        const bool per_channel = bias.rank == 1 && bias[0] == w[3];
        const bool addend = spec_.in_place_allowed && bias == y;
        if (!per_channel && !addend) {
            fail("{} must be [{}]{}. Fix: change its shape.", operand_text(spec_.inputs[2].name, in(2)), w[3],
                 spec_.in_place_allowed ? " or the shape of Y" : "");
        }
    }

    void check_pool() const {
        const Dims &x = in(0).shape, &y = out().shape;
        if (x.rank != 4 || y.rank != 4 || x[0] != y[0] || x[3] != y[3]) {
            return fail("{} and {} must be NHWC with equal batch and channels. Fix: change the shapes.",
                        operand_text("X", in(0)), operand_text("Y", out()));
        }
        const auto* kernel = list("kernel_shape", 2, 1);
        const auto* pads = list("pads", 4, 0);
        const auto* strides = list("strides", 2, 1);
        if (kernel == nullptr || pads == nullptr || strides == nullptr) return;
        std::array<int64_t, 2> size{};
        for (size_t d = 0; d < 2; ++d) {
            if ((*pads)[d] >= (*kernel)[d] || (*pads)[d + 2] >= (*kernel)[d]) {
                return fail(
                    "pads must be smaller than kernel_shape, or a window holds no element. Fix: use less "
                    "padding.");
            }
            size[d] = derived(x[d + 1], (*pads)[d], (*pads)[d + 2], (*kernel)[d], (*strides)[d]);
        }
        check_output(size, false);
    }

    void check_norm() const {
        const Dims& x = in(0).shape;
        if (!(x == out().shape)) {
            return fail("shapes must be identical, {} and {} differ. Fix: give both the same shape.",
                        operand_text("X", in(0)), operand_text("Y", out()));
        }
        const int64_t axis = task_.attrs.integer("axis", 0);
        if (axis < 0 || axis >= x.rank) {
            return fail("axis is outside the {} dimensions of {}. Fix: use 0 to {} or a negative one.",
                        int{x.rank}, operand_text("X", in(0)), x.rank - 1);
        }
        if (task_.attrs.real("epsilon", 0) < 0) return fail("epsilon is negative. Fix: use 0 or above.");
        for (size_t i = 1; i < task_.inputs.size(); ++i) {
            const Dims& scale = in(i).shape;
            if (scale.rank == 1 && scale[0] == x[static_cast<size_t>(axis)]) continue;
            fail("{} must be [{}], the size along axis {}. Fix: change its shape.",
                 operand_text(spec_.inputs[i].name, in(i)), x[static_cast<size_t>(axis)], axis);
        }
    }

    const VerifyContext& context_;
    const BoundTask& task_;
    const SourcePos& pos_;
    const OpcodeSpec& spec_;
};

}  // namespace

void verify_shapes(const VerifyContext& context, const BoundTask& task, const SourcePos& pos) {
    ShapeCheck(context, task, pos).run();
}

}  // namespace kpu
