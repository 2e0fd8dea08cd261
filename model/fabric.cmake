# kpu::fabric: the memory system, free of SystemC; kpu::interconnect: its SystemC modules.
kpu_library(fabric
  SOURCES fabric/ddr.cpp fabric/ddr_controllers.cpp fabric/sram.cpp fabric/stream_state.cpp fabric/stepper.cpp fabric/fabric.cpp
          fabric/fabric_config.cpp fabric/platform_config.cpp
  LINK kpu_isa kpu_values kpu_platforms kpu_traces kpu_dram)
kpu_library(interconnect OBJECT
  SOURCES fabric/interconnect.cpp fabric/memory_target.cpp fabric/open_streams.cpp fabric/stream_protocol.cpp
  LINK kpu_fabric ${SYSTEMC_LIBRARY})
# one translation unit: a burst passes functions of most of these files, which is where the host's time goes
set_target_properties(kpu_fabric PROPERTIES UNITY_BUILD ON)
