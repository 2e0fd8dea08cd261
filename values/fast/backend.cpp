#include "values/backend_base.hpp"

namespace kpu::values {
namespace fast {
namespace {

class FastBackend final : public BackendBase {
  public:
    explicit FastBackend(const Kernels& kernels) : kernels_(kernels) {}
    const char* name() const override { return "fast"; }

  private:
    void run(const Arithmetic& arithmetic, const Call& call) override {
        if (arithmetic.fast && arithmetic.fast(kernels_, scratch_, call)) return;
        for (const Tensor& output : call.outputs) {  // counted by a fast form that gave up
            if (output.beyond != nullptr) *output.beyond = {};
        }
        arithmetic.reference(call);
    }

    const Kernels& kernels_;
    Scratch scratch_;
};

}  // namespace

bool gemm(const Kernels& kernels, Scratch& scratch, const Call& call) {
    const GemmProblem p = gemm_problem(call);
    if (is_integer(call.x().type)) return int_gemm(kernels, scratch, p);
    float_gemm(kernels, scratch, p);
    return true;
}

bool conv(const Kernels& kernels, Scratch& scratch, const Call& call) {
    const ConvProblem p = conv_problem(call);
    if (p.transposed) return transposed_conv(kernels, scratch, p);
    return is_integer(call.x().type) ? int_conv(kernels, scratch, p) : float_conv(kernels, scratch, p);
}

std::unique_ptr<ComputeBackend> make_backend(const Kernels& kernels) {
    return std::make_unique<FastBackend>(kernels);
}

}  // namespace fast

std::unique_ptr<ComputeBackend> make_fast_backend() {
    const fast::KernelList list = fast::usable_kernels();
    return fast::make_backend(*list.items[list.count - 1]);
}

}  // namespace kpu::values
