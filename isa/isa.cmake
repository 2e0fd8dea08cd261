kpu_library(isa
  SOURCES types.cpp diagnostics.cpp module.cpp text.cpp opcode_table.cpp bound_program.cpp expr.cpp
  LINK kpu_program_proto Boost::boost)
