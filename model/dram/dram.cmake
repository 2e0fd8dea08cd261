# kpu::dram: DRAM channels with their controllers, free of SystemC.
kpu_library(dram
  SOURCES dram/address_map.cpp dram/bank_observer.cpp dram/channel.cpp dram/config.cpp dram/energy.cpp dram/maintenance.cpp dram/replay.cpp dram/rows.cpp dram/same_bank.cpp dram/trace.cpp dram/trace_lines.cpp
  LINK kpu_isa kpu_platforms)
