// Pass 5: the shapes that each class of opcode asks for.
#include <fmt/format.h>
#include <fmt/ranges.h>

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
                return check_elementwise();
            case OpcodeClass::convert:
                return check_identical();
            case OpcodeClass::softmax:
                check_identical();
                check_axis();
                return;
            case OpcodeClass::view:
            case OpcodeClass::reduction:
                return verify_view(context_, task_, pos_);
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

    void check_elementwise() const {
        check_identical();
        const BoundRegion& y = out();
        if (spec_.integers_need_quant && is_integer(y.elem) && !y.quant) {
            fail(
                "{} has no quant: the formula has no integer meaning. Fix: give every operand a quant=, or "
                "use a float type.",
                operand_text("Y", y));
        }
        if (y.quant && !is_integer(y.elem))
            fail("{} cannot be quantized. Fix: remove quant.", operand_text("Y", y));
        const BoundAttr *low = task_.attrs.find("min_val"), *high = task_.attrs.find("max_val");
        if (low != nullptr && high != nullptr && low->real > high->real)
            fail("min_val {} is above max_val {}. Fix: swap them.", low->real, high->real);
    }

    bool check_axis() const {
        const int64_t axis = task_.attrs.integer("axis", 0);
        if (axis >= 0 && axis < in(0).shape.rank) return true;
        fail("axis is outside the {} dimensions of {}. Fix: use 0 to {} or a negative one.",
             int{in(0).shape.rank}, operand_text("X", in(0)), in(0).shape.rank - 1);
        return false;
    }

    void check_gemm() const {
        const Dims &a = in(0).shape, &b = in(1).shape, &y = out().shape;
        const auto operands = [this] {
            return fmt::format("{}, {}, {}", operand_text("A", in(0)), operand_text("B", in(1)),
                               operand_text("Y", out()));
        };
        if (a.rank < 2 || b.rank != a.rank || y.rank != a.rank) {
            return fail("operands need one rank of at least 2: {}. Fix: reshape the regions.", operands());
        }
        const size_t m = a.rank - 2u, n = a.rank - 1u;
        for (size_t d = 0; d < m; ++d) {
            if (a[d] != b[d] || a[d] != y[d]) {
                return fail("leading dimensions must be equal: {}. Fix: use equal batches.", operands());
            }
        }
        if (a[n] != b[m])
            return fail("inner dimensions must be equal: {}. Fix: A is [M,K], B is [K,N].", operands());
        if (y[m] != a[m] || y[n] != b[n])
            return fail("Y must be [M,N] of A and B: {}. Fix: change its shape.", operands());
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
            const auto spec = std::find_if(spec_.attributes.begin(), spec_.attributes.end(),
                                           [&](const AttrSpec& candidate) { return candidate.name == name; });
            fail("{} needs {} integer{}, has {}. Fix: write {}={}.", name, count, count == 1 ? "" : "s",
                 attr->ints.size(), name, spec->meaning);
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

    /// size: the derived extents of the output's spatial dimensions, which are 1, 2, ...
    void check_output(const std::vector<int64_t>& size, bool may_be_smaller) const {
        const Dims& y = out().shape;
        for (size_t d = 0; d < size.size(); ++d) {
            if (size[d] < 1)
                return fail("the window does not fit into {}. Fix: add pads.", operand_text("X", in(0)));
            if (y[d + 1] == size[d]) continue;
            if (y[d + 1] < size[d] && may_be_smaller) {
                context_.warning(
                    pos_,
                    fmt::format("{}: output {} is smaller than the derived {}; only the declared extents "
                                "are computed. Fix: declare the derived size.",
                                spec_.name, operand_text("Y", out()), fmt::join(size, "x")));
                continue;
            }
            return fail("output {} must be {} by pads, strides and window. Fix: change its shape.",
                        operand_text("Y", out()), fmt::join(size, "x"));
        }
    }

    /// Dimensions that the window moves along: 1 for conv1d, 3 for conv3d, else 2.
    size_t spatial_rank() const { return spec_.name == "conv1d" ? 1 : spec_.name == "conv3d" ? 3 : 2; }

    void check_conv() const {
        const Dims &x = in(0).shape, &w = in(1).shape, &y = out().shape;
        const size_t spatial = spatial_rank(), last = spatial + 1;
        if (x.rank != last + 1 || w.rank != last + 1 || y.rank != last + 1) {
            constexpr std::string_view layouts[] = {"X (NWC), W (WIO)", "X (NHWC), W (HWIO)",
                                                    "X (NDHWC), W (DHWIO)"};
            return fail("{} and Y need {} dimensions: {}, {}, {}. Fix: reshape the regions.",
                        layouts[spatial - 1], last + 1, operand_text("X", in(0)), operand_text("W", in(1)),
                        operand_text("Y", out()));
        }
        check_product_types();
        const auto* pads = list("pads", 2 * spatial, 0);
        const auto* strides = list("strides", spatial, 1);
        const auto* dilations = list("dilations", spatial, 1);
        const int64_t groups = spec_.name == "depthwise_conv2d" ? x[last] : task_.attrs.integer("groups", 1);
        if (groups < 1 || x[last] % groups != 0 || w[last] % groups != 0 || w[last - 1] != x[last] / groups) {
            return fail(
                "{} and {} do not fit with groups={}: W is [{},Cin/groups,Cout]. Fix: change W or "
                "groups.",
                operand_text("X", in(0)), operand_text("W", in(1)), groups,
                spatial == 1   ? "K"
                : spatial == 2 ? "Kh,Kw"
                               : "Kd,Kh,Kw");
        }
        if (y[0] != x[0] || y[last] != w[last]) {
            return fail(
                "{} must have the batch of X ({}) and the output channels of W ({}). Fix: change its shape.",
                operand_text("Y", out()), x[0], w[last]);
        }
        if (pads == nullptr || strides == nullptr || dilations == nullptr) return;
        std::vector<int64_t> size;
        for (size_t d = 0; d < spatial; ++d) {
            const int64_t window = (*dilations)[d] * (w[d] - 1) + 1;
            size.push_back(derived(x[d + 1], (*pads)[d], (*pads)[d + spatial], window, (*strides)[d]));
        }
        check_output(size, true);
        if (task_.inputs.size() < 3) return;
        const Dims& bias = in(2).shape;
        const bool per_channel = bias.rank == 1 && bias[0] == w[last];
        const bool addend = spec_.in_place_allowed && bias == y;
        if (!per_channel && !addend) {
            fail("{} must be [{}]{}. Fix: change its shape.", operand_text(spec_.inputs[2].name, in(2)),
                 w[last], spec_.in_place_allowed ? " or the shape of Y" : "");
        }
    }

    /// What families say of other convolutions: a device may have none for those of the future.
    void check_product_types() const {
        if (!spec_.future) return;
        if (is_float(in(0).elem) != is_float(in(1).elem) || is_float(in(0).elem) != is_float(out().elem)) {
            return fail("{}, {} and {} mix integers and floats. Fix: use types of one kind.",
                        operand_text("X", in(0)), operand_text("W", in(1)), operand_text("Y", out()));
        }
        const BoundAttr* attr = task_.attrs.find("accum_type");
        const ElemType wanted = is_float(in(0).elem) ? ElemType::f32 : ElemType::i32;
        if (attr != nullptr && attr->type != wanted) {
            fail("accum_type must equal {} for {}. Fix: write accum_type={}.", name_of(wanted),
                 operand_text("X", in(0)), name_of(wanted));
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
        std::vector<int64_t> size;
        for (size_t d = 0; d < 2; ++d) {
            if ((*pads)[d] >= (*kernel)[d] || (*pads)[d + 2] >= (*kernel)[d]) {
                return fail(
                    "pads must be smaller than kernel_shape, or a window holds no element. Fix: use less "
                    "padding.");
            }
            size.push_back(derived(x[d + 1], (*pads)[d], (*pads)[d + 2], (*kernel)[d], (*strides)[d]));
        }
        check_output(size, false);
    }

    void check_norm() const {
        const Dims& x = in(0).shape;
        if (!(x == out().shape)) {
            return fail("shapes must be identical, {} and {} differ. Fix: give both the same shape.",
                        operand_text("X", in(0)), operand_text("Y", out()));
        }
        if (!check_axis()) return;
        const int64_t axis = task_.attrs.integer("axis", 0);
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
