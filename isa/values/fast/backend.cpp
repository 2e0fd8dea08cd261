#include "isa/values/backend_base.hpp"
#include "isa/values/fast/fast.hpp"
#include "isa/values/reference.hpp"

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
        const bool integer = is_integer(inputs[0].type);
        switch (op) {
            case Op::gemm:
            case Op::matmul:
            case Op::gemm_acc: {
                const GemmProblem p = gemm_problem(op, inputs, outputs, attrs);
                if (integer) return int_gemm(kernels_, scratch_, p);
                float_gemm(kernels_, scratch_, p);
                return true;
            }
            case Op::conv2d:
            case Op::conv2d_acc: {
                const ConvProblem p = conv_problem(op, inputs, outputs, attrs);
                if (integer) return int_conv(kernels_, scratch_, p);
                float_conv(kernels_, scratch_, p);
                return true;
            }
            case Op::relu:
            case Op::add:
                return pointwise(kernels_, scratch_, op, inputs, outputs[0]);
            case Op::maxpool:
                return maxpool(kernels_, scratch_, pool_problem(inputs, outputs, attrs));
            case Op::rmsnorm:
                return rmsnorm(kernels_, scratch_, norm_problem(inputs, outputs, attrs), inputs[0],
                               outputs[0]);
            default:
                return convert(kernels_, scratch_, op, inputs[0], outputs[0]);
        }
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
