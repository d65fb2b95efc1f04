package kernel

import _ "embed"

//go:generate ./generate.sh

// ptxText is the compiled kernel. It is text: any driver of CUDA 10.0 or later
// compiles it for its own GPU (PTX 6.3, sm_75).
//
//go:embed verify.ptx
var ptxText []byte
