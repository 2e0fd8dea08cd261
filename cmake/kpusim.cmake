# Compile rules shared by every target, and the helpers that declare targets.

if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11)
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} is GCC ${CMAKE_CXX_COMPILER_VERSION}, whose library cannot read floating-point numbers (std::from_chars). Fix: -DCMAKE_CXX_COMPILER= with GCC 12 or newer.")
endif()

find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS iostreams)
find_package(fmt REQUIRED)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto) # SHA-256
if(KPUSIM_COMPILER)
  find_package(ONNX REQUIRED) # its schema: onnx_proto
  find_package(PNG REQUIRED)
  find_package(CLI11 REQUIRED)
endif()
find_library(SYSTEMC_LIBRARY systemc REQUIRED)
find_path(SYSTEMC_INCLUDE sysc/kernel/sc_ver.h REQUIRED)
file(STRINGS ${SYSTEMC_INCLUDE}/sysc/kernel/sc_ver.h systemc_version REGEX "define SC_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9]+" "." systemc_version "${systemc_version}")
string(REGEX MATCH "[0-9]+.[0-9]+.[0-9]+" systemc_version "${systemc_version}")
if(systemc_version VERSION_LESS 2.3.4)
  message(FATAL_ERROR "SystemC in ${SYSTEMC_INCLUDE} is ${systemc_version}. Fix: install 2.3.4, or -DSYSTEMC_INCLUDE= and -DSYSTEMC_LIBRARY= with one.")
endif()
find_library(SLEEF_LIBRARY sleef REQUIRED)
find_library(ISL_LIBRARY isl REQUIRED)

include(CheckCXXSourceCompiles)
check_cxx_source_compiles("#ifndef __x86_64__\n#error\n#endif\nint main() {}" KPUSIM_X86_64)
if(NOT KPUSIM_X86_64)
  add_compile_options(-fsigned-char) # as on x86-64
endif()

