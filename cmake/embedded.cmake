# The shipped recipes, built into the program so that their names work from any folder. Sets `shipped_recipes` to a
# C++ file that is written again whenever one of them changes.
set(recipe_folder "${PROJECT_SOURCE_DIR}/recipes")
file(GLOB_RECURSE recipe_files RELATIVE "${recipe_folder}" CONFIGURE_DEPENDS "${recipe_folder}/*.toml")
list(JOIN recipe_files "|" recipe_list)
list(TRANSFORM recipe_files PREPEND "${recipe_folder}/")
set(shipped_recipes "${PROJECT_BINARY_DIR}/shipped_recipes.cpp")
set(embed_script "${PROJECT_SOURCE_DIR}/cmake/embed_recipes.cmake")
add_custom_command(OUTPUT "${shipped_recipes}" VERBATIM
  COMMAND ${CMAKE_COMMAND} "-DFOLDER=${recipe_folder}" "-DFILES=${recipe_list}" "-DOUTPUT=${shipped_recipes}" -P "${embed_script}"
  DEPENDS ${recipe_files} "${embed_script}")

# Sets `result` to a C++ file that defines mxtape::<symbol> as the text of `file`.
function(mxtape_embed result file symbol)
  set(made "${PROJECT_BINARY_DIR}/${symbol}.cpp")
  set(script "${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake")
  add_custom_command(OUTPUT "${made}" VERBATIM
    COMMAND ${CMAKE_COMMAND} "-DFILE=${PROJECT_SOURCE_DIR}/${file}" -DSYMBOL=${symbol} "-DOUTPUT=${made}" -P "${script}"
    DEPENDS "${PROJECT_SOURCE_DIR}/${file}" "${script}")
  set(${result} "${made}" PARENT_SCOPE)
endfunction()
