# pillion_program_library(NAME SOURCES … PROGRAMS "name kind devices" … [LINK …]): a library of side tasks that
# pillion-host loads when one of the listed programs is asked for.
function(pillion_program_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PROGRAMS;LINK" ${ARGN})
  set(directory ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/pillion/programs)
  add_library(${name} MODULE ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE pillion_flags ${arg_LINK})
  set_target_properties(${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${directory})
  list(JOIN arg_PROGRAMS "\n" text)
  file(MAKE_DIRECTORY ${directory})
  file(WRITE ${directory}/${name}.programs "${text}\n")
endfunction()
