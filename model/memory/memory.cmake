# kpu::memory: the memory system, free of SystemC; kpu::interconnect: its SystemC modules.
kpu_library(memory
  SOURCES memory/bank_recorder.cpp memory/ddr.cpp memory/ddr_controllers.cpp memory/sram.cpp memory/stream_state.cpp memory/stepper.cpp
          memory/memory_system.cpp memory/memory_config.cpp memory/platform_config.cpp
  LINK kpu_isa kpu_values kpu_platforms kpu_traces kpu_dram)
kpu_library(interconnect OBJECT
  SOURCES memory/interconnect.cpp memory/memory_target.cpp memory/open_streams.cpp memory/stream_protocol.cpp
  LINK kpu_memory ${SYSTEMC_LIBRARY})
# one translation unit: a burst passes functions of most of these files, which is where the host's time goes
set_target_properties(kpu_memory PROPERTIES UNITY_BUILD ON)
