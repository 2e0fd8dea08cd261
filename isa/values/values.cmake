# kpu::values: memory levels, exact arithmetic (reference and fast), evaluation of tasks.
kpu_library(values
  SOURCES values/memory_image.cpp values/region_copy.cpp values/executor.cpp
          values/float_environment.cpp values/problem.cpp values/op_types.cpp values/quant_map.cpp
          values/backend_base.cpp values/elementary.cpp values/views.cpp values/reference.cpp
          values/reference_contraction.cpp values/reference_norm.cpp
          values/fast/backend.cpp values/fast/dispatch.cpp values/fast/float_contraction.cpp
          values/fast/int_contraction.cpp values/fast/pointwise.cpp values/fast/real.cpp values/fast/pool.cpp
          values/fast/slab.cpp values/fast/kernels_baseline.cpp
          values/fast/kernels_avx2.cpp values/fast/kernels_avx512.cpp
  LINK kpu_isa ${SLEEF_LIBRARY})
# Nothing here may change a result (no contraction, no reassociation); not modelling traps and errno only lets loops
# vectorise.
set(kernel_flags -O3 -fno-trapping-math -fno-math-errno)
set_source_files_properties(values/fast/kernels_baseline.cpp PROPERTIES COMPILE_OPTIONS "${kernel_flags}")
set_source_files_properties(values/fast/kernels_avx2.cpp PROPERTIES
  COMPILE_OPTIONS "${kernel_flags};-mavx2;-mfma;-mf16c")
set_source_files_properties(values/fast/kernels_avx512.cpp PROPERTIES
  COMPILE_OPTIONS "${kernel_flags};-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl")
# They are compiled for other instruction sets than the precompiled header.
set_source_files_properties(values/fast/kernels_baseline.cpp values/fast/kernels_avx2.cpp values/fast/kernels_avx512.cpp
                            PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
