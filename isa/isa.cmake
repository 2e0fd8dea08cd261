kpu_library(isa
  SOURCES unit_kind.cpp module.cpp opcode_table.cpp bound_program.cpp expr.cpp
    structure.cpp known_fields.cpp container.cpp builder.cpp bind.cpp bind_memory.cpp bind_statements.cpp
    bind_host.cpp iterations.cpp footprint.cpp verify.cpp verify_names.cpp verify_operands.cpp
    verify_shapes.cpp verify_views.cpp output_shapes.cpp verify_memory.cpp
  LINK kpu::base kpu_program_proto Boost::boost Boost::iostreams)
