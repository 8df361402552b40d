# find_package(Granary) gives Granary::granary (shared) and Granary::static (archive).
include(${CMAKE_CURRENT_LIST_DIR}/GranaryTargets.cmake)
