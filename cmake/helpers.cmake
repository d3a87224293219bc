# Flags that every target of ours shares.
add_library(pillion_flags INTERFACE)
target_include_directories(pillion_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/api)
target_compile_options(pillion_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers>)
if(PILLION_SANITIZE)
  target_compile_options(pillion_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${PILLION_SANITIZE} -fno-omit-frame-pointer>)
  target_link_options(pillion_flags INTERFACE -fsanitize=${PILLION_SANITIZE})
endif()
if(PILLION_FUZZERS)  # lets libFuzzer see which branches of the libraries an input takes
  target_compile_options(pillion_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=fuzzer-no-link>)
endif()
find_program(PILLION_LLD ld.lld)
if(PILLION_LLD)
  add_link_options(-fuse-ld=lld)
endif()

# pillion_library(NAME SOURCES ... [LINK ...]): a static library of one room.
function(pillion_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC pillion_flags ${arg_LINK})
endfunction()

# pillion_binary(NAME SOURCES ... [LINK ...]): a program in build/<preset>/bin.
function(pillion_binary name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE pillion_flags ${arg_LINK})
endfunction()

# pillion_test(NAME SOURCES ... [LINK ...] [LABEL unit] [TIMEOUT 120] [SERIAL]): a GoogleTest binary; ctest
# runs each of its tests in its own process. SERIAL: timing matters, nothing else may run beside it.
include(GoogleTest)
function(pillion_test name)
  cmake_parse_arguments(arg "SERIAL" "LABEL;TIMEOUT" "SOURCES;LINK;DEPENDS" ${ARGN})
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE pillion_flags ${arg_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    PILLION_SOURCE_DIR="${PROJECT_SOURCE_DIR}" PILLION_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
    PILLION_LIB_DIR="${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
  set(properties LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT})
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES ${properties})
  if(arg_DEPENDS)
    add_dependencies(${name} ${arg_DEPENDS})
  endif()
endfunction()
