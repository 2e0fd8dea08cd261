kpu_proto(kernel_proto kernel/kernel.proto)
kpu_library(kernel TOGETHER 5
  SOURCES kernel/types.cpp kernel/operations.cpp kernel/lexer.cpp kernel/expression_reader.cpp kernel/parser.cpp
          kernel/printer.cpp kernel/form.cpp kernel/builder.cpp kernel/analyse.cpp kernel/analyse_expressions.cpp
          kernel/flow.cpp kernel/tile_shapes.cpp kernel/tile_rules.cpp kernel/tile_analysis.cpp kernel/tile_flow.cpp
          kernel/tile_lifetimes.cpp
  LINK kpu::base kpu_kernel_proto)
# An object file of its own: docs/adding_a_kernel_operation.md puts another one in its place.
set_source_files_properties(kernel/operations.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
