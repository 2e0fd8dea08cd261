# What other projects link: the libraries kpusim::simulator and kpusim::compiler, both as kpusim::kpusim, from an installation
# (find_package(kpusim)) or as a part of another tree (add_subdirectory). docs/install.md is its page.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(KPUSIM_ABI ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}) # libraries of one fit headers of the same one
string(REPLACE . _ KPUSIM_ABI_SYMBOL kpusim_is_version_${KPUSIM_ABI})
set(package ${PROJECT_BINARY_DIR}/package)
set(shared ${CMAKE_INSTALL_DATADIR}/kpusim)

# Public headers: those of public_headers.txt, and what they include. In the package they include each other as
# <kpusim/...>, so that no folder of a user's project can stand in their way.
configure_file(${CMAKE_CURRENT_LIST_DIR}/version.hpp.in ${package}/version.hpp @ONLY)
add_custom_command(
  OUTPUT ${package}/headers.stamp
  COMMAND ${CMAKE_COMMAND} -DROOTS=${CMAKE_CURRENT_LIST_DIR}/public_headers.txt -DSOURCE=${PROJECT_SOURCE_DIR}
          -DBINARY=${PROJECT_BINARY_DIR} -DPACKAGE=${package} -P ${CMAKE_CURRENT_LIST_DIR}/package_headers.cmake
  DEPENDS ${CMAKE_CURRENT_LIST_DIR}/public_headers.txt ${CMAKE_CURRENT_LIST_DIR}/package_headers.cmake
          ${package}/version.hpp ${PROJECT_BINARY_DIR}/isa/kpu_program.pb.h
          ${PROJECT_BINARY_DIR}/isa/kernel/kernel.pb.h ${PROJECT_BINARY_DIR}/platforms/platform.pb.h
  DEPFILE ${package}/headers.d
  VERBATIM)
add_custom_target(kpusim_public_headers ALL DEPENDS ${package}/headers.stamp)
add_dependencies(kpusim_public_headers kpu_program_proto kpu_kernel_proto kpu_platform_proto)

# Schemas, and the Python modules that protoc makes of them, as the package kpusim_messages.
set(schemas isa/kernel/kernel.proto isa/kpu_program.proto platforms/platform.proto)
list(TRANSFORM schemas PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE schema_files)
add_custom_command(
  OUTPUT ${package}/messages.stamp
  COMMAND ${CMAKE_COMMAND} "-DSCHEMAS=${schemas}" -DPROTOC=$<TARGET_FILE:protobuf::protoc> -DSOURCE=${PROJECT_SOURCE_DIR}
          -DPACKAGE=${package} -P ${CMAKE_CURRENT_LIST_DIR}/package_messages.cmake
  DEPENDS ${schema_files} ${CMAKE_CURRENT_LIST_DIR}/package_messages.cmake
  VERBATIM)
add_custom_target(kpusim_messages ALL DEPENDS ${package}/messages.stamp)

# kpu_shared(NAME FROM targets... WITHOUT targets... LINK targets...): kpusim::NAME, a shared library of the objects that the
# static libraries of this tree are made of; our command and the Python package link those, not it.
function(kpu_shared name)
  cmake_parse_arguments(ARG "" "OUTPUT" "FROM;WITHOUT;LINK" ${ARGN})
  kpu_closure(parts others ${ARG_FROM})
  if(ARG_WITHOUT)
    kpu_closure(there others_there ${ARG_WITHOUT})
    list(REMOVE_ITEM parts ${there})
  endif()
  set(library kpusim_${name})
  add_library(${library} SHARED ${PROJECT_SOURCE_DIR}/cmake/library_version.cpp)
  add_library(kpusim::${name} ALIAS ${library})
  foreach(part ${parts})
    get_target_property(type ${part} TYPE)
    if(NOT type STREQUAL INTERFACE_LIBRARY)
      target_sources(${library} PRIVATE $<TARGET_OBJECTS:${part}>)
    endif()
  endforeach()
  target_compile_definitions(${library} PRIVATE KPUSIM_ABI_SYMBOL=${KPUSIM_ABI_SYMBOL}_${name})
  target_link_libraries(${library} PUBLIC ${ARG_LINK} PRIVATE ${others})
  target_link_options(${library} PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exported_symbols.txt)
  target_include_directories(${library} INTERFACE $<BUILD_INTERFACE:${package}/include>
                                                  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${library} INTERFACE cxx_std_17)
  add_dependencies(${library} kpusim_public_headers)
  set_target_properties(${library} PROPERTIES
    OUTPUT_NAME ${ARG_OUTPUT} EXPORT_NAME ${name} VERSION ${PROJECT_VERSION} SOVERSION ${KPUSIM_ABI}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exported_symbols.txt INSTALL_RPATH $ORIGIN
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  if(KPUSIM_INSTALL)
    install(TARGETS ${library} EXPORT kpusim-${name}
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${name} NAMELINK_COMPONENT ${name})
    install(EXPORT kpusim-${name} NAMESPACE kpusim:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kpusim
            COMPONENT ${name})
  endif()
endfunction()

option(KPUSIM_INSTALL "declare what cmake --install copies" ${PROJECT_IS_TOP_LEVEL})
set(simulator_parts kpu::runtime kpu::explain kpu::compare kpu::what_if kpu::analysis kpu::dram)
kpu_shared(simulator OUTPUT kpusim FROM ${simulator_parts} LINK fmt::fmt protobuf::libprotobuf)
add_library(kpusim_all INTERFACE)
target_link_libraries(kpusim_all INTERFACE kpusim::simulator)
add_library(kpusim::kpusim ALIAS kpusim_all)
if(KPUSIM_COMPILER)
  kpu_shared(compiler OUTPUT kpusim_compiler FROM kpu::compiler kpu::trials kpu::schedule_engine WITHOUT ${simulator_parts}
             LINK kpusim_simulator)
  target_link_libraries(kpusim_all INTERFACE kpusim::compiler)
endif()

if(NOT KPUSIM_INSTALL)
  return()
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/kpusimConfig.cmake.in ${package}/kpusimConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kpusim PATH_VARS shared)
write_basic_package_version_file(${package}/kpusimConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH KPUSIM_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix) # it may be moved
set(KPUSIM_PC_LIBRARIES -lkpusim)
if(KPUSIM_COMPILER)
  set(KPUSIM_PC_LIBRARIES "-lkpusim_compiler -lkpusim")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/kpusim.pc.in ${package}/kpusim.pc @ONLY)
install(FILES ${package}/kpusimConfig.cmake ${package}/kpusimConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kpusim COMPONENT simulator)
install(FILES ${package}/kpusim.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT simulator)
install(DIRECTORY ${package}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT simulator)
install(FILES ${kpu_platform_files} DESTINATION ${shared}/platforms COMPONENT simulator)
install(DIRECTORY ${package}/proto ${package}/python DESTINATION ${shared} COMPONENT simulator)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT simulator)
if(TARGET kpusim)
  install(TARGETS kpusim RUNTIME COMPONENT command)
endif()
