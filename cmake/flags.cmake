# Every target gets the same arithmetic. round_even() relies on IEEE additions, so:
#   -ffp-contract=off     a fused multiply-add would round once where the definition rounds twice
#   -fno-math-errno -fno-trapping-math   change no value; without them g++ 12 does not vectorise
# Never -ffast-math, -Ofast or -funsafe-math-optimizations: tests/no_fast_math.cmake looks for them.
# Headers hold roundings too. So what is not $<BUILD_INTERFACE> is installed, as mxtape::flags, and reaches the programs that
# are linked with the library.
add_library(mxtape_flags INTERFACE)
set_target_properties(mxtape_flags PROPERTIES EXPORT_NAME flags)
target_include_directories(mxtape_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
target_compile_features(mxtape_flags INTERFACE cxx_std_20)
target_compile_options(mxtape_flags INTERFACE
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-psabi>>
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off -fno-math-errno -fno-trapping-math>
  $<BUILD_INTERFACE:$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${MXTAPE_WERROR}>>:-Werror>>
  # The same arithmetic in kernels: no fused multiply-add unless it is written, subnormals kept, exact division.
  # FMT_USE_CONSTEXPR: fmt 9 takes nvcc for a compiler without constexpr.
  $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false --expt-relaxed-constexpr --extended-lambda -DFMT_USE_CONSTEXPR=1>
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-psabi,-ffp-contract=off>>
  $<INSTALL_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffp-contract=off>>
  $<BUILD_INTERFACE:$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${MXTAPE_WERROR}>>:-Werror=all-warnings -Xcompiler=-Werror>>)
if(MXTAPE_SANITIZE)  # installed too: what is linked with instrumented objects needs the sanitizer's library
  # g++ 12 warns of uninitialised values inside std::regex as soon as sanitizers are on (its manual: they give false positives).
  target_compile_options(mxtape_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_compile_options(mxtape_flags INTERFACE -fsanitize=${MXTAPE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(mxtape_flags INTERFACE -fsanitize=${MXTAPE_SANITIZE})
endif()
