find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_package(Threads REQUIRED)
set(preload LD_PRELOAD=$<TARGET_FILE:granary>)
set(library_environment GRANARY_LIB=$<TARGET_FILE:granary> GRANARY_BUILD=${CMAKE_BINARY_DIR})

# The programs misuse memory on purpose, so the warnings that would say so are off.
set(program_flags -O2 -g -fno-builtin -Wall -Wextra
  -Wno-unused-result -Wno-use-after-free -Wno-free-nonheap-object -Wno-deprecated-declarations
  -Wno-alloc-size-larger-than $<$<COMPILE_LANGUAGE:CXX>:-Wno-mismatched-new-delete>
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-sized-deallocation>)

function(granary_program target folder name source)
  add_executable(${target} ${source})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
    ${CMAKE_SOURCE_DIR}/core/include)
  target_compile_options(${target} PRIVATE ${program_flags})
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE
    $<$<BOOL:${CMAKE_CROSSCOMPILING}>:GRANARY_EMULATED>)
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} rt)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test/${folder})
endfunction()

# Runs a program (with arguments) with the library preloaded. Under emulation the emulator passes
# the variable on.
function(granary_preload_test test target)
  if(CMAKE_CROSSCOMPILING)
    add_test(NAME ${test}
      COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} -E ${preload} $<TARGET_FILE:${target}> ${ARGN})
    set_tests_properties(${test} PROPERTIES ENVIRONMENT "${library_environment}")
  else()
    add_test(NAME ${test} COMMAND ${target} ${ARGN})
    set_tests_properties(${test} PROPERTIES ENVIRONMENT "${preload};${library_environment}")
  endif()
endfunction()

# Storms and process tests use every CPU and thousands of threads, so ctest -j runs them alone.
set(processors_conform 1)
set(processors_process 2)
set(processors_storm 2)
set(static_flavours conform storm)

