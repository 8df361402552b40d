# The programs of `granary simulate`: the objects of the library itself, over another system. It takes
# the places of the objects that call the kernel, and defines no malloc.
file(GLOB simulate_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cc)
set(replaced "/(os/linux_(files|memory|threads)|front/threads|entry/libc|entry/operators|entry/vfork)\\.cc")

# Over the objects of the targets in ARGN, which `defined` tells from those of the library.
function(granary_simulator name defined)
  add_executable(${name} ${simulate_sources})
  foreach(objects ${ARGN})
    target_sources(${name} PRIVATE $<FILTER:$<TARGET_OBJECTS:${objects}>,EXCLUDE,${replaced}>)
  endforeach()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/..)
  target_link_libraries(${name} PRIVATE granary_settings)
  target_compile_definitions(${name} PRIVATE ${defined})
  target_compile_options(${name} PRIVATE -Wall -Wextra $<$<BOOL:${GRANARY_WERROR}>:-Werror> -O2
    -fno-exceptions -ftls-model=initial-exec -fvisibility=hidden)
  # What the library writes into an object is only noted.
  target_link_options(${name} PRIVATE LINKER:--wrap=memset,--wrap=memcpy)
  install(TARGETS ${name} DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/granary/bench)
endfunction()

granary_simulator(simulate "" granary_layers granary_entry)
granary_simulator(simulate_coarse GRANARY_COARSE_CLASSES granary_coarse)
