//go:build !unix

package aligned

const wantHugeAlign = PageBytes // the heap gives no more
