# Compares the stack walker with the compiler's own unwinder, in code compiled in several variants.
# The name of the test names the variant.
file(GLOB unwind_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unwind/*.cc)
set(unwind_flags -g -Wall -Wextra -D_GNU_SOURCE -I${CMAKE_SOURCE_DIR}/core/src)

function(granary_unwind_target way)
  set(target unwind_${way})
  add_executable(${target} ${ARGN} $<TARGET_OBJECTS:granary_layers>)
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${way} LINKER_LANGUAGE CXX
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test/unwind)
  add_test(NAME unwind.${way} COMMAND ${target})
  set_tests_properties(unwind.${way} PROPERTIES TIMEOUT ${seconds} PROCESSORS 2)
endfunction()

function(granary_unwind_gcc way)
  granary_unwind_target(${way} ${unwind_sources})
  target_compile_options(unwind_${way} PRIVATE ${unwind_flags} ${ARGN})
  target_link_options(unwind_${way} PRIVATE ${ARGN})
endfunction()

# Compiled by clang and linked like the other programs.
function(granary_unwind_clang way)
  set(objects)
  foreach(source ${unwind_sources})
    cmake_path(GET source STEM name)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/unwind_${way}/${name}.o)
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/unwind_${way})
    add_custom_command(OUTPUT ${object} DEPFILE ${object}.d DEPENDS ${source}
      COMMAND ${unwind_clang} -std=c++20 ${unwind_flags} ${ARGN} -MD -MF ${object}.d -c ${source}
        -o ${object})
    list(APPEND objects ${object})
  endforeach()
  granary_unwind_target(${way} ${objects})
endfunction()

granary_unwind_gcc(gcc_O0 -O0)
# Segments far apart: the loader then reports only the segment around an address.
granary_unwind_gcc(gcc_O2_lazy -O2 -fomit-frame-pointer -fno-pie -no-pie -Wl,-z,lazy
  -Wl,-z,separate-code,-z,max-page-size=65536)
granary_unwind_gcc(gcc_O3_fp -O3 -fno-omit-frame-pointer -Wl,-z,now)
if(NOT CMAKE_CROSSCOMPILING)
  find_program(unwind_clang NAMES clang++ clang++-19 clang++-16 clang++-14)
  if(unwind_clang)
    granary_unwind_clang(clang_O1 -O1 -fPIE -fno-omit-frame-pointer)
    granary_unwind_clang(clang_O3 -O3 -fPIE -fomit-frame-pointer)
  endif()
endif()
