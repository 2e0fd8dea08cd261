#include "values/backend_base.hpp"
#include "values/fast/fast.hpp"
#include "values/reference.hpp"

namespace kpu::values {
namespace fast {
namespace {

class FastBackend final : public BackendBase {
  public:
    explicit FastBackend(const Kernels& kernels) : kernels_(kernels) {}
    const char* name() const override { return "fast"; }

  private:
    void run(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
             const BoundAttrs& attrs) override {
        if (!handle(op, inputs, outputs, attrs)) reference::execute(op, inputs, outputs, attrs);
    }

    bool handle(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                const BoundAttrs& attrs) {
        const Tensor &x = inputs[0], &y = outputs[0];
        if (is_contraction(op)) return contraction(op, inputs, outputs, attrs);
        if (is_pointwise(op)) return pointwise(kernels_, pointwise_problem(op, inputs, attrs), inputs, y);
        if (is_view(op)) return false;  // one implementation: it copies
        if (is_reduction(op)) return reduce(kernels_, scratch_, reduce_problem(op, inputs, attrs), x, y);
        if (is_norm(op)) {
            norm(kernels_, scratch_, norm_problem(op, inputs, attrs), x, y);
            return true;
        }
        if (op == Op::maxpool) return maxpool(kernels_, scratch_, pool_problem(op, inputs, outputs, attrs));
        if (op == Op::avgpool) return avgpool(kernels_, scratch_, pool_problem(op, inputs, outputs, attrs));
        return convert(kernels_, op, x, y);
    }

    bool contraction(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                     const BoundAttrs& attrs) {
        const bool integer = is_integer(inputs[0].type);
        if (op >= Op::conv2d) {
            const ConvProblem p = conv_problem(op, inputs, outputs, attrs);
            return integer ? int_conv(kernels_, scratch_, p) : float_conv(kernels_, scratch_, p);
        }
        const GemmProblem p = gemm_problem(op, inputs, outputs, attrs);
        if (integer) return int_gemm(kernels_, scratch_, p);
        float_gemm(kernels_, scratch_, p);
        return true;
    }

    const Kernels& kernels_;
    Scratch scratch_;
};

}  // namespace

std::unique_ptr<ComputeBackend> make_backend(const Kernels& kernels) {
    return std::make_unique<FastBackend>(kernels);
}

}  // namespace fast

std::unique_ptr<ComputeBackend> make_fast_backend() {
    const fast::KernelList list = fast::usable_kernels();
    return fast::make_backend(*list.items[list.count - 1]);
}

}  // namespace kpu::values
