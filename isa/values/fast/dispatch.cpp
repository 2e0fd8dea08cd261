#include "isa/values/fast/kernels.hpp"

namespace kpu::values::fast {

KernelList usable_kernels() {
    KernelList list{{&baseline_kernels}, 1};
    const auto add = [&list](const Kernels& kernels) { list.items[list.count++] = &kernels; };
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
        add(avx2_kernels);
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
            add(avx512_kernels);
            if (__builtin_cpu_supports("avx512vnni")) add(avx512_vnni_kernels);
        }
    }
    return list;
}

}  // namespace kpu::values::fast
