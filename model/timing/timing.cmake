# kpu::timing: closed-form unit formulas, no SystemC.
kpu_library(timing
  SOURCES timing/memory.cpp timing/systolic.cpp timing/starvation.cpp timing/vector.cpp
  LINK kpu::isa kpu_platform_proto)
