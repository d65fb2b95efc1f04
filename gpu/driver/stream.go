//go:build cgo && linux

package driver

/*
#include "shim.h"
*/
import "C"

// StreamCreate makes a stream that does not wait for the default stream of the
// host application.
func (c *Context) StreamCreate() (Stream, error) {
	r := C.ss_stream_create(c.t, c.ctx)
	return Stream(r.value), check(r)
}

// StreamDestroy gives a stream back. What was put into it still runs.
func (c *Context) StreamDestroy(s Stream) error {
	return check(C.ss_stream_destroy(c.t, c.ctx, C.uintptr_t(s)))
}

// StreamQuery says whether all work put into the stream is done. An error may be
// that of the work.
func (c *Context) StreamQuery(s Stream) (done bool, err error) {
	return ready(C.ss_stream_query(c.t, c.ctx, C.uintptr_t(s)))
}

// StreamSynchronize waits until all work put into the stream is done. It cannot
// be given up.
func (c *Context) StreamSynchronize(s Stream) error {
	return check(C.ss_stream_sync(c.t, c.ctx, C.uintptr_t(s)))
}

// StreamWaitEvent makes later work of the stream wait for what the event
// recorded, without waiting itself.
func (c *Context) StreamWaitEvent(s Stream, e Event) error {
	return check(C.ss_stream_wait(c.t, c.ctx, C.uintptr_t(s), C.uintptr_t(e)))
}

// EventCreate makes an event that can be waited for without burning a core, and
// that takes no times.
func (c *Context) EventCreate() (Event, error) {
	r := C.ss_event_create(c.t, c.ctx)
	return Event(r.value), check(r)
}

// EventDestroy gives an event back.
func (c *Context) EventDestroy(e Event) error {
	return check(C.ss_event_destroy(c.t, c.ctx, C.uintptr_t(e)))
}

// EventRecord marks the work that was put into the stream so far.
func (c *Context) EventRecord(e Event, s Stream) error {
	return check(C.ss_event_record(c.t, c.ctx, C.uintptr_t(e), C.uintptr_t(s)))
}

// EventQuery says whether the work that the event last marked is done. An event
// that marked nothing is done.
func (c *Context) EventQuery(e Event) (done bool, err error) {
	return ready(C.ss_event_query(c.t, c.ctx, C.uintptr_t(e)))
}

// EventSynchronize waits for the work that the event last marked. It cannot be
// given up.
func (c *Context) EventSynchronize(e Event) error {
	return check(C.ss_event_sync(c.t, c.ctx, C.uintptr_t(e)))
}

// ready turns a query's CUDA_ERROR_NOT_READY into an answer.
func ready(r C.ss_result) (bool, error) {
	if r.code == codeNotReady {
		return false, nil
	}
	err := check(r)
	return err == nil, err
}
