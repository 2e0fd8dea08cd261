kpu_library(isa TOGETHER 5
  SOURCES unit_kind.cpp device_limits.cpp data_section.cpp module.cpp bound_module.cpp bound_program.cpp mac_share.cpp expr.cpp
    structure.cpp structure_kernels.cpp places.cpp nesting.cpp known_fields.cpp message_text.cpp wire_fault.cpp program_message.cpp container.cpp builder.cpp bind.cpp bind_memory.cpp bind_statements.cpp bind_launch.cpp
    bind_host.cpp iterations.cpp reach.cpp footprint.cpp verify.cpp verify_names.cpp verify_operands.cpp
    verify_shapes.cpp verify_memory.cpp shapes.cpp
    opcodes/table.cpp opcodes/types.cpp opcodes/shape_rules.cpp opcodes/movement.cpp opcodes/products.cpp
    opcodes/elementwise.cpp opcodes/pools_and_norms.cpp opcodes/views.cpp opcodes/reductions.cpp
    opcodes/conversions.cpp
  LINK kpu::base kpu::kernel kpu_program_proto Boost::boost Boost::iostreams)
# Object files of their own: the tests of docs/adding_*.md put others in their place.
set_source_files_properties(unit_kind.cpp opcodes/elementwise.cpp opcodes/pools_and_norms.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
