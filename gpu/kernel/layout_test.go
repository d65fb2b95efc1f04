package kernel

import (
	"encoding/hex"
	"testing"
)

// The C double of the driver and verify.cu read these bytes, so they stand
// here as literals.
func TestLayoutParameter(t *testing.T) {
	got := hex.EncodeToString(params{
		pieces: 0x1112131415161718, accumulators: 0x2122232425262728,
		got: 0x3132333435363738, status: 0x4142434445464748, count: 0x51525354,
	}.encode())
	const want = "1817161514131211" + "2827262524232221" + "3837363534333231" + "4847464544434241" + "54535251" + "00000000"
	if got != want {
		t.Errorf("parameter is\n%s, want\n%s", got, want)
	}
	if len(want)/2 != ParamBytes {
		t.Errorf("ParamBytes is %d", ParamBytes)
	}
}

func TestLayoutPiece(t *testing.T) {
	row := make([]byte, PieceBytes)
	for i := range row {
		row[i] = 0xee
	}
	Piece{Address: 0x1112131415161718, LengthBytes: 0x21222324, Want: 0x3132333435363738}.put(row)
	const want = "1817161514131211" + "24232221" + "00000000" + "3837363534333231"
	if got := hex.EncodeToString(row); got != want {
		t.Errorf("row is\n%s, want\n%s", got, want)
	}
}
