package cli

import "testing"

func TestSizeFlag(t *testing.T) {
	var v size
	if err := v.Set("1.5GiB"); err != nil || v != 3<<29 || v.String() != "1536MiB" || v.Type() != "size" {
		t.Errorf("1.5GiB is %d, %q, %q, %v", int64(v), v.String(), v.Type(), err)
	}
	if err := v.Set("much"); err == nil || v != 3<<29 {
		t.Errorf("what is no size: %v, and the value is %d", err, int64(v))
	}
}
