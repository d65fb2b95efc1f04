package reports_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/gpu/canary/canarytest"
)

func TestMain(m *testing.M) {
	canarytest.Main() // in the child of a canary it does not return
	goleak.VerifyTestMain(m)
}
