#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "values/fast/kernels.hpp"

namespace kpu::values::fast {
namespace {

#if defined(__x86_64__)

/// True if the processor has F16C, which not every compiler's __builtin_cpu_supports knows.
bool has_f16c() {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

KernelList find_kernels() {
    KernelList list{{&portable_kernels, &baseline_kernels}, 2};
    const auto add = [&list](const Kernels& kernels) { list.items[list.count++] = &kernels; };
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) {
        add(avx2_kernels);
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
            add(avx512_kernels);
            if (__builtin_cpu_supports("avx512vnni")) add(avx512_vnni_kernels);
        }
    }
    return list;
}
#else
KernelList find_kernels() { return {{&portable_kernels}, 1}; }
#endif

}  // namespace

/// Returns the kernels that this processor can run, found once: a virtual machine's host answers for the
/// processor, which takes time.
KernelList usable_kernels() {
    static const KernelList list = find_kernels();
    return list;
}

}  // namespace kpu::values::fast