foreach(folder conform process storm)
  file(GLOB programs CONFIGURE_DEPENDS ${folder}/*.cc ${folder}/*.c)
  foreach(source ${programs})
    cmake_path(GET source STEM name)
    # The program runs itself again, which an emulated program cannot do.
    if(CMAKE_CROSSCOMPILING AND name STREQUAL "options_fill")
      continue()
    endif()
    granary_program(${folder}_${name} ${folder} ${name} ${source})
    granary_preload_test(${folder}.${name} ${folder}_${name})
    set(tests ${folder}.${name})
    if(folder IN_LIST static_flavours)
      granary_program(${folder}_${name}_static ${folder} ${name}.static ${source})
      target_link_libraries(${folder}_${name}_static PRIVATE
        -Wl,--whole-archive granary_static -Wl,--no-whole-archive)
      # Programs that call dlsym for Granary's symbols must find them in themselves.
      set_target_properties(${folder}_${name}_static PROPERTIES ENABLE_EXPORTS ON)
      add_test(NAME ${folder}.${name}.static COMMAND ${folder}_${name}_static)
      set_tests_properties(${folder}.${name}.static PROPERTIES
        ENVIRONMENT "${library_environment};GRANARY_STATIC=1")
      list(APPEND tests ${folder}.${name}.static)
    endif()
    set_tests_properties(${tests} PROPERTIES
      TIMEOUT ${seconds} SKIP_RETURN_CODE 77 PROCESSORS ${processors_${folder}})
    if(folder STREQUAL storm)  # with ready lists and without, whatever this processor prefers
      set_property(TEST ${folder}.${name} APPEND PROPERTY ENVIRONMENT GRANARY_CONF=ready_lists:always)
      set_property(TEST ${folder}.${name}.static APPEND PROPERTY
        ENVIRONMENT GRANARY_CONF=ready_lists:never)
    endif()
  endforeach()
endforeach()
include(unwind.cmake)

# With option hardened: whatever does not count size classes, or read freed memory.
foreach(test conform.aligned_alloc conform.calloc conform.free_sized conform.jemalloc_under_load
    conform.malloc conform.malloc_usable_size conform.memalign conform.operator_delete conform.operator_new
    conform.posix_memalign conform.random_model conform.realloc conform.realloc_growth conform.reallocarray
    conform.scoped_heaps process.exit_while_allocating process.fork_multithreaded process.vfork_allocates
    storm.random_calls storm.remote_frees storm.signals storm.queues storm.thread_churn storm.profile_switch)
  string(REPLACE "." "_" target ${test})
  granary_preload_test(hardened.${test} ${target})
  set_tests_properties(hardened.${test} PROPERTIES TIMEOUT ${seconds} SKIP_RETURN_CODE 77 PROCESSORS 2)
  set_property(TEST hardened.${test} APPEND PROPERTY ENVIRONMENT GRANARY_CONF=hardened:true)
endforeach()

# The heap of a forked child is a copy here; copying takes long.
granary_preload_test(backed.process.fork_multithreaded process_fork_multithreaded 20)
set_tests_properties(backed.process.fork_multithreaded PROPERTIES TIMEOUT ${seconds} PROCESSORS 2)
set_property(TEST backed.process.fork_multithreaded APPEND PROPERTY
  ENVIRONMENT GRANARY_CONF=hardened:true,check_at_exit:true,backing:/tmp/granary-backed-fork)

# Where glibc does not register threads for restartable sequences, and without any.
foreach(test conform.jemalloc_under_load conform.random_model conform.statistics process.clone_own_tls
    process.clone_shared_tls process.dlopen_library process.exit_while_allocating process.fork_multithreaded process.many_threads
    process.release_counts process.signals process.thread_exit process.vfork_allocates storm.affinity storm.forks
    storm.profile_switch storm.queues storm.random_calls storm.remote_frees storm.signals storm.thread_churn)
  string(REPLACE "." "_" target ${test})
  granary_preload_test(own_registration.${test} ${target})
  granary_preload_test(thread_caches.${test} ${target})
  set(tests own_registration.${test} thread_caches.${test})
  set_tests_properties(${tests} PROPERTIES TIMEOUT ${seconds} SKIP_RETURN_CODE 77 PROCESSORS 2)
  set_property(TEST own_registration.${test} APPEND PROPERTY ENVIRONMENT GLIBC_TUNABLES=glibc.pthread.rseq=0)
  set_property(TEST thread_caches.${test} APPEND PROPERTY ENVIRONMENT GRANARY_CONF=rseq:false)
endforeach()

# One test per ROW of these programs.
file(GLOB programs CONFIGURE_DEPENDS compat/*.cc)
foreach(source ${programs})
  cmake_path(GET source STEM name)
  granary_program(compat_${name} compat ${name} ${source})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(STRINGS ${source} rows REGEX "^ROW")
  foreach(row ${rows})
    string(REGEX REPLACE "^ROW.\"([^\"]+)\".*" "\\1" row ${row})
    granary_preload_test(compat.${row} compat_${name} ${row})
    set_tests_properties(compat.${row} PROPERTIES TIMEOUT ${seconds} SKIP_RETURN_CODE 77)
  endforeach()
endforeach()

if(CMAKE_CROSSCOMPILING)
  return()
endif()

file(GLOB programs CONFIGURE_DEPENDS misuse/*.cc misuse/*.c)
foreach(source ${programs})
  cmake_path(GET source STEM name)
  granary_program(misuse_${name} misuse ${name} ${source})
  add_test(NAME misuse.${name} COMMAND Python3::Interpreter
    ${CMAKE_SOURCE_DIR}/scripts/run_misuse.py ${source} $<TARGET_FILE:misuse_${name}>)
  set_tests_properties(misuse.${name} PROPERTIES TIMEOUT ${seconds} ENVIRONMENT "${library_environment}")
endforeach()

granary_program(misuse_kinds misuse_kinds kinds misuse_kinds/kinds.cc)
add_test(NAME misuse_kinds COMMAND Python3::Interpreter
  ${CMAKE_SOURCE_DIR}/scripts/misuse_kinds.py $<TARGET_FILE:misuse_kinds>
  Granary=$<TARGET_FILE:granary> Hardened=$<TARGET_FILE:granary>,hardened:true
  --at-least Granary=68 --at-least Hardened=100)
set_tests_properties(misuse_kinds PROPERTIES TIMEOUT ${seconds})

# Servers, and what uses every CPU itself, run alone; the others run two at a time.
set(beside_others gcc gdb git java node plugin ruby rust sqlite static_init static_stacks valgrind)
file(GLOB scripts CONFIGURE_DEPENDS programs/*.sh)
foreach(script ${scripts})
  cmake_path(GET script STEM name)
  set(processors 2)
  if(name IN_LIST beside_others)
    set(processors 1)
  endif()
  add_test(NAME programs.${name} COMMAND sh ${script})
  set_tests_properties(programs.${name} PROPERTIES TIMEOUT ${seconds} SKIP_RETURN_CODE 77
    PROCESSORS ${processors} ENVIRONMENT "${library_environment}")
endforeach()

foreach(script test_install test_need fast_path)
  add_test(NAME scripts.${script} COMMAND bash ${CMAKE_SOURCE_DIR}/scripts/${script}.sh)
  set_tests_properties(scripts.${script} PROPERTIES TIMEOUT ${seconds} SKIP_RETURN_CODE 77
    ENVIRONMENT "${library_environment}")
endforeach()
foreach(kind deb rpm)
  add_test(NAME scripts.test_${kind} COMMAND bash ${CMAKE_SOURCE_DIR}/scripts/test_${kind}.sh)
  set_tests_properties(scripts.test_${kind} PROPERTIES TIMEOUT ${seconds} SKIP_RETURN_CODE 77)
endforeach()
add_test(NAME scripts.test_chroot COMMAND bash ${CMAKE_SOURCE_DIR}/scripts/test_chroot.sh)
set_tests_properties(scripts.test_chroot PROPERTIES TIMEOUT ${seconds} SKIP_RETURN_CODE 77)
# All four write the same list of installed files, so one runs after the other. They start first, beside the short tests.
set_tests_properties(scripts.test_install scripts.test_deb scripts.test_rpm scripts.test_chroot PROPERTIES RESOURCE_LOCK install COST 1)
foreach(script check_layers_test check_suites_test check_suites)
  add_test(NAME scripts.${script} COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/scripts/${script}.py)
endforeach()
add_test(NAME scripts.vm_report_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/core/test/vm/report_test.py)
add_test(NAME scripts.check_exports COMMAND Python3::Interpreter
  ${CMAKE_SOURCE_DIR}/scripts/check_exports.py $<TARGET_FILE:granary>)
