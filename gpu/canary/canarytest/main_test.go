package canarytest_test

import (
	"testing"

	"github.com/sealstone/sealstone/gpu/canary/canarytest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	canarytest.Main()
	goleak.VerifyTestMain(m)
}
