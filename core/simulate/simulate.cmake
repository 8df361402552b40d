# The program of `granary simulate`: the objects of the library itself, over another system. It takes
# the places of the objects that call the kernel, and defines no malloc.
file(GLOB simulate_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cc)
set(replaced "/(os/linux|front/threads|entry/libc|entry/operators|entry/vfork)\\.cc")
add_executable(simulate ${simulate_sources}
  $<FILTER:$<TARGET_OBJECTS:granary_layers>,EXCLUDE,${replaced}>
  $<FILTER:$<TARGET_OBJECTS:granary_entry>,EXCLUDE,${replaced}>)
set_target_properties(simulate PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
target_include_directories(simulate PRIVATE ${CMAKE_CURRENT_LIST_DIR}/..)
target_link_libraries(simulate PRIVATE granary_settings)
target_compile_options(simulate PRIVATE -Wall -Wextra $<$<BOOL:${GRANARY_WERROR}>:-Werror> -O2
  -fno-exceptions -ftls-model=initial-exec -fvisibility=hidden)
# What the library writes into an object is only noted.
target_link_options(simulate PRIVATE LINKER:--wrap=memset,--wrap=memcpy)
install(TARGETS simulate DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/granary/bench)
