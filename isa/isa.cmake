kpu_library(isa
  SOURCES types.cpp
  LINK kpu_program_proto Boost::boost)
