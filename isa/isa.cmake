find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto) # SHA-256 of side files
kpu_library(isa
  SOURCES types.cpp diagnostics.cpp module.cpp text.cpp opcode_table.cpp bound_program.cpp expr.cpp digest.cpp
    structure.cpp known_fields.cpp container.cpp builder.cpp bind.cpp bind_memory.cpp bind_statements.cpp
    bind_host.cpp iterations.cpp footprint.cpp verify.cpp verify_names.cpp verify_operands.cpp
    read_file.cpp verify_shapes.cpp verify_views.cpp output_shapes.cpp verify_memory.cpp
  LINK kpu_program_proto Boost::boost Boost::iostreams OpenSSL::Crypto)