# What every header of ours needs; and how our own sources are compiled, which nobody who links them inherits.
add_library(kpu_headers INTERFACE)
target_include_directories(kpu_headers INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
target_link_libraries(kpu_headers INTERFACE fmt::fmt Threads::Threads)
add_library(kpu_flags INTERFACE)
# -ffp-contract=off: results must be the same bits on every machine and compiler.
target_compile_options(kpu_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Werror -ffp-contract=off)
target_link_libraries(kpu_flags INTERFACE kpu_headers)

set(KPUSIM_SANITIZE "" CACHE STRING "sanitizers, as for -fsanitize=")
if(KPUSIM_SANITIZE)
  add_compile_options(-fsanitize=${KPUSIM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${KPUSIM_SANITIZE})
endif()

option(KPUSIM_TIDY "run clang-tidy on every source" OFF)
if(KPUSIM_TIDY)
  find_program(CLANG_TIDY clang-tidy REQUIRED)
  set(CMAKE_CXX_CLANG_TIDY ${CLANG_TIDY} --quiet)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

# One precompiled header for all: parsing the generated schemas would else take most of a compilation.
add_library(kpu_pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
target_link_libraries(kpu_pch PRIVATE kpu_flags protobuf::libprotobuf)
target_precompile_headers(kpu_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/pch.hpp)
add_dependencies(kpu_pch kpu_program_proto kpu_platform_proto)

# kpu_note_rooms(TARGET SOURCES...): the folders of its sources, in its property KPU_ROOMS; each has a target, which builds the
# tests that are linked from it.
function(kpu_note_rooms target)
  get_target_property(rooms ${target} KPU_ROOMS)
  if(NOT rooms)
    set(rooms "")
  endif()
  foreach(source ${ARGN})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    cmake_path(GET source PARENT_PATH room)
    cmake_path(RELATIVE_PATH room BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    list(APPEND rooms ${room})
  endforeach()
  list(REMOVE_DUPLICATES rooms)
  list(FILTER rooms EXCLUDE REGEX "^build/") # generated sources
  set_target_properties(${target} PROPERTIES KPU_ROOMS "${rooms}")
  foreach(room ${rooms})
    string(REPLACE "/" "-" name "room-${room}")
    if(NOT TARGET ${name})
      add_custom_target(${name})
    endif()
  endforeach()
endfunction()

# kpu_own_target(OUT_VAR NAME): the target that this name or alias is, if this project declares it; else empty.
function(kpu_own_target out name)
  set(${out} "" PARENT_SCOPE)
  if(NOT TARGET "${name}")
    return()
  endif()
  get_target_property(imported ${name} IMPORTED)
  get_target_property(folder ${name} SOURCE_DIR)
  cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${folder}" inside)
  if(inside AND NOT imported)
    get_target_property(aliased ${name} ALIASED_TARGET)
    if(aliased)
      set(name ${aliased})
    endif()
    set(${out} ${name} PARENT_SCOPE)
  endif()
endfunction()

# kpu_closure(OURS OTHERS TARGETS...): all that these targets are linked from, in two variables: targets of this project,
# and what is not its own.
function(kpu_closure ours_out others_out)
  set(queue ${ARGN})
  set(ours "")
  set(others "")
  while(queue)
    list(POP_FRONT queue item)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" item "${item}")
    kpu_own_target(target "${item}")
    if(NOT target)
      list(APPEND others "${item}")
      continue()
    endif()
    if(target IN_LIST ours)
      continue()
    endif()
    list(APPEND ours ${target})
    if(TARGET ${target}_cold)
      list(APPEND ours ${target}_cold)
    endif()
    get_target_property(linked ${target} INTERFACE_LINK_LIBRARIES)
    if(linked)
      list(APPEND queue ${linked})
    endif()
  endwhile()
  list(REMOVE_DUPLICATES others)
  set(${ours_out} "${ours}" PARENT_SCOPE)
  set(${others_out} "${others}" PARENT_SCOPE)
endfunction()

# kpu_rooms_of(OUT_VAR TARGETS...): the rooms of all that these targets are linked from.
function(kpu_rooms_of out)
  kpu_closure(ours others ${ARGN})
  set(rooms "")
  foreach(target ${ours})
    get_target_property(own ${target} KPU_ROOMS)
    if(own)
      list(APPEND rooms ${own})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES rooms)
  set(${out} "${rooms}" PARENT_SCOPE)
endfunction()

# Rooms that run for a few milliseconds of a command, whatever it does: at -O1 they compile in two thirds of the time. The
# precompiled header serves both levels.
set(kpu_cold_rooms cli debug explain compare onnx onnx_import pallas tile_schedule scale_sim nem_text container pipeline precision
                   front_end compiler what_if compare trials schedule_engine platforms passes kernel
                   kernel_operations platform_proto tile_schedule_proto)

# kpu_library(NAME [OBJECT] [TOGETHER n] SOURCES... [COLD sources...] LINK targets...): target kpu_NAME, alias kpu::NAME.
# TOGETHER: so many sources are compiled as one, which takes half the time where headers and templates of libraries are
# most of it. COLD: sources of a hot room that are compiled as those of cold ones.
function(kpu_library name)
  cmake_parse_arguments(ARG "OBJECT" "TOGETHER" "SOURCES;COLD;LINK" ${ARGN})
  set(kind STATIC)
  if(ARG_OBJECT)
    set(kind OBJECT) # units register themselves: a static library would drop them
  endif()
  add_library(kpu_${name} ${kind} ${ARG_SOURCES})
  add_library(kpu::${name} ALIAS kpu_${name})
  target_link_libraries(kpu_${name} PRIVATE kpu_flags PUBLIC kpu_headers ${ARG_LINK})
  target_precompile_headers(kpu_${name} REUSE_FROM kpu_pch)
  kpu_note_rooms(kpu_${name} ${ARG_SOURCES})
  if(name IN_LIST kpu_cold_rooms)
    target_compile_options(kpu_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  if(ARG_TOGETHER)
    set_target_properties(kpu_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${ARG_TOGETHER})
  endif()
  if(ARG_COLD)
    list(APPEND kpu_cold_rooms ${name}_cold)
    kpu_library(${name}_cold OBJECT TOGETHER 5 SOURCES ${ARG_COLD} LINK ${ARG_LINK})
    target_sources(kpu_${name} PRIVATE $<TARGET_OBJECTS:kpu_${name}_cold>)
    kpu_note_rooms(kpu_${name} ${ARG_COLD})
  endif()
endfunction()

# kpu_test(NAME [SLOW filter] SOURCES... LINK targets...): one GoogleTest executable, one ctest entry per test; those that the
# filter chooses have the label slow. Five sources are compiled
# as one: a batch takes about as long as its largest source alone. Its tests have a label for each room that they may fail
# by: `room:compiler/passes`; the target of that name builds what has it.
function(kpu_test name)
  cmake_parse_arguments(ARG "" "SLOW" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  # first: SystemC's library brings a main of its own, and the first one that the linker finds counts
  target_link_libraries(${name} PRIVATE GTest::gtest_main GTest::gmock kpu_flags ${ARG_LINK})
  target_precompile_headers(${name} REUSE_FROM kpu_pch)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>) # compiles in 60 % of -O3's time; what it tests is -O3
  target_compile_definitions(${name} PRIVATE KPUSIM_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             KPUSIM_BINARY_DIR="${PROJECT_BINARY_DIR}")
  kpu_rooms_of(rooms ${ARG_LINK})
  foreach(room ${rooms})
    string(REPLACE "/" "-" target "room-${room}")
    add_dependencies(${target} ${name})
  endforeach()
  list(TRANSFORM rooms PREPEND "room:")
  list(JOIN rooms " " rooms)
  set_property(GLOBAL APPEND PROPERTY KPU_TEST_TARGETS ${name})
  set(found DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 LABELS)
  if(ARG_SLOW)
    gtest_discover_tests(${name} TEST_LIST ${name}_slow TEST_FILTER "${ARG_SLOW}" ${found} "${rooms} slow")
    gtest_discover_tests(${name} TEST_FILTER "-${ARG_SLOW}" ${found} "${rooms}")
  else()
    gtest_discover_tests(${name} ${found} "${rooms}")
  endif()
endfunction()

# kpu_slow(TEST...): what takes above two seconds; the fast tests are the others. A folder of such: kpu_label(slow).
function(kpu_slow)
  set_property(TEST ${ARGN} APPEND PROPERTY LABELS slow)
endfunction()

# kpu_label(LABEL), last in a folder of tests: all of them get a label that test.sh chooses by. packages, rtl, browser: they need
# packages of .venv (or Valgrind), Verilator, a browser; smoke: quick for what they find.
function(kpu_label label)
  get_property(tests DIRECTORY PROPERTY TESTS)
  if(tests)
    set_property(TEST ${tests} APPEND PROPERTY LABELS ${label})
  endif()
  set_property(DIRECTORY PROPERTY LABELS ${label}) # of those that GoogleTest finds
endfunction()

# kpu_embed(OUT_VAR NAMESPACE_SYMBOL FILES...): text files as a constexpr table {name, text} in a generated source.
function(kpu_embed out symbol)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cpp)
  set(files ${ARGN})
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} -DOUT=${generated} -DSYMBOL=${symbol} "-DFILES=${files}"
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)
  set(${out} ${generated} PARENT_SCOPE)
endfunction()

# kpu_rows(NAME FILE TYPE kpu::room::Row HEADER header): the names in a list file, one a line (# comments), as
# NAME_names; and as NAME_source a generated source that defines kpu::room::NAME(): the object <name>_<row> of each.
function(kpu_rows name file)
  cmake_parse_arguments(ARG "" "TYPE;HEADER" "" ${ARGN})
  file(REAL_PATH ${file} list)
  file(STRINGS ${list} names REGEX "^[a-z]")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  string(REGEX REPLACE "^(.*)::([A-Za-z]+)$" "\\1;\\2" parts ${ARG_TYPE})
  list(GET parts 0 namespace)
  list(GET parts 1 row)
  string(REGEX REPLACE "([a-z])([A-Z])" "\\1_\\2" suffix ${row})
  string(TOLOWER ${suffix} suffix)
  set(externs "")
  set(pointers "")
  foreach(item ${names})
    string(APPEND externs "extern const ${row} ${item}_${suffix};\n")
    string(APPEND pointers "        &${item}_${suffix},\n")
  endforeach()
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${name}_list.cpp)
  file(CONFIGURE OUTPUT ${generated} CONTENT "// Generated from ${file}.\n#include \"${ARG_HEADER}\"\n
namespace ${namespace} {\n${externs}
const std::vector<const ${row}*>& ${name}() {
    static const std::vector<const ${row}*> rows{\n${pointers}    };\n    return rows;\n}\n\n}  // namespace ${namespace}\n" @ONLY)
  # An object file of its own: tests put another list in its place.
  set_source_files_properties(${generated} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set(${name}_names ${names} PARENT_SCOPE)
  set(${name}_source ${generated} PARENT_SCOPE)
endfunction()

# kpu_proto(NAME FILE): target kpu_NAME from one schema; include it as "folder/file.pb.h".
function(kpu_proto name file)
  file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  string(REPLACE ".proto" ".pb" stem ${path})
  set(generated ${PROJECT_BINARY_DIR}/${stem}.cc)
  add_custom_command(
    OUTPUT ${generated} ${PROJECT_BINARY_DIR}/${stem}.h
    COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} --cpp_out=${PROJECT_BINARY_DIR} ${path}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    DEPENDS ${file}
    VERBATIM)
  add_library(kpu_${name} STATIC ${generated} ${PROJECT_BINARY_DIR}/${stem}.h)
  target_include_directories(kpu_${name} PUBLIC ${PROJECT_BINARY_DIR})
  target_link_libraries(kpu_${name} PUBLIC protobuf::libprotobuf)
  target_compile_options(kpu_${name} PRIVATE -w) # generated code
  if(name IN_LIST kpu_cold_rooms)
    target_compile_options(kpu_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()
