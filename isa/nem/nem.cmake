kpu_embed(nem_families_source nem_families ${CMAKE_CURRENT_SOURCE_DIR}/nem/families.nem)
kpu_library(nem TOGETHER 4
  SOURCES nem/lexer.cpp nem/reader.cpp nem/config_reader.cpp nem/document.cpp nem/loader.cpp nem/variants.cpp
          nem/program_reader.cpp nem/task_reader.cpp nem/operand_reader.cpp nem/symbols.cpp nem/metadata.cpp
          nem/printer.cpp nem/print_parts.cpp nem/plain.cpp ${nem_families_source}
  LINK kpu::isa)
