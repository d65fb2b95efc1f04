//go:build unix

package aligned

const wantHugeAlign = HugePageBytes
