#pragma once
#include <array>
#include <string_view>

namespace mxtape {

/// A name that another project has for a format, and what is written for it here. One of:
struct PeerName {
  std::string_view name;
  std::string_view ours = {};     ///< the text that means exactly the same: the name is accepted
  std::string_view element = {};  ///< the name may be this element, or
  std::string_view blocks = {};   ///< this format with a scale per block: an error that names both
  std::string_view remark = {};   ///< an error that says this
  constexpr bool is_exact() const { return !ours.empty(); }
};

// microxcaling and torchao call a format with block scales by its element's name, ml_dtypes and PyTorch a
// plain cast. Whoever writes such a name here may mean either, so it is answered and not guessed.
inline constexpr std::array peer_names{
    PeerName{.name = "float32", .ours = "f32"},
    PeerName{.name = "fp32", .ours = "f32"},
    PeerName{.name = "bfloat16", .ours = "bf16"},
    PeerName{.name = "float16", .ours = "f16"},
    PeerName{.name = "fp16", .ours = "f16"},
    PeerName{.name = "e4m3fn", .ours = "e4m3"},
    PeerName{.name = "e3m2fn", .ours = "e3m2"},
    PeerName{.name = "e2m3fn", .ours = "e2m3"},
    PeerName{.name = "e2m1fn", .ours = "e2m1"},
    PeerName{.name = "mxfp8e4m3", .ours = "mxfp8_e4m3"},
    PeerName{.name = "mxfp8e5m2", .ours = "mxfp8_e5m2"},
    PeerName{.name = "mxfp6e3m2", .ours = "mxfp6_e3m2"},
    PeerName{.name = "mxfp6e2m3", .ours = "mxfp6_e2m3"},
    PeerName{.name = "mxfp4e2m1", .ours = "mxfp4"},
    PeerName{.name = "mxfp4_e2m1", .ours = "mxfp4"},
    PeerName{.name = "fp8_e4m3", .element = "e4m3", .blocks = "mxfp8_e4m3"},
    PeerName{.name = "fp8_e5m2", .element = "e5m2", .blocks = "mxfp8_e5m2"},
    PeerName{.name = "fp6_e3m2", .element = "e3m2", .blocks = "mxfp6_e3m2"},
    PeerName{.name = "fp6_e2m3", .element = "e2m3", .blocks = "mxfp6_e2m3"},
    PeerName{.name = "fp4_e2m1", .element = "e2m1", .blocks = "mxfp4"},
    PeerName{.name = "fp4", .element = "e2m1", .blocks = "mxfp4"},
    PeerName{.name = "float8_e4m3fn", .element = "e4m3", .blocks = "mxfp8_e4m3"},
    PeerName{.name = "float8_e5m2", .element = "e5m2", .blocks = "mxfp8_e5m2"},
    PeerName{.name = "float6_e3m2fn", .element = "e3m2", .blocks = "mxfp6_e3m2"},
    PeerName{.name = "float6_e2m3fn", .element = "e2m3", .blocks = "mxfp6_e2m3"},
    PeerName{.name = "float4_e2m1fn", .element = "e2m1", .blocks = "mxfp4"},
    PeerName{.name = "float4_e2m1fn_x2", .element = "e2m1", .blocks = "mxfp4"},
    PeerName{.name = "fp8",
             .remark = "is e4m3 or e5m2; write 'mxfp8_e4m3' or 'mxfp8_e5m2' for blocks of 32 "
                       "with a scale, 'e4m3' or 'e5m2' for a plain cast"},
    PeerName{.name = "fp6",
             .remark = "is e3m2 or e2m3; write 'mxfp6_e3m2' or 'mxfp6_e2m3' for blocks of 32 "
                       "with a scale, 'e3m2' or 'e2m3' for a plain cast"},
    PeerName{.name = "float8_e4m3",
             .remark = "has infinities in ml_dtypes, and is e4m3fn elsewhere; write "
                       "'e4m3 specials=ieee' for the one, 'e4m3' for the other"},
    PeerName{.name = "float8_e4m3fnuz", .remark = "has another bias; there is no such element here"},
    PeerName{.name = "float8_e5m2fnuz", .remark = "has another bias; there is no such element here"},
    PeerName{.name = "e8m0", .remark = "is a format of scales; write scale=e8m0 after an element"},
    PeerName{.name = "float8_e8m0fnu", .remark = "is a format of scales; write scale=e8m0 after an element"},
    PeerName{.name = "mxint4", .remark = "is no OCP format; write 'int4 scale=e8m0' for microxcaling's"},
    PeerName{.name = "mxint2", .remark = "is no OCP format; write 'int2 scale=e8m0' for microxcaling's"}};

}  // namespace mxtape
