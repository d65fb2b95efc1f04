package check

import (
	"context"

	"github.com/sealstone/sealstone/gpu/driver"
)

// scenarios plays the founding reports on a device.
func (r *runner) scenarios(ctx context.Context, d *driver.Driver, dev *device, dir string) {}
