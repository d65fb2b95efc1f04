package engine

import (
	"context"

	"github.com/sealstone/sealstone/gpu"
)

// GetToDeviceOp is a Namespace.GetToDevice to be submitted.
type GetToDeviceOp struct {
	Namespace *Namespace
	Context   context.Context // nil means context.Background()
	Device    *gpu.Device
	Blocks    []DeviceGetBlock
	Options   DeviceGetOptions
	Results   []DeviceGetResult // set before done is called
}

// PutFromDeviceOp is a Namespace.PutFromDevice to be submitted.
type PutFromDeviceOp struct {
	Namespace *Namespace
	Context   context.Context // nil means context.Background()
	Device    *gpu.Device
	Blocks    []DevicePutBlock
	Options   PutOptions
	Results   []PutResult // set before done is called
}

func (o *GetToDeviceOp) do() {
	o.Results = o.Namespace.GetToDevice(orBackground(o.Context), o.Device, o.Blocks, o.Options)
}

func (o *PutFromDeviceOp) do() {
	o.Results = o.Namespace.PutFromDevice(orBackground(o.Context), o.Device, o.Blocks, o.Options)
}

func (o *GetToDeviceOp) namespace() *Namespace {
	if o == nil {
		return nil
	}
	return o.Namespace
}

func (o *PutFromDeviceOp) namespace() *Namespace {
	if o == nil {
		return nil
	}
	return o.Namespace
}
