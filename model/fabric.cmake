# kpu::fabric: the memory system, free of SystemC; kpu::interconnect: its SystemC modules.
set(fabric_needs kpu_isa kpu_platform_proto kpu_program_proto)
foreach(target kpu_values kpu_platforms)
  if(TARGET ${target})
    list(APPEND fabric_needs ${target})
  endif()
endforeach()
kpu_library(fabric
  SOURCES fabric/ddr.cpp fabric/fabric.cpp fabric/fabric_config.cpp fabric/platform_config.cpp fabric/sram.cpp
          fabric/stream_state.cpp
  LINK ${fabric_needs})
kpu_library(interconnect OBJECT
  SOURCES fabric/interconnect.cpp fabric/memory_target.cpp fabric/stream_protocol.cpp
  LINK kpu_fabric ${SYSTEMC_LIBRARY})
